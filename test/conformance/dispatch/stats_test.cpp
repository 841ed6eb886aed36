// What the statistics of a real dispatcher say.
#include <condition_variable>
#include <latch>
#include <mutex>
#include <thread>

#include "support/set_test.hpp"
#include <twinbox/dispatcher.hpp>
#include <twinbox/operations.hpp>

namespace twinbox::test {
namespace {

class StatsOf : public BoxTest {
 protected:
  Dispatcher dispatcher(Handlers handlers, DispatcherOptions options = {}) {
    return Dispatcher{outbox(), std::move(handlers), options, stats.observer()};
  }
  StoreStats all() { return stats.snapshot().all; }

  DispatchStats stats;
};

TEST_P(StatsOf, EVB_18_count_what_was_claimed_handled_failed_and_dead_by_topic) {
  Handlers handlers;
  handlers.on(Topic{"good"}, [](const Message&) {});
  handlers.on(Topic{"shaky"}, [](const Message&) { throw std::runtime_error("not yet"); });
  handlers.on(Topic{"bad"}, [](const Message&) { return Outcome::dead("never"); });
  for (const char* topic : {"good", "good", "good", "shaky", "shaky", "bad"}) {
    outbox().enqueue(a_message(topic));
  }
  dispatcher(std::move(handlers)).drain();
  const StatsSnapshot snapshot = stats.snapshot();
  EXPECT_EQ(snapshot.all.claimed, 6u);
  EXPECT_EQ(snapshot.all.handled, 6u);
  EXPECT_EQ(snapshot.all.failed, 2u);
  EXPECT_EQ(snapshot.all.dead, 1u);
  EXPECT_EQ(snapshot.all.settled, 6u);
  EXPECT_EQ(snapshot.all.in_flight, 0u);
  EXPECT_EQ(snapshot.all.lease_lost, 0u);
  EXPECT_EQ(snapshot.all.claim_size.largest, 6u);
  EXPECT_EQ(snapshot.all.handler_time.count, 6u);
  EXPECT_GT(snapshot.all.settle_time.count, 0u);
  ASSERT_EQ(snapshot.stores.size(), 1u);
  EXPECT_EQ(snapshot.stores[0].store, database().name());
  ASSERT_EQ(snapshot.topics.size(), 3u);
  EXPECT_EQ(snapshot.topics[0].topic, "bad");
  EXPECT_EQ(snapshot.topics[0].dead, 1u);
  EXPECT_EQ(snapshot.topics[1].topic, "good");
  EXPECT_EQ(snapshot.topics[1].handled, 3u);
  EXPECT_EQ(snapshot.topics[2].topic, "shaky");
  EXPECT_EQ(snapshot.topics[2].failed, 2u);
}

TEST_P(StatsOf, tell_how_long_a_message_had_been_due_when_its_handler_was_called) {
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [](const Message&) {});
  outbox().enqueue(a_message());
  clock().advance(40s);
  dispatcher(std::move(handlers)).step();
  const Histogram age = all().queue_latency;
  EXPECT_EQ(age.count, 1u);
  EXPECT_GE(age.sum, 40'000'000u);
}

TEST_P(StatsOf, count_a_call_as_in_flight_only_while_there_is_a_handler_that_runs) {
  std::vector<std::uint64_t> seen;
  Handlers handlers;
  const auto look = [&](const Message&) { seen.push_back(all().in_flight); };
  handlers.on(Topic{"plain"}, look);
  handlers.on(Topic{"once"}, look, {.at_most_once = true});
  handlers.on(Topic{"transactional"}, [&](Session&, const Message& message) { look(message); });
  handlers.on_batch(Topic{"batch"}, [&](std::span<const Message> messages, std::stop_token) {
    look(messages[0]);
    return std::vector<Outcome>(messages.size(), Outcome::done());
  });
  auto dispatch = dispatcher(std::move(handlers));
  for (const char* topic : {"plain", "once", "transactional", "nobody's"}) {
    outbox().enqueue(a_message(topic));
    dispatch.drain();
  }
  outbox().enqueue(a_message("batch"));
  outbox().enqueue(a_message("batch"));
  dispatch.drain();
  EXPECT_EQ(seen, (std::vector<std::uint64_t>{1, 1, 1, 2}));
  EXPECT_EQ(all().in_flight, 0u);
  EXPECT_EQ(all().handled, 5u);
  EXPECT_EQ(all().queue_latency.count, 5u);
}

TEST_P(StatsOf, count_the_settles_that_came_too_late) {
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message&) {
    clock().advance(31s);
    EXPECT_EQ(outbox().claim(worker_b, 30s, 1).size(), 1u);
  });
  outbox().enqueue(a_message());
  dispatcher(std::move(handlers), {.lease = 30s}).step();
  EXPECT_EQ(all().lease_lost, 1u);
}

TEST_P(StatsOf, EVB_34_are_read_while_handlers_run_and_hold_nobody_up) {
  constexpr int workers = 2;
  std::latch started{workers};
  std::latch on_progress{1};
  std::latch handled{workers};
  DispatchObserver next;
  next.settled = [&](std::string_view, std::size_t count, Duration) {
    handled.count_down(static_cast<std::ptrdiff_t>(count));
  };
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message&) {
    started.count_down();
    on_progress.wait();
  });
  Dispatcher dispatcher{outbox(),
                        std::move(handlers),
                        {.workers = workers, .poll_interval = 1h},
                        stats.observer(next)};
  for (int i = 0; i < workers; ++i) outbox().enqueue(a_message());
  std::jthread thread{[&](std::stop_token stop) { dispatcher.run(stop); }};
  started.wait();
  EXPECT_EQ(all().in_flight, 2u);
  EXPECT_EQ(all().claimed, 2u);
  EXPECT_EQ(all().handled, 0u);
  on_progress.count_down();
  handled.wait();
  EXPECT_EQ(all().in_flight, 0u);
  EXPECT_EQ(all().handled, 2u);
}

TEST_P(StatsOf, count_timeouts_wake_ups_and_errors_of_the_loop) {
  std::mutex mutex;
  std::condition_variable changed;
  const auto tell = [&](auto&&...) {
    { const std::scoped_lock lock{mutex}; }
    changed.notify_all();
  };
  const auto wait_for = [&](auto&& condition) {
    std::unique_lock lock{mutex};
    EXPECT_TRUE(changed.wait_for(lock, 60s, condition));
  };
  DispatchObserver next;
  next.failed = tell;
  next.timed_out = tell;
  next.woken = tell;
  next.loop_error = tell;
  Handlers handlers;
  handlers.on(Topic{"order.placed"},
              [](const Message&, std::stop_token stop) {
                std::latch told{1};
                const std::stop_callback tells{stop, [&] { told.count_down(); }};
                told.wait();
              },
              {.timeout = 5ms});
  Dispatcher dispatcher{
      outbox(), std::move(handlers), {.workers = 1, .poll_interval = 1h}, stats.observer(next)};
  outbox().enqueue(a_message());
  std::jthread thread{[&](std::stop_token stop) { dispatcher.run(stop); }};
  // A handler may have returned before it is reported that it took too long.
  wait_for([&] { return all().failed == 1 && all().timeouts == 1; });
  outbox().enqueue(a_message("nobody's"));
  wait_for([&] { return all().wake_latency.count > 0; });
  rename_table("outbox_work", "hidden");
  dispatcher.pause();
  dispatcher.resume();
  database().in_transaction([](Session&) {});
  wait_for([&] { return all().loop_errors > 0; });
  rename_table("hidden", "outbox_work");
}

TWINBOX_ON_EVERY_BACKEND(StatsOf);

class StatsOfSet : public SetTest {};

TEST_P(StatsOfSet, are_kept_per_store_and_over_all) {
  DatabaseSet set({define("north"), define("south")}, {}, environment());
  for (int i = 0; i < 3; ++i) set.find("north")->outbox().enqueue(a_message("order.placed"));
  set.find("south")->outbox().enqueue(a_message("order.placed"));
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [](const Message&) {});
  const DispatchStats stats;
  Dispatcher dispatcher{set, BoxKind::outbox, std::move(handlers), {}, stats.observer()};
  dispatcher.drain();
  const StatsSnapshot snapshot = stats.snapshot();
  ASSERT_EQ(snapshot.stores.size(), 2u);
  EXPECT_EQ(snapshot.stores[0].store, "north");
  EXPECT_EQ(snapshot.stores[0].handled, 3u);
  EXPECT_EQ(snapshot.stores[1].handled, 1u);
  EXPECT_EQ(snapshot.all.handled, 4u);
  ASSERT_EQ(snapshot.topics.size(), 1u);
  EXPECT_EQ(snapshot.topics[0].handled, 4u);
}

TWINBOX_ON_EVERY_BACKEND(StatsOfSet);

}  // namespace
}  // namespace twinbox::test
