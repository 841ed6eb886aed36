// What per-handler delivery promises besides the channels: its backoff, its defaults, its checks.
#include "support/inbox_test.hpp"
#include <twinbox/channel.hpp>
#include <twinbox/testing.hpp>

namespace twinbox::test {
namespace {

class Delivery : public InboxTest {
 protected:
  /// How long each failure of a handler waits, with chance from this seed.
  std::vector<Duration> delays(std::uint64_t seed, const std::string& table, int failures) {
    SeededRandom random{seed};
    Environment seeded = environment();
    seeded.random = [&] { return random.bits(); };
    Database own{test_store().address(), {}, seeded};
    BoxOptions named = per_handler_box(options());
    named.table = table;
    named.retry.max_attempts = failures + 1;
    Inbox box{own, named};
    const HandlerName names[] = {{HandlerKey{"mail"}}};
    box.accept(an_arrival(), names);
    Handlers handlers;
    handlers.on_key(HandlerKey{"mail"}, [](const Message&) { throw std::runtime_error("busy"); });
    Dispatcher dispatcher{box, std::move(handlers)};
    std::vector<Duration> waits;
    for (int i = 0; i < failures; ++i) {
      EXPECT_EQ(dispatcher.drain(), 1u);
      const Instant next = Admin{box}.list({}).entries.at(0).delivery.visible_at.value();
      waits.push_back(next - clock().now());
      clock().set(next);
    }
    return waits;
  }
};

class DeliveryLock : public InboxTest {};

TEST_P(Delivery, PHD_07_the_backoff_doubles_under_a_cap_and_half_of_it_is_chance) {
  const std::vector<Duration> one = delays(1, "one", 12);
  for (std::size_t i = 0; i < one.size(); ++i) {
    const Duration base = std::min<Duration>(1s * (1 << (i + 1)), 5min);
    EXPECT_GE(one[i], base / 2) << "failure " << i + 1;
    EXPECT_LE(one[i], base) << "failure " << i + 1;
  }
  EXPECT_EQ(delays(1, "again", 12), one);
  EXPECT_NE(delays(2, "two", 12), one);
}

TEST_P(Delivery, PHD_27_the_defaults) {
  const BoxOptions box = per_handler_box();
  EXPECT_EQ(box.retry.max_attempts, 5);
  EXPECT_EQ(box.retry.first_delay, 2s);
  EXPECT_EQ(box.retry.max_delay, 5min);
  EXPECT_EQ(box.retry.jitter, Jitter::equal);
  const DispatcherOptions dispatcher = per_handler_dispatcher();
  EXPECT_EQ(dispatcher.poll_interval, Duration{30s});
  EXPECT_EQ(dispatcher.batch, 100);
  EXPECT_EQ(dispatcher.lease, Duration{5min});
  EXPECT_EQ(dispatcher.restart_delay, Duration{5s});
  EXPECT_FALSE(HandlerOptions{}.timeout);
  EXPECT_EQ(box.retention, Duration::max()) << "no retention";
  EXPECT_EQ(dispatcher.housekeeping.value().prune.batch, 10'000);
  EXPECT_EQ(dispatcher.housekeeping.value().prune.interval, Duration{1h});
  EXPECT_FALSE(per_handler_dispatcher({.housekeeping = std::nullopt}).housekeeping);
  // What was set before stays.
  EXPECT_EQ(per_handler_box({.table = "mine"}).table, "mine");
  EXPECT_EQ(per_handler_box({.retention = 24h}).retention, Duration{24h});
  EXPECT_EQ(per_handler_box({.retry = RetryPolicy::event_bus()}).retry.first_delay, 1min);
  EXPECT_EQ(per_handler_dispatcher({.workers = 7}).workers, 7);
  EXPECT_EQ(per_handler_dispatcher({.batch = 7}).batch, 7);
  EXPECT_EQ(per_handler_dispatcher({.lease = 1min}).lease, Duration{1min});
  HousekeepingOptions chosen;
  chosen.prune = {.interval = 5min, .batch = 7};
  chosen.retention = 24h;
  const auto kept = per_handler_dispatcher({.housekeeping = chosen}).housekeeping.value();
  EXPECT_EQ(kept.prune, chosen.prune);
  EXPECT_EQ(kept.retention, Duration{24h});
  EXPECT_NO_THROW(Dispatcher(inbox(), Handlers{}, dispatcher));
}

TEST_P(Delivery, PHD_27_a_failing_delivery_is_poisoned_at_the_fifth_attempt) {
  BoxOptions named = per_handler_box(options());
  named.table = "preset";
  Inbox box{database(), named};
  const HandlerName names[] = {{HandlerKey{"mail"}}};
  box.accept(an_arrival(), names);
  int calls = 0;
  Handlers handlers;
  handlers.on_key(HandlerKey{"mail"}, [&](const Message&) {
    ++calls;
    throw std::runtime_error("busy");
  });
  Dispatcher dispatcher{box, std::move(handlers), per_handler_dispatcher()};
  for (int i = 0; i < 10; ++i) {
    dispatcher.drain();
    clock().advance(5min);
  }
  EXPECT_EQ(calls, 5);
  EXPECT_EQ(box.state(a_key()), MessageState::dead);
}

TEST_P(Delivery, PHD_38_options_are_refused_at_start_up_with_their_name_and_bounds) {
  const auto refused = [](auto&& start, const std::string& name, const std::string& bound) {
    try {
      start();
      ADD_FAILURE() << name << " was taken";
    } catch (const std::out_of_range& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find(name), std::string::npos) << text;
      EXPECT_NE(text.find(bound), std::string::npos) << text;
    }
  };
  const auto dispatch = [&](const DispatcherOptions& wrong) {
    return [this, wrong] { Dispatcher(inbox(), Handlers{}, wrong); };
  };
  refused(dispatch({.workers = 0}), "workers", "1 to 1024");
  refused(dispatch({.workers = 5000}), "workers", "1 to 1024");
  refused(dispatch({.lease = 0s}), "lease", "longer than zero");
  refused(dispatch({.batch = 0}), "batch", "1 to 100000");
  refused(dispatch({.restart_delay = -1s}), "restart_delay", "below zero");
  refused(dispatch({.pollers = 0}), "pollers", "1 to 256");
  refused(dispatch({.poll_interval = 0s}), "poll_interval", "longer than zero");
  refused(dispatch({.grace = -1s}), "grace", "below zero");

  const auto open = [&](auto&& change) {
    return [this, change] {
      BoxOptions wrong = options();
      change(wrong);
      Inbox(database(), wrong);
    };
  };
  refused(open([](BoxOptions& box) { box.max_expiries = -1; }), "max_expiries", "0 (no limit)");
  refused(open([](BoxOptions& box) { box.retention = -1s; }), "retention", "below zero");
  refused(open([](BoxOptions& box) { box.retry.first_delay = -1ms; }), "first_delay", "0 to ");
  refused(open([](BoxOptions& box) { box.retry.max_delay = 1s; }), "max_delay", "2000 to ");

  const auto add = [](HandlerOptions wrong) {
    return [wrong] {
      Channels{}.add("orders").on(
          Topic{"a"}, HandlerKey{"k"}, [](const Message&) {}, wrong);
    };
  };
  refused(add({.timeout = 0s}), "timeout", "longer than zero");
  refused(add({.retry = RetryPolicy{.first_delay = -1ms}}), "first_delay", "0 to ");
}

TEST_P(DeliveryLock, PHD_27_a_lock_is_waited_for_sixty_seconds) {
  const LeaseName name{"dispatch"};
  ASSERT_TRUE(NamedLeases{inbox()}.try_acquire(name, worker_b, 1h));
  // Each try of the keeper asks for the time; it passes by five seconds then.
  std::atomic<int> tries = 0;
  Environment counting = environment();
  counting.clock = [&] { return clock().now(); };
  counting.timing = [&](std::string_view statement, std::chrono::nanoseconds, std::size_t) {
    if (statement != "lease_acquire") return;
    ++tries;
    clock().advance(5s);
  };
  Database database{test_store().address(), {}, counting};
  Inbox box{database, options()};
  LeaseKeeper keeper{box, name, worker_a, {.retry_interval = 1ms}};
  EXPECT_FALSE(keeper.acquire({}));
  EXPECT_EQ(tries, 60 / 5);
}

TWINBOX_ON_EVERY_BACKEND(Delivery);
// A second database would be another memory.
TWINBOX_ON_BACKENDS(DeliveryLock, Backend::sqlite_file, Backend::postgres, Backend::sqlserver);

}  // namespace
}  // namespace twinbox::test
