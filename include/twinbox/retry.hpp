// When a failed duty is tried again, and when it is given up.
#pragma once

#include <chrono>
#include <functional>

#include "twinbox/environment.hpp"

namespace twinbox {

enum class Jitter {
  none,
  equal,  ///< half of the delay is certain, the other half is chance
};

/// Attempts are failures on record, counted after the increment: the first failure is attempt 1.
struct RetryPolicy {
  std::chrono::milliseconds first_delay = std::chrono::seconds{2};
  std::chrono::milliseconds max_delay = std::chrono::seconds{60};
  Jitter jitter = Jitter::none;
  /// Values below 1 count as 1.
  int max_attempts = 10;
  /// Takes the place of the doubling, of its cap and of its jitter. A negative answer counts as 0.
  std::function<std::chrono::milliseconds(int attempts)> custom = {};

  /// 2, 4, 8 … s, at most 60 s, 10 attempts.
  static RetryPolicy standard();
  /// 2, 4, 8 … s, at most 5 min, equal jitter, 5 attempts.
  static RetryPolicy per_handler();
  /// 1, 2, 4 … min, at most 1 h, 5 attempts.
  static RetryPolicy event_bus();

  /// How long to wait after failure number `attempts`, which is at least 1.
  [[nodiscard]] std::chrono::milliseconds delay(int attempts, const Environment& environment) const;
  /// True when failure number `attempts` was the last one allowed.
  [[nodiscard]] bool exhausted(int attempts) const noexcept;
  /// Throws std::out_of_range with the field and its bound: 0 ≤ first_delay ≤ max_delay ≤ 365 days.
  void check() const;
};

}  // namespace twinbox
