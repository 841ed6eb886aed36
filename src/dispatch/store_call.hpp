// A call to a store that may hang: when it began, when it stops counting as brief, and when it may
// be ended for other stores.
#pragma once

#include <stop_token>

#include "dispatch/task.hpp"

namespace twinbox {

/// Under the dispatcher's lock, except for the copy of the stop source.
class StoreCall {
 public:
  struct Limits {
    Duration brief;            ///< a call that lasts longer no longer occupies a slot
    Duration interrupt_after;  ///< a call that lasts longer may be ended when another store needs a
                               ///< thread
  };
  explicit StoreCall(Limits limits) : limits_(limits) {}

  void begin(Clock::time_point now) {
    began_ = now;
    active_ = true;
  }
  /// `cut_short`: another store needed the thread.
  void end(bool cut_short) {
    // A late request to end it must not end the next call.
    if (ending_ || stop_.stop_requested()) stop_ = std::stop_source{};
    active_ = false;
    ending_ = false;
    cuts_ = cut_short ? cuts_ + 1 : 0;
  }
  /// The stop source that ends it, now that it was chosen. Request the stop without the lock.
  std::stop_source choose() noexcept {
    ending_ = true;
    return stop_;
  }

  [[nodiscard]] bool active() const noexcept { return active_; }
  [[nodiscard]] Clock::time_point began() const noexcept { return began_; }
  [[nodiscard]] const std::stop_source& stop() const noexcept { return stop_; }
  [[nodiscard]] Clock::time_point brief_until() const noexcept { return began_ + limits_.brief; }
  [[nodiscard]] bool is_brief(Clock::time_point now) const noexcept {
    return active_ && now < brief_until();
  }
  [[nodiscard]] bool hangs(Clock::time_point now) const noexcept {
    return active_ && now >= brief_until();
  }
  /// Never: it was chosen already. A slow store needs a longer timeout than a dead one, and the two
  /// look alike: the timeouts follow 1, 2, 1, 4, 1, 2, 1, 8 …, so that a long one comes eventually
  /// and short ones stay frequent.
  [[nodiscard]] Clock::time_point interruptible_at() const noexcept {
    if (!active_ || ending_) return never;
    const int next = cuts_ + 1;
    return began_ + limits_.interrupt_after * (next & -next);
  }

 private:
  Limits limits_;
  Clock::time_point began_ = {};
  std::stop_source stop_;
  bool active_ = false;
  bool ending_ = false;
  int cuts_ = 0;  ///< in a row
};

}  // namespace twinbox
