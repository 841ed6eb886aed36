// The delay between two attempts to reach a broker.
#pragma once

#include <algorithm>
#include <chrono>

#include "twinbox/work_queue.hpp"

namespace twinbox {

/// 0.1 s, doubled with each failure, with jitter, so that not all clients reconnect at once.
inline Duration reconnect_delay(int failures, Duration max, const Environment& environment) {
  using std::chrono::milliseconds;
  const RetryPolicy policy{
      .first_delay = milliseconds{100},
      .max_delay = std::max(milliseconds{100}, std::chrono::ceil<milliseconds>(max)),
      .jitter = Jitter::equal};
  return policy.delay(failures, environment);
}

/// The number of failures in a row after a connection that lasted for `connected_for`: one that
/// breaks at once repeatedly is a failure like any other; one that outlasts the longest delay
/// resets the count.
inline int count_failures(int before, Duration connected_for, Duration max_delay) {
  return connected_for >= max_delay ? 1 : before + 1;
}

}  // namespace twinbox
