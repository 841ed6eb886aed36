// Ends a daemon whose shutdown hangs.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

namespace twinbox::app {

/// Kills the process if it does not stop in time; the effect is that of a crash.
class ShutdownWatchdog {
 public:
  ShutdownWatchdog(std::chrono::milliseconds limit, std::function<void()> over)
      : thread_{[limit, over = std::move(over)](const std::stop_token& ended) {
          std::mutex mutex;
          std::condition_variable_any nothing;
          std::unique_lock lock{mutex};
          nothing.wait_for(lock, ended, limit, [] { return false; });
          if (ended.stop_requested()) return;
          over();
          std::_Exit(0);
        }} {}

 private:
  std::jthread thread_;
};

}  // namespace twinbox::app
