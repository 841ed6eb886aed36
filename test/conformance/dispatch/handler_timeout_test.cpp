// BoxOptions::handler_timeout: for handlers without a timeout of their own.
#include <atomic>
#include <future>
#include <latch>
#include <thread>

#include "support/running.hpp"

namespace twinbox::test {
namespace {

class HandlerTimeout : public RunningTest {
 protected:
  BoxOptions limited() {
    BoxOptions chosen = options();
    chosen.handler_timeout = 5ms;
    return chosen;
  }
};

TEST_P(HandlerTimeout, of_the_box_holds_for_handlers_without_one_of_their_own) {
  std::promise<void> failed;
  DispatchObserver observer;
  observer.failed = [&](std::string_view, const Message&, std::string_view) { failed.set_value(); };
  Outbox box(database(), limited());
  Handlers handlers;
  handlers.on(Topic{"order.placed"},
              [](const Message&, std::stop_token stop) { wait_for_stop(stop); });
  Dispatcher dispatcher{box, std::move(handlers), by_wake_up(), observer};
  box.enqueue(a_message());
  {
    const std::jthread thread{[&](std::stop_token stop) { dispatcher.run(stop); }};
    failed.get_future().wait();
  }
  EXPECT_EQ(only_delivery().last_error, "the handler ran past its timeout of 5 ms");
  EXPECT_EQ(only_delivery().attempts, 1);
}

TEST_P(HandlerTimeout, of_a_handler_goes_before_that_of_the_box) {
  std::promise<void> done;
  std::atomic<bool> told = false;
  DispatchObserver observer;
  Outbox box(database(), limited());
  std::latch short_one{1};
  observer.timed_out = [&](std::string_view, const Message& message) {
    if (message.topic.view() == "short") short_one.count_down();
    told = told || message.topic.view() == "long";
  };
  Handlers handlers;
  handlers.on(Topic{"short"}, [](const Message&, std::stop_token stop) { wait_for_stop(stop); });
  handlers.on(Topic{"long"}, [&](const Message&) { short_one.wait(); }, {.timeout = 1h});
  observer.handled = [&](std::string_view, const Message& message, const Outcome&, Duration) {
    if (message.topic.view() == "long") done.set_value();
  };
  Dispatcher dispatcher{box, std::move(handlers), by_wake_up(), observer};
  box.enqueue(std::vector{a_message("long"), a_message("short")});
  const std::jthread thread{[&](std::stop_token stop) { dispatcher.run(stop); }};
  done.get_future().wait();
  EXPECT_FALSE(told);
}

TEST_P(HandlerTimeout, must_be_longer_than_zero) {
  BoxOptions chosen = options();
  chosen.handler_timeout = Duration::zero();
  EXPECT_THROW(Outbox(database(), chosen), std::out_of_range);
}

TWINBOX_ON_EVERY_BACKEND(HandlerTimeout);

}  // namespace
}  // namespace twinbox::test
