// The dispatcher with its threads: waking up, working in parallel, stopping.
#include <atomic>
#include <barrier>
#include <condition_variable>
#include <future>
#include <latch>
#include <map>
#include <mutex>
#include <random>
#include <semaphore>
#include <thread>
#include <utility>

#include "support/running.hpp"
#include <twinbox/dispatcher.hpp>
#include <twinbox/health.hpp>
#include <twinbox/operations.hpp>

namespace twinbox::test {
namespace {

class Running : public RunningTest {};

TEST_P(Running, PHD_28_a_committed_enqueue_wakes_a_waiting_dispatcher) {
  std::latch handled{4};
  std::latch waiting{1};
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message& message) {
    handled.count_down();
    if (message.payload == payload("first")) waiting.count_down();
  });
  Dispatcher dispatcher{outbox(), std::move(handlers), by_wake_up()};
  outbox().enqueue(a_message("order.placed", "first"));
  std::jthread thread{[&](std::stop_token stop) { dispatcher.run(stop); }};
  waiting.wait();
  outbox().enqueue(a_message());
  const NewMessage batch[] = {a_message()};
  outbox().enqueue(batch);
  database().in_transaction([&](Session& session) { outbox().enqueue(session, a_message()); });
  handled.wait();
}

TEST_P(Running, no_wake_up_is_missed_whenever_it_comes) {
  // Beside a look that begins, one that ends, a handler that returns, a thread that lies down.
  const int rounds = GetParam() == Backend::sqlite_memory ? 3000 : 300;
  std::counting_semaphore<> handled{0};
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message&) { handled.release(); });
  Dispatcher dispatcher{outbox(), std::move(handlers), by_wake_up()};
  std::jthread thread{[&](std::stop_token stop) { dispatcher.run(stop); }};
  std::minstd_rand chance{7};
  for (int i = 0; i < rounds; ++i) {
    for (auto turns = chance() % 300; turns > 0; --turns) std::this_thread::yield();
    outbox().enqueue(a_message());
    ASSERT_TRUE(handled.try_acquire_for(60s)) << "round " << i;
  }
}

TEST_P(Running, OBX_060_handles_different_messages_at_once) {
  std::barrier together{2};
  std::latch handled{2};
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message&) {
    together.arrive_and_wait();
    handled.count_down();
  });
  Dispatcher dispatcher{outbox(), std::move(handlers), by_wake_up(2)};
  outbox().enqueue(a_message());
  outbox().enqueue(a_message());
  std::jthread thread{[&](std::stop_token stop) { dispatcher.run(stop); }};
  handled.wait();
}

TEST_P(Running, IBX_079_handles_different_messages_of_the_inbox_at_once) {
  std::barrier together{2};
  std::latch handled{2};
  Handlers handlers;
  handlers.on(Topic{"payment.received"}, [&](const Message&) {
    together.arrive_and_wait();
    handled.count_down();
  });
  Dispatcher dispatcher{inbox(), std::move(handlers), by_wake_up(2)};
  for (const char* id : {"evt_1", "evt_2"}) inbox().accept(an_arrival(id));
  std::jthread thread{[&](std::stop_token stop) { dispatcher.run(stop); }};
  handled.wait();
}

TEST_P(Running, PHD_39_handlers_of_one_message_run_in_any_order_and_in_parallel) {
  const std::vector<std::string> keys = {"mail", "ledger", "stock"};
  for (const std::string& late : keys) {
    std::vector<std::string> order;
    bool failed = false;
    Handlers handlers;
    std::vector<HandlerName> names;
    for (const std::string& key : keys) {
      names.push_back({HandlerKey{key}});
      handlers.on_key(HandlerKey{key}, [&, key](const Message&) {
        if (key == late && !std::exchange(failed, true)) throw std::runtime_error("busy");
        order.push_back(key);
      });
    }
    Dispatcher dispatcher{inbox(), std::move(handlers), {.workers = 1}};
    inbox().accept(an_arrival("late " + late), names);
    dispatcher.drain();
    EXPECT_EQ(order.size(), 2u);
    clock().advance(5min);
    dispatcher.drain();
    ASSERT_EQ(order.size(), 3u);
    EXPECT_EQ(order.back(), late);
  }
  std::barrier together{3};
  std::latch handled{3};
  Handlers handlers;
  std::vector<HandlerName> names;
  for (const char* key : {"mail", "ledger", "stock"}) {
    names.push_back({HandlerKey{key}});
    handlers.on_key(HandlerKey{key}, [&](const Message& message) {
      EXPECT_EQ(message.id.str(), "evt_1");
      together.arrive_and_wait();
      handled.count_down();
    });
  }
  Dispatcher dispatcher{inbox(), std::move(handlers), by_wake_up(3)};
  inbox().accept(an_arrival(), names);
  std::jthread thread{[&](std::stop_token stop) { dispatcher.run(stop); }};
  handled.wait();
}

TEST_P(Running, no_worker_is_idle_while_something_is_due_however_long_the_others_take) {
  for (int round = 0; round < 5; ++round) {
    std::counting_semaphore<> called{0};
    std::promise<void> enough;
    const std::shared_future<void> end = enough.get_future().share();
    Handlers handlers;
    handlers.on(Topic{"order.placed"}, [&](const Message&) {
      called.release();
      end.wait();
    });
    DispatcherOptions options = by_wake_up(4);
    options.lease = 1h;
    Dispatcher dispatcher{outbox(), std::move(handlers), options};
    std::jthread thread{[&](std::stop_token stop) { dispatcher.run(stop); }};
    for (int i = 0; i < 20; ++i) outbox().enqueue(a_message());
    // It tells of itself every 15 s, and would see then what it has missed.
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(called.try_acquire_for(12s)) << "worker " << i;
    enough.set_value();
  }
}

TEST_P(Running, OBX_059_never_calls_a_handler_twice_at_once_for_the_same_message) {
  REQUIREMENT("EVB-23");
  constexpr int messages = 60;
  std::mutex mutex;
  std::map<std::string, int> inside;
  std::map<std::string, int> calls;
  std::latch handled{messages};
  const auto handler = [&](const Message& message) {
    {
      const std::scoped_lock lock{mutex};
      EXPECT_EQ(++inside[message.id.str()], 1);
      ++calls[message.id.str()];
    }
    std::this_thread::yield();
    const std::scoped_lock lock{mutex};
    --inside[message.id.str()];
    handled.count_down();
  };
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, handler);
  Dispatcher one{outbox(), handlers, by_wake_up(3)};
  Dispatcher two{outbox(), handlers, by_wake_up(3)};
  for (int i = 0; i < messages; ++i) outbox().enqueue(a_message());
  std::jthread first{[&](std::stop_token stop) { one.run(stop); }};
  std::jthread second{[&](std::stop_token stop) { two.run(stop); }};
  handled.wait();
  first.request_stop();
  second.request_stop();
  first.join();
  second.join();
  for (const auto& [id, count] : calls) EXPECT_EQ(count, 1) << id;
  EXPECT_EQ(Admin{outbox()}.counts(true).all.done, messages);
}

TEST_P(Running, a_stop_request_is_no_failure_and_releases_what_never_started) {
  std::latch started{1};
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message&, std::stop_token stop) {
    started.count_down();
    wait_for_stop(stop);
    throw std::runtime_error("interrupted");
  });
  Dispatcher dispatcher{outbox(), std::move(handlers), by_wake_up(1)};
  for (int i = 0; i < 3; ++i) outbox().enqueue(a_message());
  std::jthread thread{[&](std::stop_token stop) { dispatcher.run(stop); }};
  started.wait();
  thread.request_stop();
  thread.join();
  const Counts counts = Admin{outbox()}.counts();
  EXPECT_EQ(counts.all.ready, 3);
  EXPECT_EQ(counts.all.leased, 0);
  for (const DeliveryEntry& entry : Admin{outbox()}.list({}).entries)
    EXPECT_EQ(entry.delivery.attempts, 0);
}

TEST_P(Running, what_has_finished_at_a_stop_is_settled) {
  std::latch started{1};
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message&, std::stop_token stop) {
    started.count_down();
    wait_for_stop(stop);
  });
  Dispatcher dispatcher{outbox(), std::move(handlers), by_wake_up(1)};
  outbox().enqueue(a_message());
  std::jthread thread{[&](std::stop_token stop) { dispatcher.run(stop); }};
  started.wait();
  thread.request_stop();
  thread.join();
  EXPECT_EQ(only_delivery().state, DeliveryState::done);
}

TEST_P(Running,
       a_handler_that_outlasts_the_grace_period_keeps_its_lease_and_is_settled_when_it_returns) {
  std::latch started{1};
  std::latch on_progress{1};
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message&) {
    started.count_down();
    on_progress.wait();
  });
  DispatcherOptions options = by_wake_up(1);
  options.grace = 0s;
  {
    Dispatcher dispatcher{outbox(), std::move(handlers), options};
    outbox().enqueue(a_message());
    std::jthread thread{[&](std::stop_token stop) { dispatcher.run(stop); }};
    started.wait();
    thread.request_stop();
    thread.join();
    EXPECT_EQ(only_delivery().state, DeliveryState::leased);
    on_progress.count_down();
  }
  EXPECT_EQ(only_delivery().state, DeliveryState::done);
}

TEST_P(Running, what_outlasts_run_has_its_lease_renewed_until_it_returns) {
  std::latch started{1};
  std::latch on_progress{1};
  std::counting_semaphore<> renewed{0};
  const auto is_renewed_twice = [&] {
    return renewed.try_acquire_for(60s) && renewed.try_acquire_for(60s);
  };
  Environment watched = environment();
  watched.timing = [&](std::string_view statement, std::chrono::nanoseconds, std::size_t) {
    if (statement == "renew") renewed.release();
  };
  Database database{test_store().address(), {}, watched};
  Outbox box{database, options()};
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message&) {
    started.count_down();
    on_progress.wait();
  });
  DispatcherOptions chosen = by_wake_up(1);
  chosen.lease = 300ms;
  chosen.grace = 0s;
  std::jthread while_it_is_destroyed;
  {
    Dispatcher dispatcher{box, std::move(handlers), chosen};
    box.enqueue(a_message());
    std::jthread thread{[&](std::stop_token stop) { dispatcher.run(stop); }};
    started.wait();
    thread.request_stop();
    thread.join();
    while (renewed.try_acquire()) {
    }
    EXPECT_TRUE(is_renewed_twice());
    while_it_is_destroyed = std::jthread{[&] {
      EXPECT_TRUE(is_renewed_twice());
      on_progress.count_down();
    }};
  }
  EXPECT_EQ(Admin{box}.list({}).entries.at(0).delivery.state, DeliveryState::done);
}

TEST_P(Running, a_handler_past_its_timeout_is_reported_and_counts_as_failed) {
  std::latch reported{1};
  DispatchObserver observer;
  observer.timed_out = [&](std::string_view, const Message&) { reported.count_down(); };
  std::latch settled{1};
  observer.failed = [&](std::string_view, const Message&, std::string_view) {
    settled.count_down();
  };
  Handlers handlers;
  handlers.on(Topic{"order.placed"},
              [](const Message&, std::stop_token stop) { wait_for_stop(stop); }, {.timeout = 5ms});
  Dispatcher dispatcher{outbox(), std::move(handlers), by_wake_up(1), observer};
  outbox().enqueue(a_message());
  std::jthread thread{[&](std::stop_token stop) { dispatcher.run(stop); }};
  reported.wait();
  settled.wait();
  EXPECT_EQ(only_delivery().attempts, 1);
  EXPECT_EQ(only_delivery().last_error, "the handler ran past its timeout of 5 ms");
}

TEST_P(Running, EVB_07_pauses_and_resumes_without_losing_or_repeating_work) {
  std::atomic<int> calls = 0;
  std::latch first{1};
  std::latch second{2};
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message&) {
    ++calls;
    first.count_down();
    second.count_down();
  });
  Dispatcher dispatcher{outbox(), std::move(handlers), by_wake_up(1)};
  dispatcher.pause();
  outbox().enqueue(a_message());
  EXPECT_EQ(dispatcher.step(), 0u);
  std::jthread thread{[&](std::stop_token stop) { dispatcher.run(stop); }};
  EXPECT_TRUE(dispatcher.paused());
  dispatcher.resume();
  outbox().enqueue(a_message());
  second.wait();
  thread.request_stop();
  thread.join();
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(Admin{outbox()}.counts(true).all.done, 2);
}

TEST_P(Running, EVB_07_nothing_starts_after_a_pause_not_even_what_was_claimed_before_it) {
  std::atomic<int> calls = 0;
  std::latch handled{200};
  std::promise<void> given_back;
  std::atomic<bool> told = false;
  Dispatcher* mine = nullptr;
  DispatchObserver observer;
  observer.settled = [&](std::string_view, std::size_t, Duration) {
    if (mine->paused() && Admin{outbox()}.counts().all.leased == 0 && !told.exchange(true))
      given_back.set_value();
  };
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message&) {
    if (++calls == 100) mine->pause();
    handled.count_down();
  });
  Dispatcher dispatcher{outbox(), std::move(handlers), by_wake_up(1), observer};
  mine = &dispatcher;
  outbox().enqueue(std::vector<NewMessage>(200, a_message()));
  std::jthread thread{[&](std::stop_token stop) { dispatcher.run(stop); }};
  given_back.get_future().wait();
  EXPECT_EQ(calls, 100);
  EXPECT_EQ(Admin{outbox()}.counts().all.ready, 100);
  dispatcher.resume();
  handled.wait();
  EXPECT_EQ(calls, 200);
}

TEST_P(Running, EVB_07_a_paused_store_claims_nothing_until_it_is_resumed) {
  std::latch handled{1};
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message&) { handled.count_down(); });
  Dispatcher dispatcher{outbox(), std::move(handlers), by_wake_up(1)};
  dispatcher.pause_store(database().name());
  outbox().enqueue(a_message());
  EXPECT_EQ(dispatcher.step(), 0u);
  std::jthread thread{[&](std::stop_token stop) { dispatcher.run(stop); }};
  EXPECT_EQ(Admin{outbox()}.counts().all.ready, 1);
  dispatcher.resume_store(database().name());
  handled.wait();
  EXPECT_THROW(dispatcher.pause_store("no such store"), UsageError);
}

TEST_P(Running, EVB_07_a_paused_topic_is_postponed_without_an_attempt_and_others_go_on) {
  std::latch other{1};
  std::latch postponed{1};
  std::atomic<bool> told = false;
  std::atomic<int> calls = 0;
  DispatchObserver observer;
  observer.settled = [&](std::string_view, std::size_t, Duration) {
    if (Admin{outbox()}.counts().all.scheduled == 1 && !told.exchange(true)) postponed.count_down();
  };
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message&) { ++calls; });
  handlers.on(Topic{"order.paid"}, [&](const Message&) { other.count_down(); });
  Dispatcher dispatcher{outbox(), std::move(handlers), by_wake_up(1), observer};
  dispatcher.pause_topic(Topic{"order.placed"});
  outbox().enqueue(a_message("order.placed"));
  outbox().enqueue(a_message("order.paid"));
  {
    std::jthread thread{[&](std::stop_token stop) { dispatcher.run(stop); }};
    other.wait();
    postponed.wait();
  }
  EXPECT_EQ(calls, 0);
  dispatcher.resume_topic(Topic{"order.placed"});
  EXPECT_EQ(dispatcher.drain(), 0u);
  clock().advance(15s);
  EXPECT_EQ(dispatcher.drain(), 1u);
  EXPECT_EQ(calls, 1);
  for (const DeliveryEntry& entry : Admin{outbox()}.list({}).entries)
    EXPECT_EQ(entry.delivery.attempts, 0);
}

TEST_P(Running, wakes_up_for_what_becomes_due_while_it_waits) {
  Database real_time{test_store().address()};
  if (GetParam() == Backend::sqlite_memory) return;  // a second database would be another memory
  outbox();
  Outbox box{real_time, options()};
  std::latch handled{1};
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message&) { handled.count_down(); });
  Dispatcher dispatcher{box, std::move(handlers), by_wake_up(1)};
  NewMessage later = a_message();
  later.extras.due_at =
      std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now()) + 300ms;
  box.enqueue(later);
  std::jthread thread{[&](std::stop_token stop) { dispatcher.run(stop); }};
  handled.wait();
}

TEST_P(Running, a_message_that_is_never_due_disturbs_nobody) {
  std::atomic<bool> failed = false;
  std::counting_semaphore<> looked{0};
  Environment watched = environment();
  watched.timing = [&](std::string_view statement, std::chrono::nanoseconds, std::size_t) {
    if (statement == "next_due") looked.release();
  };
  watched.log = [&](const LogEvent& event) {
    if (event.name != "loop_error") return;
    failed = true;
    looked.release();
  };
  Database database{test_store().address(), {}, watched};
  Outbox box{database, options()};
  NewMessage never = a_message();
  never.extras.due_at = Instant::max();
  box.enqueue(never);
  Dispatcher dispatcher{box, Handlers{}, by_wake_up(1)};
  std::jthread thread{[&](std::stop_token stop) { dispatcher.run(stop); }};
  looked.acquire();
  EXPECT_FALSE(failed);
}

TEST_P(Running, OBX_053_reaps_expires_and_prunes_while_it_runs) {
  REQUIREMENT("PHD-26");
  NewMessage short_lived = a_message();
  short_lived.extras.expires_at = clock().now() + 10s;
  outbox().enqueue(a_message());
  ASSERT_EQ(outbox().claim(worker_b, 30s, 1).size(), 1u);
  outbox().enqueue(short_lived);
  clock().advance(31s);
  std::mutex mutex;
  std::condition_variable changed;
  std::map<Chore, std::size_t> rows;
  DispatchObserver observer;
  observer.chore = [&](std::string_view, const ChoreReport& report) {
    {
      const std::scoped_lock lock{mutex};
      EXPECT_EQ(report.end, ChoreReport::End::done) << report.error;
      rows[report.chore] += report.count;
    }
    changed.notify_all();
  };
  Dispatcher dispatcher{outbox(), {}, by_wake_up(1), observer};
  dispatcher.pause();
  std::jthread thread{[&](std::stop_token stop) { dispatcher.run(stop); }};
  std::unique_lock lock{mutex};
  changed.wait(lock, [&] { return rows.size() == 3; });
  EXPECT_EQ(rows[Chore::reap], 1u);
  EXPECT_EQ(rows[Chore::expire], 1u);
  EXPECT_EQ(rows[Chore::prune], 0u);
  EXPECT_EQ(Admin{outbox()}.counts().all.leased, 0);
}

TEST_P(Running, leases_are_renewed_while_a_handler_works) {
  std::latch renewed{1};
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message& message) {
    clock().advance(1ms);
    while (Admin{outbox()}.get(message.id)->deliveries.at(0).lease_until <= message.lease_until) {
      std::this_thread::yield();
    }
    renewed.count_down();
  });
  Dispatcher dispatcher{outbox(), std::move(handlers), {.workers = 1, .lease = 300ms}};
  outbox().enqueue(a_message());
  const std::jthread thread{[&](const std::stop_token& stop) { dispatcher.run(stop); }};
  renewed.wait();
}

TEST_P(Running, batches_begin_while_the_leases_of_others_are_renewed) {
  constexpr int count = 40;
  std::latch handled{count};
  Handlers handlers;
  handlers.on_batch(
      Topic{"order.placed"},
      [&](std::span<const Message> messages, const std::stop_token&) {
        clock().advance(1ms);
        const Message& first = messages.front();
        while (Admin{outbox()}.get(first.id)->deliveries.at(0).lease_until <= first.lease_until) {
          std::this_thread::yield();
        }
        handled.count_down(std::ssize(messages));
        return std::vector<Outcome>(messages.size(), Outcome::done());
      },
      {.max_batch = 5});
  Dispatcher dispatcher{outbox(), std::move(handlers), {.workers = 2, .lease = 150ms}};
  for (int i = 0; i < count; ++i) outbox().enqueue(a_message());
  {
    const std::jthread thread{[&](const std::stop_token& stop) { dispatcher.run(stop); }};
    handled.wait();
  }
  EXPECT_EQ(Admin{outbox()}.counts(true).all.done, count);
}

TWINBOX_ON_EVERY_BACKEND(Running);

}  // namespace
}  // namespace twinbox::test
