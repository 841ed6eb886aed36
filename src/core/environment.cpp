#include "twinbox/environment.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <pthread.h>
#include <system_error>
#include <unistd.h>

namespace twinbox {
namespace {

/// Counts the forks that led to this process, so that a child never hands out its parent's bits.
std::atomic<std::uint32_t>& fork_count() noexcept {
  static std::atomic<std::uint32_t> count = 0;
  [[maybe_unused]] static const int registered = pthread_atfork(
      nullptr, nullptr, [] { fork_count().fetch_add(1, std::memory_order_relaxed); });
  return count;
}

/// 256 bytes is what getentropy gives in one piece: one system call for 32 numbers.
class RandomBuffer {
 public:
  std::uint64_t next() {
    const std::uint32_t forks = fork_count().load(std::memory_order_relaxed);
    if (used_ == numbers_.size() || forks != forks_) {
      if (getentropy(numbers_.data(), sizeof numbers_) != 0) {
        throw std::system_error(errno, std::generic_category(),
                                "random bits: the system's source of randomness gave none");
      }
      used_ = 0;
      forks_ = forks;
    }
    return numbers_[used_++];
  }

 private:
  std::array<std::uint64_t, 32> numbers_{};
  std::size_t used_ = 32;
  std::uint32_t forks_ = 0;
};

}  // namespace

void Environment::write(const LogEvent& event) const noexcept {
  if (!logs(event.level)) return;
  try {
    if (log) {
      log(event);
    } else {
      log_to_stderr(event);
    }
  } catch (...) {
    // A failing log must not change what has been done.
  }
}

std::uint64_t Environment::random_bits() const {
  if (random) return random();
  thread_local RandomBuffer buffer;
  return buffer.next();
}

}  // namespace twinbox
