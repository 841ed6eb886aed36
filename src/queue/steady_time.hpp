// The time by which a process judges its own intervals.
#pragma once

#include <chrono>

#include "twinbox/environment.hpp"
#include "twinbox/work_queue.hpp"

namespace twinbox {

/// The test's clock where there is one, else one that never steps; since some beginning.
inline Duration steady_time(const Environment& environment) {
  if (const auto now = environment.now()) return now->time_since_epoch();
  return std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace twinbox
