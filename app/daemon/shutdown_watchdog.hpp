// The end of a daemon that waits for something that never comes.
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

/// Ends the process if it does not end by itself in time, as a crash would.
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
