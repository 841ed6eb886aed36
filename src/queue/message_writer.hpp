// Single messages for the duty by topic, written in shared commits.
#pragma once

#include "queue/arrivals.hpp"
#include "queue/group_commit.hpp"

namespace twinbox {

/// One duty, by topic.
inline const Addressees& by_topic() {
  static const Addressees addressees{{}};
  return addressees;
}

/// Thread-safe.
class MessageWriter : public GroupCommit<Incoming, Accepted> {
 public:
  explicit MessageWriter(Box& box)
      : GroupCommit(
            [&box](std::span<const Incoming> messages, std::span<std::optional<Accepted>> answers) {
              write_shared(box, messages, by_topic(), answers);
            },
            512, 4 << 20) {}
};

}  // namespace twinbox
