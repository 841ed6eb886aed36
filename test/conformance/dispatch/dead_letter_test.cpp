// Dead letters that nobody settled: a claim or a sweep made them, and they are told like the
// others.
#include <latch>
#include <mutex>
#include <thread>

#include "support/backend.hpp"
#include <twinbox/dispatcher.hpp>
#include <twinbox/operations.hpp>

namespace twinbox::test {
namespace {

class DeadLetters : public BoxTest {
 protected:
  /// Its last worker but one has died with it.
  void let_workers_die(WorkQueue& queue) {
    for (int i = 0; i < queue.options().max_expiries; ++i) {
      ASSERT_EQ(queue.claim(worker_a, 30s, 1).size(), 1u);
      clock().advance(31s);
    }
  }
  DispatchObserver telling() {
    DispatchObserver observer;
    observer.dead = [this](std::string_view, const Message& message, std::string_view reason,
                           std::string_view error) {
      const std::scoped_lock lock{mutex_};
      told_.push_back(message.topic.str() + ": " + std::string{reason} + ": " + std::string{error});
    };
    return observer;
  }
  std::vector<std::string> told() {
    const std::scoped_lock lock{mutex_};
    return told_;
  }

  DispatchStats stats_;

 private:
  std::mutex mutex_;
  std::vector<std::string> told_;
};

const std::vector<std::string> crash_loop{
    "order.placed: crash_loop: the worker that held it died 5 times"};

TEST_P(DeadLetters, PHD_37_a_crash_loop_that_a_step_ends_is_told) {
  outbox().enqueue(a_message());
  let_workers_die(outbox());
  Dispatcher dispatcher{outbox(), Handlers{}, {}, stats_.observer(telling())};
  EXPECT_EQ(dispatcher.drain(), 0u);
  EXPECT_EQ(told(), crash_loop);
  EXPECT_EQ(stats_.snapshot().all.dead, 1u);
  ASSERT_EQ(log().events("dead").size(), 1u);
  EXPECT_EQ(log().events("dead")[0].level, LogLevel::error);
  EXPECT_EQ(log().events("dead")[0].field("reason"), "crash_loop");
}

TEST_P(DeadLetters, PHD_37_a_crash_loop_that_a_running_dispatcher_ends_is_told_once) {
  outbox().enqueue(a_message());
  let_workers_die(outbox());
  std::latch handled{2};
  Handlers handlers;
  handlers.on(Topic{"order.next"}, [&](const Message&) { handled.count_down(); });
  Dispatcher dispatcher{
      outbox(), std::move(handlers), {.poll_interval = 1h}, stats_.observer(telling())};
  for (int i = 0; i < 2; ++i) outbox().enqueue(a_message("order.next"));
  std::jthread thread{[&](const std::stop_token& stop) { dispatcher.run(stop); }};
  handled.wait();
  thread.request_stop();
  thread.join();
  EXPECT_EQ(told(), crash_loop);
}

TEST_P(DeadLetters, PHD_37_what_expires_under_a_dispatcher_is_told) {
  NewMessage message = a_message();
  message.extras.expires_at = clock().now() + 10s;
  outbox().enqueue(message);
  clock().advance(11s);
  std::latch swept{1};
  DispatchObserver observer = telling();
  observer.chore = [&](std::string_view, const ChoreReport& report) {
    if (report.chore == Chore::expire) swept.count_down();
  };
  Dispatcher dispatcher{outbox(),
                        Handlers{},
                        {.housekeeping = HousekeepingOptions{.expire = {.interval = 1h}}},
                        stats_.observer(observer)};
  std::jthread thread{[&](const std::stop_token& stop) { dispatcher.run(stop); }};
  swept.wait();
  EXPECT_EQ(told(), std::vector<std::string>{"order.placed: expired: "});
  EXPECT_EQ(stats_.snapshot().all.dead, 1u);
  EXPECT_EQ(log().events("dead").at(0).level, LogLevel::error);
}

TEST_P(DeadLetters, PHD_37_what_expires_by_hand_is_logged_as_an_error) {
  NewMessage message = a_message();
  message.extras.expires_at = clock().now() + 10s;
  outbox().enqueue(message);
  clock().advance(11s);
  EXPECT_EQ(outbox().expire(), 1u);
  ASSERT_EQ(log().events("dead").size(), 1u);
  EXPECT_EQ(log().events("dead")[0].level, LogLevel::error);
  EXPECT_EQ(log().events("dead")[0].field("reason"), "expired");
}

TWINBOX_ON_EVERY_BACKEND(DeadLetters);

}  // namespace
}  // namespace twinbox::test
