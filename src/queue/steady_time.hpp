// The clock by which a process measures its own intervals.
#pragma once

#include <chrono>

#include "twinbox/environment.hpp"
#include "twinbox/work_queue.hpp"

namespace twinbox {

/// The test's clock if there is one, else a steady clock; since an arbitrary epoch.
inline Duration steady_time(const Environment& environment) {
  if (const auto now = environment.now()) return now->time_since_epoch();
  return std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace twinbox
