// An event that happens once, and that many threads may wait for.
#pragma once

#include <atomic>
#include <chrono>
#include <climits>
#include <ctime>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace twinbox {

/// Thread-safe. Waits by the system's own means: `std::atomic::wait` yields repeatedly before it
/// sleeps, and many waiting threads starve the working ones.
class Signal {
 public:
  void wait() noexcept {
    int seen = start_waiting();
    while (seen != happened) seen = sleep(nullptr);
  }

  /// False: it has not happened within `time`.
  bool wait_for(std::chrono::nanoseconds time) noexcept {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point end = Clock::now() + time;
    int seen = start_waiting();
    while (seen != happened) {
      const std::chrono::nanoseconds left = end - Clock::now();
      if (left.count() <= 0) return false;
      const auto seconds = std::chrono::floor<std::chrono::seconds>(left);
      const timespec most{static_cast<time_t>(seconds.count()),
                          static_cast<long>((left - seconds).count())};
      seen = sleep(&most);
    }
    return true;
  }

  [[nodiscard]] bool is_set() const noexcept {
    return state_.load(std::memory_order_acquire) == happened;
  }

  /// Wakes all waiting threads.
  void set() noexcept {
    if (state_.exchange(happened, std::memory_order_acq_rel) != awaited) return;
    ::syscall(SYS_futex, &state_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
  }

 private:
  /// What the state is now.
  int start_waiting() noexcept {
    int seen = unset;
    const bool first = state_.compare_exchange_strong(seen, awaited, std::memory_order_acquire);
    return first ? awaited : seen;
  }
  int sleep(const timespec* most) noexcept {
    ::syscall(SYS_futex, &state_, FUTEX_WAIT_PRIVATE, awaited, most, nullptr, 0);
    return state_.load(std::memory_order_acquire);
  }

  static constexpr int unset = 0;
  static constexpr int happened = 1;
  static constexpr int awaited = 2;  ///< only then a thread has to be woken
  std::atomic<int> state_ = unset;
  static_assert(sizeof(std::atomic<int>) == sizeof(int));
};

}  // namespace twinbox
