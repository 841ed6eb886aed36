// Reports a dispatcher to a store periodically, with its counts.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "dispatch/task.hpp"
#include "twinbox/health.hpp"

namespace twinbox {

/// Nothing depends on it, so it fails quietly: a store without the table of workers, or without the
/// right to write it, must still be worked on.
class WorkerHeartbeat {
 public:
  /// `announcement` must outlive it.
  WorkerHeartbeat(const OwnerToken& owner, const std::string& announcement)
      : owner_(owner), announcement_(announcement) {}

  /// Counts done and failed deliveries, and forwards the events to `next`. Must not outlive the
  /// heartbeat.
  [[nodiscard]] DispatchObserver observer(DispatchObserver next);

  /// Sends the heartbeat when it is due, and then every 15 s; `stores` share ten a second.
  /// `in_haste`: a caller waits for its end, so it may be delayed by another 15 s.
  void send(WorkQueue& queue, int stores, bool in_haste);
  /// Removes the worker. Its announcement stays valid until its end.
  void leave(WorkQueue& queue);
  [[nodiscard]] Clock::time_point next() const noexcept { return next_; }
  /// On SQLite: the notification of the file watch at `time` may be about send().
  [[nodiscard]] bool wrote_at(Clock::time_point time) const noexcept {
    return wrote_from_ <= time && time <= wrote_until_;
  }

 private:
  const OwnerToken owner_;
  const std::string& announcement_;
  std::atomic<std::int64_t> done_ = 0;
  std::atomic<std::int64_t> failed_attempts_ = 0;
  Clock::time_point next_ = {};
  Clock::time_point wrote_from_ = {};
  Clock::time_point wrote_until_ = {};
  bool told_ = false;
  bool failed_ = false;
};

}  // namespace twinbox
