// Workers announce what they handle, so that a replica of another version leaves those deliveries
// to them.
#pragma once

#include <chrono>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "twinbox/handler.hpp"

namespace twinbox {

/// Larger ones are cut.
inline constexpr std::size_t max_announcement_size = 64 * 1024;

struct Announcement {
  std::string text;          ///< JSON: keys, patterns, topics
  std::size_t left_out = 0;  ///< names that did not fit
};

Announcement announcement_of(const Handlers& handlers);

/// The announcements of the live workers of a box, except one's own. Thread-safe.
class OtherWorkers {
 public:
  /// `queue` must outlive it.
  OtherWorkers(WorkQueue& queue, OwnerToken owner) : queue_(queue), owner_(owner) {}

  /// True when one of them handles the message. Reads the announcements unless that was done after
  /// `since`. While the database is unreachable, the answer is true: the message can wait. If it
  /// refuses, there are no announcements.
  bool handle(const Message& message, std::chrono::steady_clock::time_point since);

 private:
  void read();
  void add(std::string_view announcement);

  WorkQueue& queue_;
  const OwnerToken owner_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point read_at_ = {};
  std::set<std::string, std::less<>> keys_;
  std::set<std::string, std::less<>> topics_;
  std::vector<TopicPattern> patterns_;
};

}  // namespace twinbox
