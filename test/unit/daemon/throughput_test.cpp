#include "daemon/stats/throughput.hpp"

#include <gtest/gtest.h>

#include "unit/transport/a_message.hpp"

namespace twinbox::app {
namespace {

using namespace std::chrono_literals;

class ThroughputTest : public ::testing::Test {
 protected:
  void done(int count, std::string_view store = "main", std::string topic = "a") {
    for (int i = 0; i < count; ++i) {
      observer_.handled(store, a_message(topic), Outcome::done(), 3ms);
    }
  }
  void failed(int count, std::string_view store = "main", std::string topic = "a") {
    for (int i = 0; i < count; ++i) {
      observer_.handled(store, a_message(topic), Outcome::retry("no"), 3ms);
      observer_.failed(store, a_message(topic), "no");
    }
  }
  static Message a_message(std::string topic) { return test::claimed(std::move(topic)); }

  std::chrono::steady_clock::time_point now_{1h};
  Throughput throughput_{[this] { return now_; }};
  DispatchObserver observer_ = throughput_.observer(BoxKind::outbox);
};

TEST_F(ThroughputTest, a_minute_is_what_happened_in_the_last_sixty_seconds) {
  now_ += 10min;
  done(30);
  EXPECT_DOUBLE_EQ(throughput_.rates(BoxKind::outbox).done_per_minute,
                   36);  // 50 s and what began now
  now_ += 10s;
  done(30);
  EXPECT_DOUBLE_EQ(throughput_.rates(BoxKind::outbox).done_per_minute, 72);
  now_ += 59s;
  EXPECT_NEAR(throughput_.rates(BoxKind::outbox).done_per_minute, 30 * 60.0 / 59, 0.01);
  now_ += 10s;
  EXPECT_DOUBLE_EQ(throughput_.rates(BoxKind::outbox).done_per_minute, 0);
}

TEST_F(ThroughputTest, a_daemon_that_has_just_started_has_no_minute_yet) {
  now_ += 20s;
  done(10);
  EXPECT_DOUBLE_EQ(throughput_.rates(BoxKind::outbox).done_per_minute, 30);
}

TEST_F(ThroughputTest, the_error_rate_is_that_of_five_minutes) {
  EXPECT_EQ(throughput_.rates(BoxKind::outbox).error_rate, std::nullopt);
  done(3);
  failed(1);
  EXPECT_DOUBLE_EQ(throughput_.rates(BoxKind::outbox).error_rate.value(), 0.25);
  EXPECT_EQ(throughput_.rates(BoxKind::inbox).error_rate, std::nullopt);
  now_ += 4min;
  EXPECT_DOUBLE_EQ(throughput_.rates(BoxKind::outbox).error_rate.value(), 0.25);
  now_ += 1min;
  EXPECT_EQ(throughput_.rates(BoxKind::outbox).error_rate, std::nullopt);
}

TEST_F(ThroughputTest, stores_and_topics_are_told_apart) {
  done(2, "one", "a");
  failed(2, "one", "b");
  done(5, "two", "a");
  EXPECT_DOUBLE_EQ(throughput_.rates(BoxKind::outbox, "one").error_rate.value(), 0.5);
  EXPECT_DOUBLE_EQ(throughput_.rates(BoxKind::outbox, "two").error_rate.value(), 0);
  const auto topics = throughput_.topics(BoxKind::outbox, "one");
  ASSERT_EQ(topics.size(), 2u);
  EXPECT_DOUBLE_EQ(topics.at("a").error_rate.value(), 0);
  EXPECT_DOUBLE_EQ(topics.at("b").error_rate.value(), 1);
  EXPECT_EQ(throughput_.total(BoxKind::outbox).done, 7u);
  EXPECT_EQ(throughput_.total(BoxKind::outbox, "one").failed, 2u);
  EXPECT_EQ(throughput_.total(BoxKind::outbox, "three").done, 0u);
}

TEST_F(ThroughputTest, the_number_of_topics_is_bounded) {
  for (std::size_t i = 0; i < Throughput::max_topics + 10; ++i) done(1, "main", std::to_string(i));
  EXPECT_EQ(throughput_.topics(BoxKind::outbox, "main").size(), Throughput::max_topics);
  EXPECT_EQ(throughput_.total(BoxKind::outbox).done, Throughput::max_topics + 10);
}

TEST_F(ThroughputTest, times_of_handlers_are_those_of_five_minutes) {
  EXPECT_EQ(throughput_.handler_times(BoxKind::outbox).count, 0u);
  done(10);
  EXPECT_EQ(throughput_.handler_times(BoxKind::outbox).count, 10u);
  EXPECT_NEAR(throughput_.handler_times(BoxKind::outbox).p50(), 3000, 1100);
  now_ += 5min;
  EXPECT_EQ(throughput_.handler_times(BoxKind::outbox).count, 0u);
  EXPECT_EQ(throughput_.total(BoxKind::outbox).handler_times.count, 10u);
}

TEST_F(ThroughputTest, what_comes_after_it_is_told_too) {
  int told = 0;
  DispatchObserver next;
  next.dead = [&](auto...) { ++told; };
  next.claimed = [&](auto...) { ++told; };
  const DispatchObserver observer = throughput_.observer(BoxKind::inbox, std::move(next));
  observer.dead("main", a_message("a"), "expired", "");
  observer.claimed("main", 1, 1ms);
  EXPECT_EQ(told, 2);
  EXPECT_EQ(throughput_.total(BoxKind::inbox).failed, 1u);
  observer.chore("main", {.chore = Chore::reap, .end = ChoreReport::End::done, .count = 2});
  observer.chore("main", {.chore = Chore::reap, .end = ChoreReport::End::done, .count = 3});
  ASSERT_EQ(throughput_.chores().size(), 1u);
  EXPECT_EQ(throughput_.chores()[0].report.count, 3u);
}

class RemoteThroughput : public ThroughputTest {
 protected:
  static Worker worker(int number, std::int64_t done, std::int64_t failed = 0) {
    const Uuid uuid{{static_cast<std::uint8_t>(number)}};
    return {OwnerToken{uuid}, "host:" + std::to_string(number), "1", {}, {}, done, failed};
  }
  void add_workers(const std::vector<Worker>& workers, const std::vector<OwnerToken>& own = {}) {
    throughput_.add_workers(BoxKind::outbox, "main", workers, own);
  }
};

TEST_F(RemoteThroughput, what_they_did_since_they_were_heard_last_is_counted) {
  add_workers({worker(1, 1000, 50)});
  EXPECT_DOUBLE_EQ(throughput_.rates(BoxKind::outbox).done_per_minute, 0)
      << "nobody knows since when";
  now_ += 15s;
  add_workers({worker(1, 1030, 60), worker(2, 20)});
  add_workers({worker(1, 1030, 60), worker(2, 20)});
  const Rates all = throughput_.rates(BoxKind::outbox);
  EXPECT_DOUBLE_EQ(all.done_per_minute, 200);  // 50 in 15 s
  EXPECT_DOUBLE_EQ(all.failed_per_minute, 40);
  EXPECT_DOUBLE_EQ(all.error_rate.value(), 10.0 / 60);
  EXPECT_DOUBLE_EQ(throughput_.rates(BoxKind::outbox, "main").done_per_minute, 200);
  EXPECT_DOUBLE_EQ(throughput_.rates(BoxKind::inbox).done_per_minute, 0);
  EXPECT_EQ(throughput_.total(BoxKind::outbox, "main").done, 50u);
}

TEST_F(RemoteThroughput, those_of_this_process_are_counted_by_what_they_do_alone) {
  const OwnerToken mine = worker(1, 0).owner;
  add_workers({worker(1, 0)}, {mine});
  done(3);
  add_workers({worker(1, 3)}, {mine});
  EXPECT_EQ(throughput_.total(BoxKind::outbox).done, 3u);
  add_workers({worker(1, 9)});  // a former one that finishes its work
  EXPECT_EQ(throughput_.total(BoxKind::outbox).done, 3u);
}

TEST_F(RemoteThroughput, one_that_goes_takes_nothing_back) {
  add_workers({});
  add_workers({worker(1, 5)});
  add_workers({});
  add_workers({worker(1, 2)});
  EXPECT_EQ(throughput_.total(BoxKind::outbox).done, 7u);
}

}  // namespace
}  // namespace twinbox::app
