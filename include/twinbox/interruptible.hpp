// Calls of a store that end when a stop is requested.
#pragma once

#include <stop_token>

namespace twinbox {

/// While it lives, the calls that this thread makes end as `cancelled` once a stop is requested:
/// they do not begin, or end in their middle, but never in their commit.
class Interruptible {
 public:
  explicit Interruptible(std::stop_token stop) noexcept;
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

  /// The innermost one's; without any, one that never stops.
  [[nodiscard]] static const std::stop_token& token() noexcept;

 private:
  const std::stop_token stop_;
  const std::stop_token* const outer_;
};

}  // namespace twinbox
