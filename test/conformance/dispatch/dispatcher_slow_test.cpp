// Handlers that hang, and workers that are all busy, are told of while it lasts.
#include <atomic>
#include <latch>
#include <semaphore>
#include <thread>

#include "support/running.hpp"
#include <twinbox/dispatcher.hpp>

namespace twinbox::test {
namespace {

class Slow : public RunningTest {
 protected:
  static DispatcherOptions with_a_short_lease(int workers) {
    DispatcherOptions options = by_wake_up(workers);
    options.lease = 150ms;
    return options;
  }
  void wait_for(const std::string& event, std::size_t count) {
    while (log().events(event).size() < count) std::this_thread::yield();
  }
};

TEST_P(Slow, a_handler_that_hangs_is_told_of_again_and_louder_at_doubled_times) {
  const DispatchStats stats;
  std::counting_semaphore<> told{0};
  std::latch ended{1};
  std::uint64_t counted = 0;
  std::vector<Duration> running;
  DispatchObserver observer;
  observer.slow = [&](std::string_view, const Message& message, Duration time) {
    EXPECT_EQ(message.payload, payload());
    running.push_back(time);
    told.release();
  };
  Handlers handlers;
  handlers.on_key(HandlerKey{"mail"}, [&](const Message&) {
    for (int times = 0; times < 3; ++times) told.acquire();
    counted = stats.snapshot().all.slow;
    ended.count_down();
  });
  const HandlerName names[] = {{HandlerKey{"mail"}}};
  Arrival arrival = an_arrival();
  arrival.payload = payload();
  inbox().accept(arrival, names);
  Dispatcher dispatcher{inbox(), std::move(handlers), with_a_short_lease(1),
                        stats.observer(observer)};
  std::jthread thread{[&](const std::stop_token& stop) { dispatcher.run(stop); }};
  ended.wait();
  thread.request_stop();
  thread.join();
  EXPECT_EQ(counted, 1u);
  EXPECT_EQ(stats.snapshot().all.slow, 0u) << "it has returned";
  ASSERT_GE(running.size(), 3u);
  EXPECT_EQ(running[0], 50ms);
  EXPECT_EQ(running[1], 100ms);
  EXPECT_EQ(running[2], 200ms);
  const auto events = log().events("handler_slow");
  ASSERT_GE(events.size(), 3u);
  EXPECT_EQ(events[0].level, LogLevel::warning);
  EXPECT_EQ(events[1].level, LogLevel::error);
  EXPECT_EQ(events[2].level, LogLevel::error);
  EXPECT_EQ(events[0].field("topic"), "payment.received");
  EXPECT_EQ(events[0].field("handler"), "mail");
  EXPECT_EQ(events[0].field("id"), "evt_1");
  EXPECT_EQ(std::stod(std::string{events[0].field("running_s")}), 0.05);
}

TEST_P(Slow, a_batch_that_hangs_is_told_of_by_its_first_message) {
  std::counting_semaphore<> told{0};
  DispatchObserver observer;
  observer.slow = [&](auto&&...) { told.release(); };
  const DispatchStats stats;
  std::latch ended{1};
  Handlers handlers;
  handlers.on_batch(Topic{"order.placed"},
                    [&](std::span<const Message> messages, const std::stop_token&) {
                      told.acquire();
                      ended.count_down();
                      return std::vector<Outcome>(messages.size(), Outcome::done());
                    });
  outbox().enqueue(std::vector<NewMessage>(5, a_message()));
  Dispatcher dispatcher{outbox(), std::move(handlers), with_a_short_lease(1),
                        stats.observer(observer)};
  std::jthread thread{[&](const std::stop_token& stop) { dispatcher.run(stop); }};
  ended.wait();
  thread.request_stop();
  thread.join();
  EXPECT_EQ(stats.snapshot().all.slow, 0u);
  EXPECT_EQ(log().events("handler_slow").at(0).field("topic"), "order.placed");
}

TEST_P(Slow, workers_that_are_all_busy_are_told_of_once_while_deliveries_wait) {
  std::counting_semaphore<> go{0};
  std::atomic<int> handled = 0;
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message&) {
    go.acquire();
    ++handled;
  });
  DispatcherOptions options = with_a_short_lease(2);
  Dispatcher dispatcher{outbox(), std::move(handlers), options};
  outbox().enqueue(std::vector<NewMessage>(5, a_message()));
  const std::jthread thread{[&](const std::stop_token& stop) { dispatcher.run(stop); }};
  wait_for("handler_slow", 2);
  EXPECT_TRUE(log().events("workers_full").empty()) << "they have not waited, by the database";
  clock().advance(60ms);
  wait_for("workers_full", 1);
  wait_for("handler_slow", 6);  // meanwhile it would have been told again
  EXPECT_EQ(log().events("workers_full").size(), 1u);
  EXPECT_EQ(log().events("workers_full")[0].level, LogLevel::warning);
  EXPECT_EQ(log().events("workers_full")[0].field("workers"), "2");
  EXPECT_EQ(log().events("workers_full")[0].field("store"), "test store");
  go.release(5);
  while (handled < 5) std::this_thread::yield();

  // Another time, after a claim has found nothing.
  while (log().events("claim").back().field("count") != "0") std::this_thread::yield();
  outbox().enqueue(std::vector<NewMessage>(5, a_message()));
  wait_for("handler_slow", log().events("handler_slow").size() + 2);
  clock().advance(60ms);
  wait_for("workers_full", 2);
  go.release(5);
}

TEST_P(Slow, workers_that_are_all_busy_while_nothing_waits_are_no_event) {
  std::counting_semaphore<> go{0};
  std::latch ended{1};
  DispatchObserver observer;
  observer.slow = [&](auto&&...) { go.release(); };
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message&) {
    go.acquire();
    clock().advance(60ms);
    for (int times = 0; times < 3; ++times) go.acquire();
    ended.count_down();
  });
  Dispatcher dispatcher{outbox(), std::move(handlers), with_a_short_lease(1), observer};
  outbox().enqueue(a_message());
  const std::jthread thread{[&](const std::stop_token& stop) { dispatcher.run(stop); }};
  ended.wait();
  EXPECT_TRUE(log().events("workers_full").empty());
}

TWINBOX_ON_EVERY_BACKEND(Slow);

}  // namespace
}  // namespace twinbox::test
