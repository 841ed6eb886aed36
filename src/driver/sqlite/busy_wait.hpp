// Waits for a file that another connection or process has locked.
#pragma once

#include <atomic>
#include <chrono>

#include "twinbox/environment.hpp"

namespace twinbox {

/// Short waits with jitter, until the limit has passed or the connection was interrupted. Not
/// thread-safe. `interrupted` is borrowed.
class BusyWait {
 public:
  BusyWait(std::chrono::milliseconds limit, const Environment& environment,
           const std::atomic<bool>& interrupted)
      : limit_(limit), environment_(environment), interrupted_(interrupted) {}

  /// Waits before try number `tries` + 2 (0 starts a new wait). False: give up.
  bool operator()(int tries);

 private:
  std::chrono::milliseconds limit_;
  Environment environment_;
  const std::atomic<bool>& interrupted_;
  std::chrono::steady_clock::time_point started_ = {};
};

}  // namespace twinbox
