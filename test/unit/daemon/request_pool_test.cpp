#include "daemon/http/request_pool.hpp"

#include <array>
#include <atomic>
#include <latch>
#include <stop_token>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/http/pending_responses.hpp"
#include "daemon/store/time_limits.hpp"

namespace twinbox::app {
namespace {

using namespace std::chrono_literals;

TEST(RequestPool, refuses_what_its_queue_cannot_hold_and_counts_it) {
  std::latch began{1}, over{1};
  std::atomic<int> runs = 0;
  {
    RequestPool pool{{.name = "read", .threads = 1, .queue = 1}};
    ASSERT_TRUE(pool.submit({.run = [&] {
      began.count_down();
      over.wait();
      ++runs;
    }}));
    began.wait();
    std::latch second{1};
    EXPECT_TRUE(pool.submit({.run = [&] {
      ++runs;
      second.count_down();
    }}));
    EXPECT_FALSE(pool.submit({.run = [&] { ++runs; }}));
    const RequestPool::Status status = pool.status();
    EXPECT_EQ(status.running, 1u);
    EXPECT_EQ(status.waiting, 1u);
    EXPECT_EQ(status.refused, 1u);
    over.count_down();
    second.wait();
  }
  EXPECT_EQ(runs, 2);
}

TEST(RequestPool, tasks_of_one_key_leave_threads_to_others) {
  std::latch began{2}, over{1}, other{1}, last{1};
  const int slow = 0;
  RequestPool pool{{.name = "read", .threads = 3, .queue = 10}};
  const auto hang = [&] {
    began.count_down();
    over.wait();
  };
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(pool.submit({.run = hang, .key = &slow, .max_running = 2}));
  }
  began.wait();
  ASSERT_TRUE(pool.submit({.run = [&] { last.count_down(); }, .key = &slow, .max_running = 2}));
  ASSERT_TRUE(pool.submit({.run = [&] { other.count_down(); }}));
  other.wait();  // overtakes the one that waits for its key
  EXPECT_EQ(pool.status().waiting, 1u);
  EXPECT_FALSE(last.try_wait());
  over.count_down();
  last.wait();
}

TEST(RequestPool, drops_what_waits_when_it_is_closed) {
  std::latch began{1}, over{1};
  int dropped = 0;
  bool ran = false;
  RequestPool pool{{.name = "inline", .threads = 1, .queue = 10}};
  ASSERT_TRUE(pool.submit({.run = [&] {
    began.count_down();
    over.wait();
  }}));
  began.wait();
  ASSERT_TRUE(pool.submit({.run = [&] { ran = true; }, .drop = [&] { ++dropped; }}));
  pool.close();
  EXPECT_EQ(dropped, 1);
  EXPECT_FALSE(pool.submit_unbounded({.run = [&] { ran = true; }}));
  over.count_down();
  EXPECT_FALSE(ran);
}

/// A pool, and tasks that hang in it until the end of the test.
struct HangingPool {
  explicit HangingPool(RequestPool::Options options) : pool(std::move(options)) {}
  bool submit(const void* key) {
    return pool.submit({.run =
                            [this] {
                              ++running;
                              running.notify_all();
                              over.wait();
                            },
                        .key = key});
  }
  void wait_for(int count) const {
    for (int now = running; now < count; now = running) running.wait(now);
  }
  std::atomic<int> running = 0;
  std::latch over{1};
  RequestPool pool;
};

TEST(RequestPool, of_keys_has_a_thread_for_each_of_them_however_many_hang) {
  constexpr int keys = 6;
  const std::array<int, keys> key{};
  HangingPool hanging{{.name = "intake", .threads = 2, .queue = 100, .keys = keys}};
  RequestPool& pool = hanging.pool;
  for (int i = 0; i + 1 < keys; ++i) {
    for (int task = 0; task < 3; ++task) ASSERT_TRUE(hanging.submit(&key.at(i)));
  }
  std::latch healthy{3};
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(pool.submit({.run = [&] { healthy.count_down(); }, .key = &key.back()}));
  }
  healthy.wait();
  EXPECT_LE(hanging.running, keys - 1 + 2);
  hanging.over.count_down();
  hanging.wait_for(3 * (keys - 1));
}

TEST(RequestPool, gives_one_key_a_part_of_its_threads_and_of_its_queue) {
  const int hung = 0;
  const int other = 0;
  HangingPool hanging{{.name = "intake", .threads = 8, .queue = 40, .keys = 2}};
  RequestPool& pool = hanging.pool;
  int taken = 0;
  while (hanging.submit(&hung)) ++taken;
  hanging.wait_for(3);  // one of its own, and two of the eight
  EXPECT_EQ(pool.status().running, 3u);
  EXPECT_LT(pool.status().waiting, 20u);
  EXPECT_EQ(pool.status().refused, 1u);
  EXPECT_EQ(taken, 3 + static_cast<int>(pool.status().waiting));
  std::latch healthy{1};
  ASSERT_TRUE(pool.submit({.run = [&] { healthy.count_down(); }, .key = &other}));
  healthy.wait();
  hanging.over.count_down();
}

TEST(PendingResponses, give_each_request_one_answer) {
  PendingResponses pending;
  std::vector<int> given;
  const auto one =
      pending.add([&](const HttpResponse& response) { given.push_back(response.status); });
  const auto two =
      pending.add([&](const HttpResponse& response) { given.push_back(response.status); });
  one({202, {}, {}});
  one({500, {}, {}});
  pending.respond_all({503, {}, {}});
  two({202, {}, {}});
  pending.respond_all({503, {}, {}});
  EXPECT_EQ(given, (std::vector{202, 503}));
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
