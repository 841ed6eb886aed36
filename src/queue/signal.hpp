// Something that happens once, and that many threads may wait for.
#pragma once

#include <atomic>
#include <climits>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace twinbox {

/// Thread-safe. Waits by the system's own means: `std::atomic::wait` gives up its processor again
/// and again before it sleeps, and with many who wait those who work get none.
class Signal {
 public:
  void wait() noexcept {
    while (set_.load(std::memory_order_acquire) == 0) {
      ::syscall(SYS_futex, &set_, FUTEX_WAIT_PRIVATE, 0, nullptr, nullptr, 0);
    }
  }

  /// Wakes everybody.
  void set() noexcept {
    set_.store(1, std::memory_order_release);
    ::syscall(SYS_futex, &set_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
  }

 private:
  std::atomic<int> set_ = 0;
  static_assert(sizeof(std::atomic<int>) == sizeof(int));
};

}  // namespace twinbox
