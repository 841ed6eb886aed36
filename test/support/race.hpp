// Threads that begin together.
#pragma once

#include <exception>
#include <functional>
#include <latch>
#include <mutex>
#include <thread>
#include <vector>

namespace twinbox::test {

/// Runs `work(0)` … `work(count - 1)` on a thread each, all begun at the same moment; throws what
/// one of them threw.
inline void race(int count, const std::function<void(int)>& work) {
  std::latch start(count);
  std::mutex mutex;
  std::exception_ptr error;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < count; ++i) {
      threads.emplace_back([&, i] {
        start.arrive_and_wait();
        try {
          work(i);
        } catch (...) {
          const std::lock_guard lock(mutex);
          error = std::current_exception();
        }
      });
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace twinbox::test
