// An event that happens once, and that many threads may wait for.
#pragma once

#include <atomic>
#include <climits>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace twinbox {

/// Thread-safe. Waits by the system's own means: `std::atomic::wait` yields repeatedly before it
/// sleeps, and many waiting threads starve the working ones.
class Signal {
 public:
  void wait() noexcept {
    int seen = unset;
    if (state_.compare_exchange_strong(seen, awaited, std::memory_order_acquire)) seen = awaited;
    while (seen != happened) {
      ::syscall(SYS_futex, &state_, FUTEX_WAIT_PRIVATE, awaited, nullptr, nullptr, 0);
      seen = state_.load(std::memory_order_acquire);
    }
  }

  /// Wakes all waiting threads.
  void set() noexcept {
    if (state_.exchange(happened, std::memory_order_acq_rel) != awaited) return;
    ::syscall(SYS_futex, &state_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
  }

 private:
  static constexpr int unset = 0;
  static constexpr int happened = 1;
  static constexpr int awaited = 2;  ///< only then a thread has to be woken
  std::atomic<int> state_ = unset;
  static_assert(sizeof(std::atomic<int>) == sizeof(int));
};

}  // namespace twinbox
