// How long to rest between two tries to reach a broker.
#pragma once

#include <algorithm>
#include <chrono>

#include "twinbox/work_queue.hpp"

namespace twinbox {

/// 0.1 s, doubled with each failure, with chance, so that not everybody comes at once.
inline Duration reconnect_delay(int failures, Duration max, const Environment& environment) {
  using std::chrono::milliseconds;
  const RetryPolicy policy{
      .first_delay = milliseconds{100},
      .max_delay = std::max(milliseconds{100}, std::chrono::ceil<milliseconds>(max)),
      .jitter = Jitter::equal};
  return policy.delay(failures, environment);
}

/// How many failures in a row it makes when a connection has `connected_for` for so long: one that
/// breaks at once, again and again, is a failure like any other; one that outlasts the longest rest
/// makes up for those before it.
inline int count_failures(int before, Duration connected_for, Duration max_delay) {
  return connected_for >= max_delay ? 1 : before + 1;
}

}  // namespace twinbox
