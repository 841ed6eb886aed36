// Tells a store, now and then, that a dispatcher works on it, and how much it has done.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "dispatch/task.hpp"
#include "twinbox/health.hpp"

namespace twinbox {

/// Nothing depends on it, so it fails quietly: a store that does not know of its workers, or does
/// not let them write about themselves, must still be worked on.
class WorkerHeartbeat {
 public:
  /// `announcement` must outlive it.
  WorkerHeartbeat(const OwnerToken& owner, const std::string& announcement)
      : owner_(owner), announcement_(announcement) {}

  /// Counts what is done and what fails, and hands it on to `next`. Must not outlive the presence.
  [[nodiscard]] DispatchObserver observer(DispatchObserver next);

  /// When it is time to, and then again in 15 s; `stores` share ten a second. `in_haste`: something
  /// waits for the end of it, so it may wait for another 15 s itself.
  void send(WorkQueue& queue, int stores, bool in_haste);
  /// It is listed no longer. What it announced counts until the time that was told.
  void leave(WorkQueue& queue);
  [[nodiscard]] Clock::time_point next() const noexcept { return next_; }
  /// On SQLite: the watch of the file that told something at `time` may have told of send().
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
