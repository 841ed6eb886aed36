#include <algorithm>
#include <stdexcept>
#include <string>

#include "twinbox/work_queue.hpp"

namespace twinbox {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr milliseconds longest_delay = std::chrono::days{365};

milliseconds doubled(milliseconds first, milliseconds cap, int attempts) noexcept {
  milliseconds delay = std::min(first, cap);
  for (int i = 1; i < attempts && delay > 0ms && delay < cap; ++i) {
    delay = delay > cap / 2 ? cap : delay * 2;
  }
  return std::max(delay, 0ms);
}

void check_field(const char* field, milliseconds value, milliseconds low, milliseconds high) {
  if (value >= low && value <= high) return;
  throw std::out_of_range(std::string{"retry policy: "} + field + " is " +
                          std::to_string(value.count()) + " ms, " + std::to_string(low.count()) +
                          " to " + std::to_string(high.count()) + " ms are allowed");
}

}  // namespace

RetryPolicy RetryPolicy::standard() {
  return {.first_delay = 2s, .max_delay = 60s, .jitter = Jitter::none, .max_attempts = 10};
}

RetryPolicy RetryPolicy::per_handler() {
  return {.first_delay = 2s, .max_delay = 5min, .jitter = Jitter::equal, .max_attempts = 5};
}

RetryPolicy RetryPolicy::event_bus() {
  return {.first_delay = 1min, .max_delay = 1h, .jitter = Jitter::none, .max_attempts = 5};
}

milliseconds RetryPolicy::delay(int attempts, const Environment& environment) const {
  if (custom) return std::clamp(custom(attempts), 0ms, longest_delay);
  const milliseconds base = doubled(first_delay, max_delay, attempts);
  if (jitter == Jitter::none) return base;
  const milliseconds half = base / 2;
  const auto choices = static_cast<std::uint64_t>(half.count()) + 1;
  return (base - half) +
         milliseconds{static_cast<std::int64_t>(environment.random_bits() % choices)};
}

bool RetryPolicy::exhausted(int attempts) const noexcept {
  return attempts >= std::max(1, max_attempts);
}

void RetryPolicy::check() const {
  check_field("first_delay", first_delay, 0ms, longest_delay);
  check_field("max_delay", max_delay, first_delay, longest_delay);
}

}  // namespace twinbox
