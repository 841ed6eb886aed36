// Single messages for the delivery by topic, written in shared commits.
#pragma once

#include <algorithm>

#include "database/pool.hpp"
#include "queue/arrivals.hpp"
#include "queue/group_commit.hpp"
#include "twinbox/database.hpp"

namespace twinbox {

/// One delivery, by topic.
inline const TargetHandlers& by_topic() {
  static const TargetHandlers targets{{}};
  return targets;
}

/// Thread-safe.
class MessageWriter : public GroupCommit<Incoming, Accepted> {
 public:
  explicit MessageWriter(Box& box)
      : GroupCommit(
            [&box](std::span<const Incoming> messages, std::span<std::optional<Accepted>> answers) {
              write_shared(box, messages, by_topic(), answers);
            },
            512, 4 << 20, longest_wait(pool_of(box.database()).options())) {}

  Accepted submit(Incoming message, std::size_t bytes) {
    // The caller that writes for all may be waiting for the connection that this thread holds. A
    // call that can be stopped neither waits for others nor ends their calls.
    const bool alone = Pool::holds_budgeted() || StopScope::token().stop_possible();
    return alone ? submit_alone(message) : GroupCommit::submit(message, bytes);
  }

 private:
  /// The batch before may wait for a lock, which is no reason to give up.
  static std::chrono::milliseconds longest_wait(const DatabaseOptions& options) {
    if (options.answer_timeout.count() == 0) return {};
    return std::max(options.answer_timeout, options.wait_timeout);
  }
};

}  // namespace twinbox
