// One dispatcher for many databases: which store is next, stores that come and go, and one that is
// dead.
#include <condition_variable>
#include <latch>
#include <map>
#include <mutex>
#include <thread>

#include "support/set_test.hpp"
#include <twinbox/dispatcher.hpp>
#include <twinbox/health.hpp>
#include <twinbox/operations.hpp>

namespace twinbox::test {
namespace {

using Names = std::vector<std::string>;

class DispatchSet : public SetTest {
 protected:
  /// Remembers the store of each message that was handled.
  DispatchObserver watching() {
    DispatchObserver observer;
    observer.handled = [this](std::string_view store, const Message&, const Outcome&, Duration) {
      {
        const std::scoped_lock lock{mutex_};
        handled_.emplace_back(store);
      }
      changed_.notify_all();
    };
    return observer;
  }
  Names handled() {
    const std::scoped_lock lock{mutex_};
    return handled_;
  }
  void wait_for(std::size_t count) {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [&] { return handled_.size() >= count; });
  }
  static Handlers one_handler() {
    Handlers handlers;
    handlers.on(Topic{"order.placed"}, [](const Message&) {});
    return handlers;
  }
  static void enqueue(DatabaseSet& set, const std::string& store, int count = 1) {
    for (int i = 0; i < count; ++i) add(set, BoxKind::outbox, store, {});
  }
  /// A message for one_handler(); `id` is for an inbox.
  static void add(DatabaseSet& set, BoxKind kind, const std::string& store, const std::string& id) {
    if (kind == BoxKind::outbox) {
      set.find(store)->outbox().enqueue(a_message("order.placed"));
    } else {
      set.find(store)->inbox().accept(an_arrival(id, "shop", "order.placed"));
    }
  }
  /// Nothing can be opened there.
  StoreDefinition unreachable(std::string name) {
    StoreDefinition definition = define(std::move(name));
    switch (GetParam()) {
      case Backend::postgres:
        definition.address = "postgresql://nobody@127.0.0.1:1/nothing?connect_timeout=2";
        break;
      case Backend::sqlserver: definition.address = "sqlserver://nobody@127.0.0.1:1/nothing"; break;
      default: definition.address = "sqlite:/nonexistent/folder/box.db";
    }
    definition.database.retries = 0;
    return definition;
  }

  void expect_an_unreachable_store_holds_up_no_other(BoxKind kind) {
    DatabaseSet set({unreachable("lost"), define("north"), define("south")}, {}, on_real_time());
    std::latch failure{1};
    std::atomic<bool> told = false;
    DispatchObserver observer = watching();
    observer.loop_error = [&](std::string_view store, std::string_view) {
      EXPECT_EQ(store, "lost");
      if (!told.exchange(true)) failure.count_down();
    };
    Dispatcher dispatcher{set, kind, one_handler(), {.poll_interval = 1h}, observer};
    std::jthread thread{[&](std::stop_token stop) { dispatcher.run(stop); }};
    failure.wait();
    for (std::size_t i = 1; i <= 20; ++i) {
      add(set, kind, i % 2 == 0 ? "north" : "south", "evt_" + std::to_string(i));
      wait_for(i);
    }
    EXPECT_EQ(log().events("loop_error").at(0).field("store"), "lost");
  }

  void expect_a_crashed_processor_starts_again(BoxKind kind) {
    StoreDefinition definition = define_without_tables("north");
    definition.inbox.deploy_schema = false;
    DatabaseSet set({definition}, {}, on_real_time());
    std::latch crashed{2};
    std::atomic<int> crashes = 0;
    DispatchObserver observer = watching();
    observer.loop_error = [&](std::string_view, std::string_view) {
      if (++crashes <= 2) crashed.count_down();
    };
    Dispatcher dispatcher{set, kind, one_handler(), {.restart_delay = 5ms}, observer};
    std::jthread thread{[&](std::stop_token stop) { dispatcher.run(stop); }};
    crashed.wait();
    Database database{definition.address};
    if (kind == BoxKind::outbox) {
      definition.outbox.deploy_schema = true;
      Outbox{database, definition.outbox}.enqueue(a_message("order.placed"));
    } else {
      definition.inbox.deploy_schema = true;
      Inbox{database, definition.inbox}.accept(an_arrival("evt_1", "shop", "order.placed"));
    }
    wait_for(1);
  }

  void expect_an_idle_poller_slows_down(BoxKind kind) {
    std::mutex mutex;
    std::condition_variable slow;
    std::vector<std::chrono::steady_clock::time_point> looks;
    Environment environment = on_real_time();
    environment.timing = [&](std::string_view statement, std::chrono::nanoseconds, std::size_t) {
      if (statement != "next_due") return;  // of every look that finds nothing
      const std::scoped_lock lock{mutex};
      looks.push_back(std::chrono::steady_clock::now());
      slow.notify_all();
    };
    DatabaseSet set({define("north")}, {}, environment);
    add(set, kind, "north", "evt_1");
    Dispatcher dispatcher{set, kind, one_handler(), {.poll_interval = 40ms}, watching()};
    std::jthread thread{[&](std::stop_token stop) { dispatcher.run(stop); }};
    wait_for(1);
    std::unique_lock lock{mutex};
    const auto slowed_down = [&] {
      return looks.size() > 1 && looks.back() - looks.at(looks.size() - 2) >= 40ms;
    };
    slow.wait(lock, [&] { return slowed_down() || looks.size() > 200; });
    EXPECT_TRUE(slowed_down()) << looks.size() << " looks";
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Names handled_;
};

TEST_P(DispatchSet, OBX_068_IBX_087_round_robin_takes_one_batch_from_each_store_in_turn) {
  REQUIREMENT("OBX-067, IBX-086");
  DatabaseSet set({define("north"), define("south")}, {}, environment());
  enqueue(set, "north", 4);
  enqueue(set, "south", 2);
  Dispatcher dispatcher{set, BoxKind::outbox, one_handler(), {.batch = 2}, watching()};
  EXPECT_EQ(dispatcher.drain(), 6u);
  EXPECT_EQ(handled(), (Names{"north", "north", "south", "south", "north", "north"}));
}

TEST_P(DispatchSet, OBX_069_IBX_088_drain_first_stays_with_a_store_until_it_is_empty) {
  REQUIREMENT("OBX-067, IBX-086");
  DatabaseSet set({define("north"), define("south")}, {}, environment());
  enqueue(set, "north", 4);
  enqueue(set, "south", 2);
  Dispatcher dispatcher{set,
                        BoxKind::outbox,
                        one_handler(),
                        {.batch = 2, .order = PollOrder::drain_first},
                        watching()};
  EXPECT_EQ(dispatcher.drain(), 6u);
  EXPECT_EQ(handled(), (Names{"north", "north", "north", "north", "south", "south"}));
}

TEST_P(DispatchSet, works_on_inboxes_as_well) {
  DatabaseSet set({define("north"), define("south")}, {}, environment());
  set.find("south")->inbox().accept(an_arrival("evt_1"));
  enqueue(set, "north");
  Handlers handlers;
  handlers.on(an_arrival("evt_1").topic, [](const Message&) {});
  Dispatcher dispatcher{set, BoxKind::inbox, std::move(handlers), {}, watching()};
  EXPECT_EQ(dispatcher.drain(), 1u);
  EXPECT_EQ(handled(), Names{"south"});
}

TEST_P(DispatchSet, a_step_that_fails_goes_on_with_the_next_store) {
  DatabaseSet set({unreachable("lost"), define("north")}, {}, environment());
  enqueue(set, "north", 2);
  Dispatcher dispatcher{set, BoxKind::outbox, one_handler(), {}, watching()};
  EXPECT_THROW(dispatcher.drain(), DatabaseError);
  EXPECT_EQ(handled(), (Names{"north", "north"}));
}

TEST_P(DispatchSet, PHD_23_an_inbox_that_cannot_be_reached_holds_up_no_other) {
  expect_an_unreachable_store_holds_up_no_other(BoxKind::inbox);
}

TEST_P(DispatchSet, an_outbox_that_cannot_be_reached_holds_up_no_other) {
  expect_an_unreachable_store_holds_up_no_other(BoxKind::outbox);
}

TEST_P(DispatchSet, the_chores_of_a_store_that_fails_rest_while_those_of_others_are_done) {
  DatabaseSet set({define("north"), define("south")}, {}, on_real_time());
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, int, std::less<>> chores;
  bool failing = false;
  DispatchObserver observer;
  observer.chore = [&](std::string_view store, const ChoreReport&) {
    const std::scoped_lock lock{mutex};
    ++chores[std::string{store}];
    changed.notify_all();
  };
  observer.loop_error = [&](std::string_view store, std::string_view) {
    const std::scoped_lock lock{mutex};
    if (store == "north" && !failing) chores.clear();
    failing = failing || store == "north";
    changed.notify_all();
  };
  const ChoreOptions often{.interval = 1ms};
  Dispatcher dispatcher{
      set,
      BoxKind::outbox,
      one_handler(),
      {.poll_interval = 1ms,
       .housekeeping = HousekeepingOptions{.reap = often, .expire = often, .min_lease = 1ms}},
      observer};
  std::jthread thread{[&](const std::stop_token& stop) { dispatcher.run(stop); }};
  std::unique_lock lock{mutex};
  changed.wait(lock, [&] { return chores["north"] > 0 && chores["south"] > 0; });
  lock.unlock();
  const auto north = set.find("north");
  rename_table(*north, "outbox_work", "hidden");
  lock.lock();
  changed.wait(lock, [&] { return failing && chores["south"] >= 60; });
  // Without a rest they would be as many; how few they are depends on how long the others take.
  EXPECT_LT(chores["north"], chores["south"] / 3);
}

TEST_P(DispatchSet, stores_that_come_are_worked_on_and_stores_that_go_finish_what_they_hold) {
  std::vector<StoreDefinition> found = {define("north")};
  DatabaseSet set([&] { return found; }, {.refresh_interval = 0ms}, on_real_time());
  std::latch started{1};
  std::latch on_progress{1};
  Handlers handlers = one_handler();
  handlers.on(Topic{"order.slow"}, [&](const Message&) {
    started.count_down();
    on_progress.wait();
  });
  DispatchObserver observer = watching();
  Dispatcher dispatcher{set, BoxKind::outbox, handlers, {.poll_interval = 1h}, observer};
  std::jthread thread{[&](std::stop_token stop) { dispatcher.run(stop); }};
  enqueue(set, "north");
  wait_for(1);

  found.push_back(define("south"));
  set.refresh();
  enqueue(set, "south");
  wait_for(2);
  EXPECT_EQ(handled(), (Names{"north", "south"}));

  const auto south = set.find("south");
  south->outbox().enqueue(a_message("order.slow"));
  started.wait();
  found.pop_back();
  set.refresh();
  south->outbox().enqueue(a_message("order.placed"));
  on_progress.count_down();
  wait_for(3);
  enqueue(set, "north");
  wait_for(4);
  thread.request_stop();
  thread.join();
  const Counts counts = Admin{south->outbox()}.counts(true);
  EXPECT_EQ(counts.all.done, 2);
  EXPECT_EQ(counts.all.ready, 1);
  EXPECT_EQ(counts.all.leased, 0);
}

TEST_P(DispatchSet, a_store_may_go_while_the_run_ends) {
  std::vector<StoreDefinition> found = {define("north")};
  DatabaseSet* all = nullptr;
  std::atomic<bool> ending = false;
  Environment environment = on_real_time();
  environment.timing = [&](std::string_view statement, std::chrono::nanoseconds, std::size_t) {
    // The last that a run does in a store.
    if (statement != "worker_leave" || !ending.exchange(false)) return;
    found.clear();
    all->refresh();
  };
  DatabaseSet set([&] { return found; }, {.refresh_interval = 0ms}, environment);
  all = &set;
  Dispatcher dispatcher{set, BoxKind::outbox, one_handler(), {.poll_interval = 1h}, watching()};
  std::jthread thread{[&](const std::stop_token& stop) { dispatcher.run(stop); }};
  enqueue(set, "north");
  wait_for(1);
  const auto north = set.find("north");
  while (Workers{north->outbox()}.list().empty()) std::this_thread::yield();
  ending = true;
  thread.request_stop();
  thread.join();
  EXPECT_FALSE(ending) << "it was removed meanwhile";
  EXPECT_EQ(dispatcher.drain(), 0u);
  EXPECT_EQ(north.use_count(), 1) << "the dispatcher keeps nothing of it";
}

TEST_P(DispatchSet,
       a_store_that_has_gone_is_not_stepped_into_and_is_closed_after_its_last_handler) {
  std::vector<StoreDefinition> found = {define("north")};
  DatabaseSet set([&] { return found; }, {.refresh_interval = 0ms}, on_real_time());
  std::latch started{1};
  std::latch on_progress{1};
  Handlers handlers = one_handler();
  handlers.on(Topic{"order.slow"}, [&](const Message&) {
    started.count_down();
    on_progress.wait();
  });
  Dispatcher dispatcher{set, BoxKind::outbox, handlers, {.grace = 0s}, watching()};
  std::jthread thread{[&](const std::stop_token& stop) { dispatcher.run(stop); }};
  auto north = set.find("north");
  north->outbox().enqueue(a_message("order.slow"));
  started.wait();
  found.clear();
  set.refresh();
  north->outbox().enqueue(a_message("order.placed"));
  EXPECT_EQ(dispatcher.drain(), 0u) << "it was removed";
  thread.request_stop();
  thread.join();
  EXPECT_EQ(dispatcher.drain(), 0u) << "it was removed";
  on_progress.count_down();
  const auto end = std::chrono::steady_clock::now() + 60s;
  while (north.use_count() > 1 && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
  EXPECT_EQ(north.use_count(), 1) << "the dispatcher keeps nothing of it";
  EXPECT_EQ(Admin{north->outbox()}.counts(true).all.done, 1);
}

TEST_P(DispatchSet, the_processor_of_an_inbox_that_crashed_starts_again_once_its_tables_are_there) {
  if (GetParam() == Backend::sqlite_memory) return;  // no other program can create the tables
  REQUIREMENT("PHD-14");
  expect_a_crashed_processor_starts_again(BoxKind::inbox);
}

TEST_P(DispatchSet, the_processor_of_an_outbox_that_crashed_starts_again_as_well) {
  if (GetParam() == Backend::sqlite_memory) return;  // no other program can create the tables
  expect_a_crashed_processor_starts_again(BoxKind::outbox);
}

TEST_P(DispatchSet, PHD_15_of_several_processors_one_is_active_and_another_takes_over) {
  DatabaseSet set({define("north")}, {}, on_real_time());
  const DispatcherOptions single{.poll_interval = 20ms, .processors = 1};
  std::atomic<int> by_first = 0;
  std::atomic<int> by_second = 0;
  Handlers one;
  one.on(Topic{"order.placed"}, [&](const Message&) { ++by_first; });
  Handlers two;
  two.on(Topic{"order.placed"}, [&](const Message&) { ++by_second; });
  Dispatcher first{set, BoxKind::outbox, one, single, watching()};
  Dispatcher second{set, BoxKind::outbox, two, single, watching()};
  std::jthread first_thread{[&](std::stop_token stop) { first.run(stop); }};
  enqueue(set, "north");
  wait_for(1);
  std::jthread second_thread{[&](std::stop_token stop) { second.run(stop); }};
  enqueue(set, "north", 10);
  wait_for(11);
  EXPECT_EQ(by_first, 11);
  first_thread.request_stop();
  first_thread.join();
  enqueue(set, "north");
  wait_for(12);
  EXPECT_EQ(by_second, 1);
}

TEST_P(DispatchSet, PHD_15_a_processor_that_lost_its_slot_stops_what_runs_and_claims_nothing) {
  StoreDefinition definition = define("north");
  DatabaseSet set({definition}, {}, on_real_time());
  std::latch started{1};
  std::latch stopped{1};
  std::atomic<int> calls = 0;
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message&, std::stop_token stop) -> Outcome {
    if (++calls > 1) return Outcome::done();
    started.count_down();
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock lock{mutex};
    never.wait(lock, stop, [] { return false; });
    stopped.count_down();
    return Outcome::retry("stopped");
  });
  Dispatcher dispatcher{set,
                        BoxKind::outbox,
                        handlers,
                        {.lease = 300ms, .poll_interval = 20ms, .processors = 1},
                        watching()};
  std::jthread thread{[&](std::stop_token stop) { dispatcher.run(stop); }};
  enqueue(set, "north");
  started.wait();
  const std::string table = set.find("north")->database().dialect() != Dialect::sqlite
                                ? "\"" + definition.outbox.schema + "\".outbox_named_lease"
                                : "outbox_named_lease";
  set.find("north")->database().in_transaction([&](Session& session) {
    session.execute("update " + table + " set owner = null, epoch = epoch + 1");
  });
  stopped.wait();
  wait_for(2);
  EXPECT_FALSE(log().events("slot_lost").empty());
  thread.request_stop();
  thread.join();
  for (const DeliveryEntry& entry : Admin{set.find("north")->outbox()}.list({}).entries) {
    EXPECT_EQ(entry.delivery.attempts, 0);
  }
}

TEST_P(DispatchSet, a_batch_handler_gets_what_has_queued_up_in_one_call) {
  DatabaseSet set({define("north")}, {}, on_real_time());
  enqueue(set, "north", 10);
  std::atomic<std::size_t> first_call = 0;
  Handlers handlers;
  handlers.on_batch(Topic{"order.placed"},
                    [&](std::span<const Message> messages, const std::stop_token&) {
                      std::size_t none = 0;
                      first_call.compare_exchange_strong(none, messages.size());
                      return std::vector<Outcome>(messages.size(), Outcome::done());
                    },
                    {.max_batch = 8});
  Dispatcher dispatcher{set, BoxKind::outbox, handlers, {.workers = 1}, watching()};
  std::jthread thread{[&](std::stop_token stop) { dispatcher.run(stop); }};
  wait_for(10);
  thread.request_stop();
  thread.join();
  EXPECT_EQ(first_call, 8u);
  EXPECT_EQ(Admin{set.find("north")->outbox()}.counts(true).all.done, 10);
}

TEST_P(DispatchSet, OBX_103_an_idle_poller_of_an_outbox_slows_down) {
  expect_an_idle_poller_slows_down(BoxKind::outbox);
}

TEST_P(DispatchSet, IBX_124_an_idle_poller_of_an_inbox_slows_down) {
  expect_an_idle_poller_slows_down(BoxKind::inbox);
}

TWINBOX_ON_EVERY_BACKEND(DispatchSet);

}  // namespace
}  // namespace twinbox::test
