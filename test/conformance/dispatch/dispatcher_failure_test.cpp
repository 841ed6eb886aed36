// The dispatcher with its threads where something is missing: the database, threads, connections, a
// log.
#include <future>
#include <latch>
#include <pthread.h>
#include <thread>

#include "support/running.hpp"
#include <twinbox/health.hpp>

namespace twinbox::test {
namespace {

class RunFailure : public RunningTest {};

/// While it lives, the system gives this process no more threads.
class NoMoreThreads {
 public:
  NoMoreThreads() {
    pthread_getattr_default_np(&usual_);
    pthread_attr_t too_large;
    pthread_attr_init(&too_large);
    pthread_attr_setstacksize(&too_large, std::size_t{1} << 46);
    pthread_setattr_default_np(&too_large);
    pthread_attr_destroy(&too_large);
  }
  ~NoMoreThreads() {
    pthread_setattr_default_np(&usual_);
    pthread_attr_destroy(&usual_);
  }
  NoMoreThreads(const NoMoreThreads&) = delete;
  NoMoreThreads& operator=(const NoMoreThreads&) = delete;

 private:
  pthread_attr_t usual_;
};

TEST_P(RunFailure,
       EVB_32_a_failure_is_logged_and_backed_off_from_and_the_host_learns_of_a_fatal_end) {
  using Clock = std::chrono::steady_clock;
  std::latch third{3};
  std::vector<Clock::time_point> failures;
  std::latch handled{1};
  DispatchObserver observer;
  observer.loop_error = [&](std::string_view, std::string_view) {
    failures.push_back(Clock::now());
    if (failures.size() <= 3) third.count_down();
  };
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message&) { handled.count_down(); });
  DispatcherOptions options = by_wake_up(1);
  options.housekeeping.reset();  // its failure would have a pause of its own
  Dispatcher dispatcher{outbox(), std::move(handlers), options, observer};
  outbox().enqueue(a_message());
  rename_table("outbox_message", "hidden");
  {
    const std::jthread thread{[&](const std::stop_token& stop) { dispatcher.run(stop); }};
    third.wait();
    rename_table("hidden", "outbox_message");
    handled.wait();
  }
  const auto logged = log().events("loop_error");
  ASSERT_GE(logged.size(), 3u);
  std::chrono::milliseconds longest = 250ms;  // doubled with each failure; half of it is chance
  for (std::size_t i = 0; i < 2; ++i, longest *= 2) {
    EXPECT_EQ(logged[i].level, LogLevel::error);
    EXPECT_NE(logged[i].field("error").find("outbox_message"), std::string::npos);
    const std::chrono::milliseconds pause{std::stoi(logged[i].field("pause_ms"))};
    EXPECT_GE(pause, longest / 2);
    EXPECT_LE(pause, longest);
    // A watch that begins to work is a wake-up, which ends the first one.
    if (i > 0) {
      EXPECT_GE(failures[i + 1] - failures[i], pause);
    }
  }
  // What run() cannot begin without ends it, and its caller has the error.
  Dispatcher another{outbox(), Handlers{}, by_wake_up(1)};
  const NoMoreThreads none;
  EXPECT_THROW(another.run({}), std::system_error);
}

TEST_P(RunFailure, PHD_15_a_slot_that_runs_out_while_the_database_is_away_stops_what_runs) {
  std::latch started{1};
  std::promise<void> told_to_stop;
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message&, const std::stop_token& stop) {
    started.count_down();
    wait_for_stop(stop);
    told_to_stop.set_value();
  });
  DispatcherOptions single = by_wake_up(1);
  single.lease = 300ms;
  single.processors = 1;
  Dispatcher dispatcher{outbox(), std::move(handlers), single};
  outbox().enqueue(a_message());
  const std::jthread thread{[&](const std::stop_token& stop) { dispatcher.run(stop); }};
  started.wait();
  rename_table("outbox_work", "hidden");
  rename_table("outbox_named_lease", "hidden_too");
  clock().advance(1s);  // others may work on the box now
  EXPECT_EQ(told_to_stop.get_future().wait_for(60s), std::future_status::ready);
  rename_table("hidden_too", "outbox_named_lease");
  rename_table("hidden", "outbox_work");
}

TEST_P(RunFailure, a_second_run_is_refused_until_the_first_is_over) {
  std::stop_source stopped;
  stopped.request_stop();
  Dispatcher* mine = nullptr;
  std::atomic<int> refused = 0;
  Environment watched = environment();
  watched.timing = [&](std::string_view statement, std::chrono::nanoseconds, std::size_t) {
    if (statement != "worker_leave") return;  // the last that a run does
    try {
      mine->run(stopped.get_token());
    } catch (const UsageError&) {
      ++refused;
    }
  };
  Database store{test_store().address(), {}, watched};
  Outbox box{store, options()};
  Dispatcher dispatcher{box, Handlers{}, by_wake_up(1)};
  mine = &dispatcher;
  {
    const std::jthread thread{[&](const std::stop_token& stop) { dispatcher.run(stop); }};
    while (Workers{box}.list().empty()) std::this_thread::yield();
  }
  EXPECT_EQ(refused, 1);
  EXPECT_NO_THROW(dispatcher.run(stopped.get_token()));
}

TEST_P(RunFailure, a_run_that_gets_no_threads_says_so_and_can_be_tried_again) {
  std::latch handled{1};
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message&) { handled.count_down(); });
  Dispatcher dispatcher{outbox(), std::move(handlers), by_wake_up(1)};
  outbox().enqueue(a_message());
  {
    const NoMoreThreads none;
    EXPECT_THROW(dispatcher.run({}), std::system_error);
  }
  const std::jthread thread{[&](const std::stop_token& stop) { dispatcher.run(stop); }};
  handled.wait();
}

TEST_P(RunFailure, a_run_that_gets_no_thread_for_its_chores_says_so_and_can_be_tried_again) {
  std::latch handled{1};
  std::stop_source stopped;
  stopped.request_stop();
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message&) { handled.count_down(); });
  Dispatcher dispatcher{outbox(), std::move(handlers), by_wake_up(1)};
  dispatcher.run(stopped.get_token());
  outbox().enqueue(a_message());
  {
    const NoMoreThreads none;  // its workers are there since the first run
    EXPECT_THROW(dispatcher.run({}), std::system_error);
  }
  const std::jthread thread{[&](const std::stop_token& stop) { dispatcher.run(stop); }};
  handled.wait();
}

TEST_P(RunFailure, a_log_that_throws_hurts_nobody) {
  std::latch handled{2};
  Environment loud = environment();
  loud.log = [](const LogEvent&) { throw std::runtime_error("the disk is full"); };
  Database store{test_store().address(), {}, loud};
  Outbox box{store, options()};
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message&) {
    handled.count_down();
    throw std::runtime_error("an error to be told");
  });
  Dispatcher dispatcher{box, std::move(handlers), by_wake_up(1)};
  const std::jthread thread{[&](const std::stop_token& stop) { dispatcher.run(stop); }};
  box.enqueue(a_message());
  box.enqueue(a_message());
  handled.wait();
}

TEST_P(RunFailure, warns_where_transactional_handlers_leave_no_connection_for_their_leases) {
  const auto warnings = [&](int workers, auto handler) {
    log().clear();
    Database store{test_store().address(), {.pool_size = 3}, environment()};
    Outbox box{store, options()};
    Handlers handlers;
    handlers.on(Topic{"order.placed"}, handler);
    Dispatcher dispatcher{box, std::move(handlers), {.workers = workers}};
    const std::jthread thread{[&](const std::stop_token& stop) { dispatcher.run(stop); }};
    while (Workers{box}.list().empty()) std::this_thread::yield();
    return log().events("few_connections");
  };
  const auto transactional = [](Session&, const Message&) {};
  const auto warned = warnings(3, transactional);
  if (on_sqlite()) {  // where they run one after the other, and nobody takes a lease meanwhile
    EXPECT_TRUE(warned.empty());
    return;
  }
  ASSERT_EQ(warned.size(), 1u);
  EXPECT_EQ(warned[0].level, LogLevel::warning);
  EXPECT_EQ(warned[0].field("workers"), "3");
  EXPECT_EQ(warned[0].field("connections"), "3");
  EXPECT_EQ(warned[0].field("raise"), "pool_size");
  EXPECT_TRUE(warnings(2, transactional).empty());
  EXPECT_TRUE(warnings(3, [](const Message&) {}).empty());
}

TWINBOX_ON_EVERY_BACKEND(RunFailure);

}  // namespace
}  // namespace twinbox::test
