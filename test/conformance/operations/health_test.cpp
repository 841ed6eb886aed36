// Health and statistics: what they say, and that reading them stops nobody.
#include <cstddef>
#include <latch>
#include <thread>
#include <tuple>

#include "support/inbox_test.hpp"
#include <twinbox/dispatcher.hpp>
#include <twinbox/health.hpp>

namespace twinbox::test {
namespace {

class HealthOf : public InboxTest {
 protected:
  Health health(const HealthThresholds& thresholds = {}) {
    return check_health(inbox(), thresholds);
  }
  std::string reason(const HealthThresholds& thresholds = {}) {
    return health(thresholds).reasons.front();
  }
  void accept_many(int count, const std::string& prefix = "evt_",
                   const std::optional<PartitionKey>& key = {}) {
    std::vector<Arrival> arrivals;
    for (int i = 0; i < count; ++i) {
      arrivals.push_back(an_arrival(prefix + std::to_string(i)));
      arrivals.back().extras.partition_key = key;
    }
    inbox().accept(arrivals);
  }
};

TEST_P(HealthOf, EVB_19_is_healthy_with_up_to_a_thousand_pending_and_degraded_above) {
  EXPECT_EQ(health().state, HealthState::healthy);
  EXPECT_EQ(reason(), "0 pending, 0 dead letters");
  accept_many(1000);
  EXPECT_EQ(health().state, HealthState::healthy);
  EXPECT_EQ(reason(), "1000 pending, 0 dead letters");
  inbox().accept(an_arrival("one more"));
  EXPECT_EQ(health().state, HealthState::degraded);
  EXPECT_EQ(reason(), "more than 1000 pending");
  accept_many(50, "and_more_");
  EXPECT_EQ(health().pending, 1001) << "it counts no further than it has to";
}

TEST_P(HealthOf, EVB_19_is_unhealthy_with_more_than_ten_dead_letters) {
  for (int i = 0; i < 10; ++i) make_dead(an_arrival("evt_" + std::to_string(i)));
  EXPECT_EQ(health().state, HealthState::healthy);
  EXPECT_EQ(health().dead, 10);
  for (int i = 10; i < 15; ++i) make_dead(an_arrival("evt_" + std::to_string(i)));
  EXPECT_EQ(health().state, HealthState::unhealthy);
  EXPECT_EQ(health().dead, 11);
  EXPECT_EQ(health().reasons, std::vector<std::string>{"more than 10 dead letters"});
  Admin{inbox()}.requeue(Filter{.state = StateFilter::dead});
  EXPECT_EQ(health().state, HealthState::healthy);
  EXPECT_EQ(health().pending, 15);
}

TEST_P(HealthOf, EVB_19_thresholds_can_be_chosen_and_every_reason_is_named) {
  inbox().accept(an_arrival("open"));
  make_dead(an_arrival("dead"));
  EXPECT_EQ(health({.pending = 1, .dead = 1}).state, HealthState::healthy);
  EXPECT_EQ(health({.pending = 0, .dead = 1}).state, HealthState::degraded);
  const Health worst = health({.pending = 0, .dead = 0});
  EXPECT_EQ(worst.state, HealthState::unhealthy);
  EXPECT_EQ(worst.reasons,
            (std::vector<std::string>{"more than 0 dead letters", "more than 0 pending"}));
  EXPECT_THROW(static_cast<void>(health({.pending = -1})), std::out_of_range);
  EXPECT_THROW(static_cast<void>(health({.dead = 1'000'001})), std::out_of_range);
}

TEST_P(HealthOf, reports_a_stalled_processor) {
  const std::string stalled =
      "no dispatcher has finished anything for 300 s, and a delivery has been due for longer; "
      "check "
      "whether a dispatcher runs and whether its handlers hang";
  Workers workers{inbox()};
  inbox().accept(an_arrival());
  workers.heartbeat(worker_a, "host:1", "1", 7);
  clock().advance(5min - 1us);
  EXPECT_EQ(health().state, HealthState::healthy) << "not due for long";
  clock().advance(1us);
  EXPECT_EQ(health().state, HealthState::degraded);
  EXPECT_EQ(reason(), stalled);
  workers.heartbeat(worker_a, "host:1", "1", 7);
  EXPECT_TRUE(health().stalled) << "it lives, and finishes nothing";
  workers.heartbeat(worker_a, "host:1", "1", 7, 1);
  EXPECT_EQ(health().state, HealthState::healthy) << "a failure is progress";
  clock().advance(5min);
  EXPECT_TRUE(health().stalled);
  EXPECT_EQ(health({.stalled = 11min}).state, HealthState::healthy);
  EXPECT_EQ(health({.stalled = 0s}).state, HealthState::healthy) << "never";
  workers.heartbeat(worker_a, "host:1", "1", 8, 1);
  EXPECT_FALSE(health().stalled);
  workers.leave(worker_a);
  EXPECT_TRUE(health().stalled) << "it has left";
  EXPECT_THROW(static_cast<void>(health({.stalled = 1ms})), std::out_of_range);
  ASSERT_EQ(inbox().ack(worker_a, inbox().claim(worker_a)), 1u);
  EXPECT_EQ(health().state, HealthState::healthy) << "nothing is due";
}

TEST_P(HealthOf, reports_a_running_dispatcher_whose_handler_hangs) {
  std::latch hanging{1};
  std::latch on_progress{1};
  std::latch finished{2};
  Handlers handlers;
  handlers.on(an_arrival().topic, [&](const Message& message) {
    if (message.id.str() == "hangs") {
      hanging.count_down();
      on_progress.wait();
    }
  });
  DispatchObserver observer;
  observer.settled = [&](std::string_view, std::size_t count, Duration) {
    finished.count_down(static_cast<std::ptrdiff_t>(count));
  };
  inbox().accept(an_arrival("hangs"));
  Dispatcher dispatcher{inbox(), std::move(handlers), {.workers = 2, .lease = 1h}, observer};
  {
    const std::jthread thread{[&](const std::stop_token& stop) { dispatcher.run(stop); }};
    hanging.wait();
    while (Workers{inbox()}.list().empty()) std::this_thread::yield();
    EXPECT_FALSE(health().stalled);
    clock().advance(5min);
    EXPECT_EQ(delivery(a_key("hangs")).state, DeliveryState::leased);
    EXPECT_EQ(Workers{inbox()}.list().size(), 1u);
    EXPECT_EQ(health().state, HealthState::degraded);
    EXPECT_TRUE(health().stalled);
    EXPECT_NE(reason().find("whether its handlers hang"), std::string::npos) << reason();
    on_progress.count_down();
    inbox().accept(an_arrival("next"));
    finished.wait();
    EXPECT_FALSE(health().stalled);
  }
}

TEST_P(HealthOf, pending_is_what_is_due_whoever_holds_it) {
  accept_many(3);
  ASSERT_EQ(inbox().claim(worker_a, 30s, 1).size(), 1u);
  Arrival later = an_arrival("later");
  later.extras.due_at = clock().now() + 1h;
  inbox().accept(later);
  make_done(an_arrival("done"));
  std::ignore = inbox().already_processed(a_key("seen"));
  EXPECT_EQ(health().pending, 3);
  clock().advance(1h);
  EXPECT_EQ(health().pending, 4);
}

TEST_P(HealthOf, pending_is_also_what_waits_behind_another_of_its_key) {
  accept_many(20, "a_", PartitionKey{"a"});
  accept_many(20, "b_", PartitionKey{"b"});
  EXPECT_EQ(health().pending, 40);
  ASSERT_EQ(inbox().abandon(worker_a, inbox().claim(worker_a, 30s, 2), "no", 1h), 2u);
  EXPECT_EQ(health().pending, 38) << "both heads wait for their next attempt";
  EXPECT_EQ(health({.pending = 10}).state, HealthState::degraded);
}

TEST_P(HealthOf, EVB_19_a_store_that_cannot_be_asked_is_unhealthy_with_the_error_as_its_reason) {
  inbox();
  rename_table("inbox_work", "gone");
  const Health broken = health();
  EXPECT_EQ(broken.state, HealthState::unhealthy);
  EXPECT_NE(broken.reasons.at(0).find("test store cannot be queried"), std::string::npos);
  EXPECT_NE(broken.reasons.at(0).find("inbox_work"), std::string::npos) << broken.reasons[0];
}

TEST_P(HealthOf, EVB_18_statistics_count_by_state_and_by_topic_and_tell_the_oldest_age) {
  accept_many(2, "old_");
  clock().advance(20s);
  inbox().accept(an_arrival("refund", "stripe", "refund"));
  clock().advance(10s);
  make_dead(an_arrival("failed", "stripe", "refund"));
  ASSERT_EQ(inbox().claim(worker_a, 30s, 1).size(), 1u);
  Arrival later = an_arrival("later", "stripe", "reminder");
  later.extras.due_at = clock().now() + 1h;
  inbox().accept(later);

  const Counts counts = Admin{inbox()}.counts();
  EXPECT_EQ(counts.all.open(), 4) << "unprocessed";
  EXPECT_EQ(counts.all.dead, 1) << "failed";
  EXPECT_EQ(counts.all.leased, 1) << "processing";
  EXPECT_EQ(counts.all.oldest_pending, Duration{30s});

  const StateCounts& payments = counts.by_topic.at("payment.received");
  EXPECT_EQ(payments.open(), 2);
  EXPECT_EQ(payments.leased, 1);
  EXPECT_EQ(payments.dead, 0);
  EXPECT_EQ(payments.oldest_pending, Duration{30s});
  const StateCounts& refunds = counts.by_topic.at("refund");
  EXPECT_EQ(refunds.open(), 1);
  EXPECT_EQ(refunds.dead, 1);
  EXPECT_EQ(refunds.oldest_pending, Duration{10s});
  EXPECT_EQ(counts.by_topic.at("reminder").scheduled, 1);
  EXPECT_EQ(counts.by_topic.at("reminder").oldest_pending, std::nullopt);
}

TWINBOX_ON_EVERY_BACKEND(HealthOf);

/// Stores where who reads does not wait for who writes. SQL Server is one when it is told.
class Monitoring : public HealthOf {
 protected:
  void SetUp() override {
    if (!on_sqlserver() || IsSkipped()) return;
    const std::string kept = read(
        "select cast(is_read_committed_snapshot_on as int) from sys.databases where name = "
        "db_name()");
    if (kept != "1") GTEST_SKIP() << "read_committed_snapshot is off in this database";
  }
};

TEST_P(Monitoring, EVB_34_is_read_while_a_worker_is_in_the_middle_of_its_transaction) {
  accept_many(3);
  Inbox& monitor = other_inbox(0);
  inbox().database().in_transaction([&](Session& session) {
    const auto held = inbox().claim(session, worker_a, 30s, 3);
    ASSERT_EQ(held.size(), 3u);
    ASSERT_EQ(inbox().ack(session, worker_a, held[0]), 1u);
    EXPECT_EQ(Admin{monitor}.counts(true).all.ready, 3) << "as it was before";
    EXPECT_EQ(check_health(monitor).pending, 3);
    EXPECT_EQ(Admin{monitor}.list({}).entries.size(), 3u);
    EXPECT_TRUE(Admin{monitor}.dead_groups().groups.empty());
  });
  EXPECT_EQ(Admin{monitor}.counts(true).all.done, 1);
}

TWINBOX_ON_BACKENDS(Monitoring, Backend::sqlite_file, Backend::postgres, Backend::sqlserver);

}  // namespace
}  // namespace twinbox::test
