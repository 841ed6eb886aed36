// Many threads that enqueue at the same time.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "load.hpp"

namespace twinbox::bench {

using Enqueue = std::function<void(const NewMessage&)>;

/// Messages per second of as many threads as there are ways to enqueue, one message a call.
inline double concurrent_rate(std::chrono::milliseconds slice,
                              const std::vector<Enqueue>& threads) {
  const NewMessage message = some_messages(1, 256).front();
  std::atomic<bool> go = false;
  std::atomic<bool> stop = false;
  std::atomic<std::size_t> done = 0;
  std::vector<std::jthread> running;
  for (const Enqueue& enqueue : threads) {
    running.emplace_back([&] {
      go.wait(false);
      std::size_t mine = 0;
      for (; !stop.load(std::memory_order_relaxed); ++mine) enqueue(message);
      done += mine;
    });
  }
  const auto begin = std::chrono::steady_clock::now();
  go = true;
  go.notify_all();
  std::this_thread::sleep_for(slice);
  stop = true;
  running.clear();
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  return static_cast<double>(done) / spent.count();
}

}  // namespace twinbox::bench
