// What a dispatcher promises, for an inbox: dispatcher_test.cpp asks the same of an outbox.
#include <condition_variable>
#include <latch>
#include <map>
#include <mutex>
#include <thread>

#include "support/inbox_test.hpp"
#include "support/running.hpp"
#include <twinbox/dispatcher.hpp>

namespace twinbox::test {
namespace {

class InboxDispatch : public InboxTest {
 protected:
  /// Calls `handler` for the messages of an_arrival().
  template <class F>
  Dispatcher dispatcher(F handler, HandlerOptions options = {}) {
    Handlers handlers;
    handlers.on(Topic{"payment.received"}, std::move(handler), std::move(options));
    return Dispatcher{inbox(), std::move(handlers)};
  }
  static void broken(const Message&) { throw std::runtime_error("no money"); }

  const std::vector<HandlerName> mail{{HandlerKey{"mail"}}};
};

TEST_P(InboxDispatch, IBX_073_IBX_076_calls_the_handler_of_the_topic_with_message_and_stop_token) {
  std::vector<std::string> called;
  Handlers handlers;
  handlers.on(Topic{"payment.received"}, [&](const Message& message, std::stop_token stop) {
    EXPECT_TRUE(stop.stop_possible());
    called.push_back(message.source.str() + " " + message.id.str() + " " + message.payload);
  });
  handlers.on(Topic{"Payment.received"}, [&](const Message&) { called.emplace_back("other"); });
  inbox().accept(an_arrival());
  EXPECT_EQ(Dispatcher(inbox(), std::move(handlers)).drain(), 1u);
  EXPECT_EQ(called, std::vector<std::string>{"stripe evt_1 " + payload()});
  EXPECT_TRUE(inbox().has_processed(a_key()));
}

TEST_P(InboxDispatch, IBX_074_warns_and_retries_when_nobody_handles_the_topic) {
  inbox().accept(an_arrival());
  Dispatcher{inbox(), Handlers{}}.drain();
  ASSERT_EQ(log().events("no_handler").size(), 1u);
  EXPECT_EQ(log().events("no_handler")[0].level, LogLevel::warning);
  EXPECT_EQ(delivery().state, DeliveryState::scheduled);
}

TEST_P(InboxDispatch, IBX_075_IBX_080_IBX_081_IBX_111_an_exception_is_logged_and_retried_later) {
  inbox().accept(an_arrival());
  Dispatcher dispatch = dispatcher(broken);
  for (const Duration expected : {Duration{2s}, Duration{4s}, Duration{8s}, Duration{16s},
                                  Duration{32s}, Duration{60s}, Duration{60s}}) {
    ASSERT_EQ(dispatch.drain(), 1u);
    EXPECT_EQ(*delivery().visible_at - clock().now(), expected);
    clock().set(*delivery().visible_at);
  }
  const auto errors = log().events("handler_error");
  ASSERT_EQ(errors.size(), 7u);
  EXPECT_EQ(errors[0].level, LogLevel::error);
  EXPECT_EQ(errors[0].field("id"), "evt_1");
  EXPECT_EQ(errors[0].field("error"), "no money");
  EXPECT_EQ(delivery().last_error, "no money");
}

TEST_P(InboxDispatch, IBX_082_the_backoff_can_be_replaced) {
  RetryPolicy linear = RetryPolicy::standard();
  linear.custom = [](int attempts) { return std::chrono::milliseconds{attempts * 1000}; };
  inbox().accept(an_arrival());
  Dispatcher dispatch = dispatcher(broken, {.retry = linear});
  for (const Duration expected : {Duration{1s}, Duration{2s}, Duration{3s}}) {
    ASSERT_EQ(dispatch.drain(), 1u);
    EXPECT_EQ(*delivery().visible_at - clock().now(), expected);
    clock().set(*delivery().visible_at);
  }
}

TEST_P(InboxDispatch, IBX_090_IBX_110_logs_each_call_with_topic_id_and_store) {
  inbox().accept(an_arrival());
  dispatcher([](const Message&) {}).drain();
  const auto calls = log().events("handle");
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].level, LogLevel::info);
  EXPECT_EQ(calls[0].field("topic"), "payment.received");
  EXPECT_EQ(calls[0].field("id"), "evt_1");
  EXPECT_EQ(calls[0].field("store"), "test store");
}

TEST_P(InboxDispatch, IBX_078_never_calls_a_handler_twice_at_once_for_the_same_message) {
  constexpr int messages = 40;
  std::mutex mutex;
  std::map<std::string, int> inside;
  std::map<std::string, int> calls;
  std::latch handled{messages};
  Handlers handlers;
  handlers.on(Topic{"payment.received"}, [&](const Message& message) {
    {
      const std::scoped_lock lock{mutex};
      EXPECT_EQ(++inside[message.id.str()], 1);
      ++calls[message.id.str()];
    }
    std::this_thread::yield();
    const std::scoped_lock lock{mutex};
    --inside[message.id.str()];
    handled.count_down();
  });
  for (int i = 0; i < messages; ++i) inbox().accept(an_arrival("evt_" + std::to_string(i)));
  Dispatcher one{inbox(), handlers, {.workers = 3}};
  Dispatcher two{inbox(), handlers, {.workers = 3}};
  {
    std::jthread first{[&](const std::stop_token& stop) { one.run(stop); }};
    std::jthread second{[&](const std::stop_token& stop) { two.run(stop); }};
    handled.wait();
  }
  EXPECT_EQ(calls.size(), static_cast<std::size_t>(messages));
  for (const auto& [id, count] : calls) EXPECT_EQ(count, 1) << id;
}

TEST_P(InboxDispatch, PHD_32_never_calls_a_handler_twice_at_once_for_the_same_message) {
  constexpr int messages = 30;
  const std::vector<std::string> keys{"mail", "ledger"};
  std::mutex mutex;
  std::map<std::string, int> inside;
  std::map<std::string, int> calls;
  std::latch handled{messages * 2};
  Handlers handlers;
  std::vector<HandlerName> names;
  for (const std::string& key : keys) {
    names.push_back({HandlerKey{key}});
    handlers.on_key(HandlerKey{key}, [&, key](const Message& message) {
      const std::string pair = message.id.str() + " " + key;
      {
        const std::scoped_lock lock{mutex};
        EXPECT_EQ(++inside[pair], 1);
        ++calls[pair];
      }
      std::this_thread::yield();
      const std::scoped_lock lock{mutex};
      --inside[pair];
      handled.count_down();
    });
  }
  for (int i = 0; i < messages; ++i) inbox().accept(an_arrival("evt_" + std::to_string(i)), names);
  Dispatcher one{inbox(), handlers, {.workers = 3}};
  Dispatcher two{inbox(), handlers, {.workers = 3}};
  {
    std::jthread first{[&](const std::stop_token& stop) { one.run(stop); }};
    std::jthread second{[&](const std::stop_token& stop) { two.run(stop); }};
    handled.wait();
  }
  EXPECT_EQ(calls.size(), keys.size() * messages);
  for (const auto& [pair, count] : calls) EXPECT_EQ(count, 1) << pair;
}

TEST_P(InboxDispatch, PHD_11_a_stop_request_is_no_failure) {
  std::latch started{1};
  Handlers handlers;
  handlers.on_key(mail[0].key, [&](const Message&, const std::stop_token& stop) {
    started.count_down();
    wait_for_stop(stop);
    throw std::runtime_error("interrupted");
  });
  inbox().accept(an_arrival(), mail);
  Dispatcher dispatcher{inbox(), std::move(handlers), {.workers = 1}};
  std::jthread thread{[&](const std::stop_token& stop) { dispatcher.run(stop); }};
  started.wait();
  thread.request_stop();
  thread.join();
  EXPECT_EQ(delivery().state, DeliveryState::ready);
  EXPECT_EQ(delivery().attempts, 0);
  EXPECT_EQ(delivery().last_error, "");
}

TEST_P(InboxDispatch, PHD_11_a_delivery_that_a_stop_leaves_behind_is_recovered_as_a_stuck_one) {
  std::latch started{1};
  std::latch on_progress{1};
  Handlers hanging;
  hanging.on_key(mail[0].key, [&](const Message&) {
    started.count_down();
    on_progress.wait();
    throw std::runtime_error("interrupted");
  });
  int calls = 0;
  Handlers healthy;
  healthy.on_key(mail[0].key, [&](const Message& message) {
    ++calls;
    EXPECT_EQ(message.attempts, 0);
    EXPECT_EQ(message.expiries, 1);
  });
  inbox().accept(an_arrival(), mail);
  {
    Dispatcher stopped{inbox(), hanging, {.workers = 1, .lease = 30s, .grace = 0s}};
    std::jthread thread{[&](const std::stop_token& stop) { stopped.run(stop); }};
    started.wait();
    thread.request_stop();
    thread.join();
    EXPECT_EQ(delivery().state, DeliveryState::leased);
    Dispatcher other{inbox(), healthy};
    EXPECT_EQ(other.drain(), 0u) << "not stuck yet";
    clock().advance(5min);
    EXPECT_EQ(other.drain(), 1u);
    on_progress.count_down();
  }
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(delivery().state, DeliveryState::done);
  EXPECT_EQ(delivery().attempts, 0);
}

TEST_P(InboxDispatch, PHD_13_a_handler_past_its_timeout_counts_as_failed) {
  std::latch reported{1};
  std::latch settled{1};
  DispatchObserver observer;
  observer.timed_out = [&](std::string_view, const Message&) { reported.count_down(); };
  observer.failed = [&](std::string_view, const Message&, std::string_view) {
    settled.count_down();
  };
  Handlers handlers;
  handlers.on_key(mail[0].key,
                  [](const Message&, const std::stop_token& stop) { wait_for_stop(stop); },
                  {.timeout = 5ms});
  inbox().accept(an_arrival(), mail);
  Dispatcher dispatcher{inbox(), std::move(handlers), {.workers = 1}, observer};
  std::jthread thread{[&](const std::stop_token& stop) { dispatcher.run(stop); }};
  reported.wait();
  settled.wait();
  EXPECT_EQ(delivery().attempts, 1);
  EXPECT_EQ(delivery().last_error, "the handler ran past its timeout of 5 ms");
}

TEST_P(InboxDispatch, IBX_072_a_running_dispatcher_reaps) {
  inbox().accept(an_arrival());
  ASSERT_EQ(inbox().claim(worker_b, 30s, 1).size(), 1u);
  clock().advance(31s);
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t reaped = 0;
  DispatchObserver observer;
  observer.chore = [&](std::string_view, const ChoreReport& report) {
    const std::scoped_lock lock{mutex};
    if (report.chore == Chore::reap) reaped += report.count;
    changed.notify_all();
  };
  Dispatcher dispatcher{inbox(), {}, {.workers = 1}, observer};
  dispatcher.pause();
  std::jthread thread{[&](const std::stop_token& stop) { dispatcher.run(stop); }};
  std::unique_lock lock{mutex};
  changed.wait(lock, [&] { return reaped == 1; });
}

TWINBOX_ON_EVERY_BACKEND(InboxDispatch);

}  // namespace
}  // namespace twinbox::test
