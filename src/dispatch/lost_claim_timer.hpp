// Tracks claims that may have been executed although their answer was lost.
#pragma once

#include <mutex>
#include <optional>

#include "dispatch/task.hpp"

namespace twinbox {

/// A failed claim is checked at once, and again after 1, 2, 4 … s until its lease has ended: a
/// server that has not noticed the lost connection may still be executing it. Thread-safe.
class LostClaimTimer {
 public:
  /// `environment` must outlive it. Its clock is used if it has one.
  LostClaimTimer(Duration lease, const Environment& environment)
      : lease_(lease), environment_(environment) {}

  void claim_failed() {
    const std::scoped_lock lock{mutex_};
    next_ = {};
    pause_ = first_pause;
    until_ = now() + lease_;
  }
  [[nodiscard]] bool asks_now() const {
    const std::scoped_lock lock{mutex_};
    return now() >= next_;
  }
  void asked() {
    const std::scoped_lock lock{mutex_};
    next_ = now() + pause_;
    pause_ *= 2;
    if (next_ > until_) next_ = never;
  }

 private:
  [[nodiscard]] Clock::time_point now() const {
    const std::optional<Instant> given = environment_.now();
    return given ? Clock::time_point{given->time_since_epoch()} : Clock::now();
  }

  static constexpr Duration first_pause = std::chrono::seconds{1};

  const Duration lease_;
  const Environment& environment_;
  mutable std::mutex mutex_;
  Clock::time_point next_ = never;
  Clock::time_point until_ = never;
  Duration pause_ = first_pause;
};

}  // namespace twinbox
