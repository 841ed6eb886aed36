#include "daemon/lane.hpp"

#include <atomic>
#include <latch>
#include <stop_token>

#include <gtest/gtest.h>

#include "daemon/time_limits.hpp"

namespace twinbox::app {
namespace {

using namespace std::chrono_literals;

TEST(Lane, refuses_what_its_queue_cannot_hold_and_counts_it) {
  std::latch began{1}, over{1};
  std::atomic<int> runs = 0;
  {
    Lane lane{{.name = "read", .threads = 1, .queue = 1}};
    ASSERT_TRUE(lane.submit({.run = [&] {
      began.count_down();
      over.wait();
      ++runs;
    }}));
    began.wait();
    std::latch second{1};
    EXPECT_TRUE(lane.submit({.run = [&] {
      ++runs;
      second.count_down();
    }}));
    EXPECT_FALSE(lane.submit({.run = [&] { ++runs; }}));
    const Lane::Status status = lane.status();
    EXPECT_EQ(status.running, 1u);
    EXPECT_EQ(status.waiting, 1u);
    EXPECT_EQ(status.refused, 1u);
    over.count_down();
    second.wait();
  }
  EXPECT_EQ(runs, 2);
}

TEST(Lane, tasks_of_one_key_leave_threads_to_others) {
  std::latch began{2}, over{1}, other{1}, last{1};
  const int slow = 0;
  Lane lane{{.name = "read", .threads = 3, .queue = 10}};
  const auto hang = [&] {
    began.count_down();
    over.wait();
  };
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(lane.submit({.run = hang, .key = &slow, .most_running = 2}));
  }
  began.wait();
  ASSERT_TRUE(lane.submit({.run = [&] { last.count_down(); }, .key = &slow, .most_running = 2}));
  ASSERT_TRUE(lane.submit({.run = [&] { other.count_down(); }}));
  other.wait();  // overtakes the one that waits for its key
  EXPECT_EQ(lane.status().waiting, 1u);
  EXPECT_FALSE(last.try_wait());
  over.count_down();
  last.wait();
}

TEST(Lane, drops_what_waits_when_it_is_closed) {
  std::latch began{1}, over{1};
  int dropped = 0;
  bool ran = false;
  Lane lane{{.name = "inline", .threads = 1, .queue = 10}};
  ASSERT_TRUE(lane.submit({.run = [&] {
    began.count_down();
    over.wait();
  }}));
  began.wait();
  ASSERT_TRUE(lane.submit({.run = [&] { ran = true; }, .drop = [&] { ++dropped; }}));
  lane.close();
  EXPECT_EQ(dropped, 1);
  EXPECT_FALSE(lane.submit_always({.run = [&] { ran = true; }}));
  over.count_down();
  EXPECT_FALSE(ran);
}

TEST(TimeLimits, stop_what_runs_past_its_time) {
  TimeLimits limits;
  const TimeLimits::Limit late{limits, 1h};
  const TimeLimits::Limit soon{limits, 1ms};
  std::latch stopped{1};
  const std::stop_callback on_stop{soon.token(), [&] { stopped.count_down(); }};
  stopped.wait();
  EXPECT_TRUE(soon.passed());
  EXPECT_FALSE(late.token().stop_requested());
  limits.end_all();
  EXPECT_TRUE(late.token().stop_requested());
  EXPECT_FALSE(late.passed());
  EXPECT_TRUE((TimeLimits::Limit{limits, 1h}).token().stop_requested());
}

}  // namespace
}  // namespace twinbox::app
