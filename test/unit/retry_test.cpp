#include <limits>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "twinbox/work_queue.hpp"

namespace twinbox {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

Environment dice(std::uint64_t bits) {
  return {.random = [bits] { return bits; }};
}

std::string refusal(const RetryPolicy& policy) {
  try {
    policy.check();
  } catch (const std::out_of_range& error) {
    return error.what();
  }
  return "accepted";
}

TEST(RetryPolicy, standard_doubles_from_two_seconds_to_sixty) {
  const RetryPolicy policy = RetryPolicy::standard();
  const Environment environment;
  const milliseconds expected[] = {2s, 4s, 8s, 16s, 32s, 60s, 60s};
  for (int attempt = 1; attempt <= 7; ++attempt) {
    EXPECT_EQ(policy.delay(attempt, environment), expected[attempt - 1]) << attempt;
  }
  EXPECT_FALSE(policy.exhausted(9));
  EXPECT_TRUE(policy.exhausted(10));
}

TEST(RetryPolicy, per_handler_leaves_half_of_the_delay_to_chance) {
  const RetryPolicy policy = RetryPolicy::per_handler();
  EXPECT_EQ(policy.delay(1, dice(0)), 1s);
  EXPECT_EQ(policy.delay(1, dice(1000)), 2s);
  EXPECT_EQ(policy.delay(1, dice(1001)), 1s);
  EXPECT_EQ(policy.delay(30, dice(0)), 150s);
  EXPECT_EQ(policy.delay(30, dice(150'000)), 5min);
  EXPECT_TRUE(policy.exhausted(5));
}

TEST(RetryPolicy, event_bus_doubles_from_one_minute_to_one_hour) {
  const RetryPolicy policy = RetryPolicy::event_bus();
  EXPECT_EQ(policy.delay(1, {}), 1min);
  EXPECT_EQ(policy.delay(6, {}), 32min);
  EXPECT_EQ(policy.delay(7, {}), 1h);
  EXPECT_TRUE(policy.exhausted(5));
}

TEST(RetryPolicy, never_overflows) {
  RetryPolicy policy = RetryPolicy::standard();
  policy.max_delay = 24h * 365;
  EXPECT_EQ(policy.delay(std::numeric_limits<int>::max(), {}), 24h * 365);
  policy.first_delay = 0ms;
  EXPECT_EQ(policy.delay(std::numeric_limits<int>::max(), {}), 0ms);
}

TEST(RetryPolicy, custom_takes_the_place_of_the_doubling) {
  RetryPolicy policy = RetryPolicy::standard();
  policy.custom = [](int attempts) { return attempts == 3 ? -1ms : 90s * attempts; };
  EXPECT_EQ(policy.delay(2, {}), 180s);
  EXPECT_EQ(policy.delay(3, {}), 0ms);
}

TEST(RetryPolicy, allows_one_attempt_at_least) {
  RetryPolicy policy = RetryPolicy::standard();
  for (const int max_attempts : {1, 0, -7}) {
    policy.max_attempts = max_attempts;
    EXPECT_FALSE(policy.exhausted(0));
    EXPECT_TRUE(policy.exhausted(1));
  }
}

TEST(RetryPolicy, names_the_field_that_is_out_of_range) {
  RetryPolicy policy = RetryPolicy::standard();
  EXPECT_EQ(refusal(policy), "accepted");
  policy.first_delay = -1ms;
  EXPECT_EQ(refusal(policy), "retry policy: first_delay is -1 ms, 0 to 31536000000 ms are allowed");
  policy.first_delay = 2s;
  policy.max_delay = 1s;
  EXPECT_EQ(refusal(policy),
            "retry policy: max_delay is 1000 ms, 2000 to 31536000000 ms are allowed");
  policy.max_delay = 24h * 366;
  EXPECT_EQ(refusal(policy),
            "retry policy: max_delay is 31622400000 ms, 2000 to 31536000000 ms are allowed");
}

}  // namespace
}  // namespace twinbox
