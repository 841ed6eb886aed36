// Statistics alone: spreads, names beyond the limit, many threads, observers in a chain.
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "support/claimed_message.hpp"
#include "support/race.hpp"
#include <twinbox/dispatcher.hpp>

namespace twinbox {
namespace {

using namespace std::chrono_literals;
using test::claimed_message;
using test::race;

/// The times of these settles, as they are read afterwards.
Histogram spread_of(const std::vector<Duration>& times) {
  const DispatchStats stats;
  const DispatchObserver observer = stats.observer();
  for (const Duration time : times) observer.settled("north", 1, time);
  return stats.snapshot().all.settle_time;
}

TEST(Statistics, a_histogram_without_values_answers_zero) {
  EXPECT_EQ(Histogram{}.p50(), 0.0);
  EXPECT_EQ(Histogram{}.p99(), 0.0);
  EXPECT_EQ(Histogram{}.mean(), 0.0);
}

TEST(Statistics, each_value_is_counted_in_its_power_of_two) {
  const Histogram spread = spread_of({0us, 1us, 2us, 3us, 4us, 1023us, 1024us});
  EXPECT_EQ(spread.count, 7u);
  EXPECT_EQ(spread.sum, 2057u);
  EXPECT_EQ(spread.largest, 1024u);
  EXPECT_EQ(spread.buckets[0], 1u);
  EXPECT_EQ(spread.buckets[1], 1u);
  EXPECT_EQ(spread.buckets[2], 2u);
  EXPECT_EQ(spread.buckets[3], 1u);
  EXPECT_EQ(spread.buckets[10], 1u);
  EXPECT_EQ(spread.buckets[11], 1u);
}

TEST(Statistics, quantiles_are_less_than_a_factor_of_two_off) {
  std::vector<Duration> times;
  for (int i = 1; i <= 10'000; ++i) times.push_back(Duration{i});
  const Histogram spread = spread_of(times);
  for (const double share : {0.01, 0.1, 0.25, 0.5, 0.9, 0.99, 0.999}) {
    const double truth = share * 10'000;
    EXPECT_GT(spread.quantile(share), truth / 2) << share;
    EXPECT_LT(spread.quantile(share), truth * 2) << share;
  }
  EXPECT_LE(spread.p50(), spread.p99());
  EXPECT_EQ(spread.quantile(1), 10'000.0);
  EXPECT_EQ(spread.quantile(7), 10'000.0);
  EXPECT_DOUBLE_EQ(spread.mean(), 5000.5);
}

TEST(Statistics, no_quantile_is_above_the_largest_value) {
  const Histogram spread = spread_of({1025us, 1025us});
  EXPECT_LE(spread.p99(), 1025.0);
  EXPECT_GE(spread.p50(), 1024.0);
}

TEST(Statistics, a_time_below_zero_counts_as_none_and_a_huge_one_as_the_largest) {
  const Histogram spread = spread_of({-5s, std::chrono::hours{24 * 365}});
  EXPECT_EQ(spread.buckets.front(), 1u);
  EXPECT_EQ(spread.buckets.back(), 1u);
  EXPECT_EQ(spread.quantile(1), 365.0 * 24 * 3600 * 1e6);
}

TEST(Statistics, all_stores_add_up_and_each_has_its_own) {
  const DispatchStats stats;
  const DispatchObserver observer = stats.observer();
  observer.claimed("south", 3, 10us);
  observer.claimed("north", 5, 20us);
  observer.lease_lost("south", 2);
  observer.loop_error("north", "gone");
  observer.timed_out("north", claimed_message("t"));
  observer.woken("north", 7us);
  const StatsSnapshot snapshot = stats.snapshot();
  ASSERT_EQ(snapshot.stores.size(), 2u);
  EXPECT_EQ(snapshot.stores[0].store, "north");
  EXPECT_EQ(snapshot.stores[0].claimed, 5u);
  EXPECT_EQ(snapshot.stores[0].loop_errors, 1u);
  EXPECT_EQ(snapshot.stores[0].timeouts, 1u);
  EXPECT_EQ(snapshot.stores[0].wake_latency.sum, 7u);
  EXPECT_EQ(snapshot.stores[1].store, "south");
  EXPECT_EQ(snapshot.stores[1].lease_lost, 2u);
  EXPECT_EQ(snapshot.all.store, "all");
  EXPECT_EQ(snapshot.all.claimed, 8u);
  EXPECT_EQ(snapshot.all.claim_size.count, 2u);
  EXPECT_EQ(snapshot.all.claim_size.largest, 5u);
  EXPECT_EQ(snapshot.all.claim_time.sum, 30u);
}

TEST(Statistics, topics_beyond_the_limit_are_counted_together) {
  const DispatchStats stats{{.topics = 2}};
  const DispatchObserver observer = stats.observer();
  for (const char* topic : {"a", "b", "c", "d", "a", "c"}) {
    observer.handled("north", claimed_message(topic), Outcome::done(), 1us);
  }
  observer.dead("north", claimed_message("d"), "handler", "no");
  const StatsSnapshot snapshot = stats.snapshot();
  ASSERT_EQ(snapshot.topics.size(), 3u);
  EXPECT_EQ(snapshot.topics[0].topic, "a");
  EXPECT_EQ(snapshot.topics[0].handled, 2u);
  EXPECT_EQ(snapshot.topics[1].topic, "b");
  EXPECT_EQ(snapshot.topics[2].topic, DispatchStats::other);
  EXPECT_EQ(snapshot.topics[2].handled, 3u);
  EXPECT_EQ(snapshot.topics[2].dead, 1u);
}

TEST(Statistics, stores_beyond_the_limit_are_counted_together) {
  const DispatchStats stats{{.stores = 1}};
  const DispatchObserver observer = stats.observer();
  for (const char* store : {"north", "south", "west"}) observer.claimed(store, 1, 1us);
  const StatsSnapshot snapshot = stats.snapshot();
  ASSERT_EQ(snapshot.stores.size(), 2u);
  EXPECT_EQ(snapshot.stores[0].store, "north");
  EXPECT_EQ(snapshot.stores[1].store, DispatchStats::other);
  EXPECT_EQ(snapshot.stores[1].claimed, 2u);
  EXPECT_EQ(snapshot.all.claimed, 3u);
}

TEST(Statistics, hands_every_call_on_to_the_next_observer) {
  std::string told;
  DispatchObserver next;
  next.claimed = [&](auto...) { told += "claimed "; };
  next.started = [&](auto&&...) { told += "started "; };
  next.handled = [&](auto&&...) { told += "handled "; };
  next.failed = [&](auto&&...) { told += "failed "; };
  next.dead = [&](auto&&...) { told += "dead "; };
  next.settled = [&](auto...) { told += "settled "; };
  next.lease_lost = [&](auto...) { told += "lease_lost "; };
  next.timed_out = [&](auto&&...) { told += "timed_out "; };
  next.slow = [&](auto&&...) { told += "slow "; };
  next.woken = [&](auto...) { told += "woken "; };
  next.loop_error = [&](auto...) { told += "loop_error "; };
  next.chore = [&](auto&&...) { told += "chore"; };
  const DispatchStats stats;
  const DispatchObserver observer = stats.observer(next);
  const Message message = claimed_message("t");
  observer.claimed("s", 1, 1us);
  observer.started("s", message, 1us);
  observer.handled("s", message, Outcome::done(), 1us);
  observer.failed("s", message, "e");
  observer.dead("s", message, "r", "e");
  observer.settled("s", 1, 1us);
  observer.lease_lost("s", 1);
  observer.timed_out("s", message);
  observer.slow("s", message, 1s);
  observer.woken("s", 1us);
  observer.loop_error("s", "e");
  observer.chore("s", {.chore = Chore::reap, .end = ChoreReport::End::done});
  EXPECT_EQ(told,
            "claimed started handled failed dead settled lease_lost timed_out slow woken "
            "loop_error chore");
}

TEST(Statistics, a_slow_handler_counts_once_until_it_has_returned) {
  const DispatchStats stats;
  const DispatchObserver observer = stats.observer();
  const Message slow = claimed_message("t");
  Message quick = claimed_message("t");
  quick.epoch = slow.epoch + 1;
  observer.started("s", slow, 0us);
  observer.slow("s", slow, 10s);
  observer.slow("s", slow, 20s);
  EXPECT_EQ(stats.snapshot().stores[0].slow, 1u);
  observer.handled("s", quick, Outcome::done(), 1us);
  EXPECT_EQ(stats.snapshot().all.slow, 1u);
  observer.handled("s", slow, Outcome::done(), 30s);
  EXPECT_EQ(stats.snapshot().all.slow, 0u);
}

TEST(Statistics, housekeeping_is_counted_by_the_rows_it_touched) {
  using End = ChoreReport::End;
  const DispatchStats stats;
  const DispatchObserver observer = stats.observer();
  observer.chore("north", {.chore = Chore::reap, .end = End::done, .count = 3});
  observer.chore("north", {.chore = Chore::expire, .end = End::done, .count = 4});
  observer.chore("south", {.chore = Chore::prune, .end = End::lost, .count = 5});
  observer.chore("south", {.chore = Chore::prune, .end = End::failed, .error = "gone"});
  const StoreStats all = stats.snapshot().all;
  EXPECT_EQ(all.reaped, 3u);
  EXPECT_EQ(all.expired, 4u);
  EXPECT_EQ(all.pruned, 5u);
  EXPECT_EQ(all.chore_failures, 1u);
}

TEST(Statistics, an_observer_may_outlive_the_statistics) {
  DispatchObserver observer;
  {
    const DispatchStats stats;
    observer = stats.observer();
  }
  observer.claimed("north", 1, 1us);
}

TEST(Statistics, EVB_34_are_exact_under_many_threads_and_readable_meanwhile) {
  constexpr int threads = 4;
  constexpr int rounds = 5'000;
  const DispatchStats stats{{.stores = 8, .topics = 4}};
  const DispatchObserver observer = stats.observer();
  std::atomic<int> writing = threads;
  std::atomic<bool> impossible = false;
  race(threads + 1, [&](int me) {
    if (me == threads) {
      while (writing > 0) {
        const StatsSnapshot now = stats.snapshot();
        // More calls ended than begun would show as a huge number. Over all stores a thread may
        // count twice: they are read one after the other.
        for (const StoreStats& store : now.stores) {
          if (store.in_flight > threads) impossible = true;
        }
        if (now.stores.size() > 5 || now.topics.size() > 5) impossible = true;
      }
      return;
    }
    for (int i = 0; i < rounds; ++i) {
      const std::string store = "store " + std::to_string((i + me) % 5);
      const Message message = claimed_message("topic " + std::to_string(i % 6));
      observer.started(store, message, Duration{i});
      observer.handled(store, message, Outcome::done(), Duration{i});
    }
    --writing;
  });
  EXPECT_FALSE(impossible);
  const StatsSnapshot snapshot = stats.snapshot();
  EXPECT_EQ(snapshot.all.handled, std::uint64_t{threads} * rounds);
  EXPECT_EQ(snapshot.all.handler_time.count, std::uint64_t{threads} * rounds);
  EXPECT_EQ(snapshot.all.handler_time.largest, std::uint64_t{rounds} - 1);
  EXPECT_EQ(snapshot.all.in_flight, 0u);
  std::uint64_t by_topic = 0;
  for (const TopicStats& topic : snapshot.topics) by_topic += topic.handled;
  EXPECT_EQ(by_topic, std::uint64_t{threads} * rounds);
}

}  // namespace
}  // namespace twinbox
