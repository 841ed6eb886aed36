#include "transport/consume_loop.hpp"

#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include "transport/reconnect.hpp"
#include "twinbox/testing.hpp"

namespace twinbox::test {
namespace {

using namespace std::chrono_literals;

TEST(ConsumeLoop, goes_on_after_each_failure_and_tells_of_it_until_it_is_stopped) {
  TestEnvironment world;
  const Environment environment = world.environment();
  SharedSourceStatus shared_status;
  std::stop_source stop;
  std::vector<bool> connected_before;
  consume_with_reconnect(
      stop.get_token(), "orders", 1ms, environment, shared_status, [&](const auto& connected) {
        connected_before.push_back(shared_status.get().connected);
        connected();
        shared_status.update([](SourceStatus& status) { status.connected = true; });
        if (connected_before.size() == 4) stop.request_stop();
        throw std::runtime_error("cut " + std::to_string(connected_before.size()));
      });
  EXPECT_EQ(connected_before, std::vector<bool>(4, false));
  const auto lost = world.log.events("broker_lost");
  ASSERT_EQ(lost.size(), 3u) << "what a stop ends is not lost";
  EXPECT_EQ(lost[2].field("error"), "cut 3");
  EXPECT_EQ(lost[2].field("source"), "orders");
  EXPECT_EQ(shared_status.get().error, "cut 3");
  EXPECT_FALSE(shared_status.get().connected);
}

TEST(ConsumeLoop, rests_longer_each_time_while_connections_break_soon) {
  TestEnvironment world;
  const Environment environment = world.environment();
  int failures = 0;
  const auto rest_after = [&](Duration held) {
    failures = count_failures(failures, held, 10s);
    return reconnect_delay(failures, 10s, environment);
  };
  const auto near = [](Duration rest, Duration most) { return rest >= most / 2 && rest <= most; };
  EXPECT_TRUE(near(rest_after(0s), 100ms));
  EXPECT_TRUE(near(rest_after(9s), 200ms)) << "it did not hold for long";
  EXPECT_TRUE(near(rest_after(0s), 400ms));
  for (int i = 0; i < 10; ++i) rest_after(1s);
  EXPECT_TRUE(near(rest_after(1s), 10s));
  EXPECT_TRUE(near(rest_after(10s), 100ms));
  EXPECT_TRUE(near(rest_after(0s), 200ms));
}

}  // namespace
}  // namespace twinbox::test
