// A dispatcher that is destroyed while run() is still at work.
#include <latch>
#include <memory>
#include <semaphore>
#include <thread>

#include "support/running.hpp"
#include <twinbox/health.hpp>

namespace twinbox::test {
namespace {

class Destroyed : public RunningTest {
 protected:
  void wait_until_it_runs() {
    while (Workers{outbox()}.list().empty()) std::this_thread::yield();
  }
};

TEST_P(Destroyed, while_it_is_idle_stops_run_and_waits_until_it_has_returned) {
  for (int round = 0; round < 20; ++round) {
    auto dispatcher = std::make_unique<Dispatcher>(outbox(), Handlers{}, by_wake_up());
    const std::jthread thread{[mine = dispatcher.get()] { mine->run({}); }};
    wait_until_it_runs();
    dispatcher.reset();
    EXPECT_TRUE(Workers{outbox()}.list().empty()) << "its last act is to sign off";
  }
}

TEST_P(Destroyed, while_a_handler_runs_tells_it_to_stop_and_settles_what_it_says) {
  std::latch started{1};
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message&, const std::stop_token& stop) {
    started.count_down();
    wait_for_stop(stop);
  });
  outbox().enqueue(a_message());
  auto dispatcher = std::make_unique<Dispatcher>(outbox(), std::move(handlers), by_wake_up());
  const std::jthread thread{[mine = dispatcher.get()] { mine->run({}); }};
  started.wait();
  dispatcher.reset();
  EXPECT_EQ(only_delivery().state, DeliveryState::done);
  EXPECT_TRUE(Workers{outbox()}.list().empty());
}

TEST_P(Destroyed, while_run_is_about_to_end_by_its_stop_token_waits_for_it_too) {
  for (int round = 0; round < 20; ++round) {
    auto dispatcher = std::make_unique<Dispatcher>(outbox(), Handlers{}, by_wake_up());
    std::jthread thread{
        [mine = dispatcher.get()](const std::stop_token& stop) { mine->run(stop); }};
    wait_until_it_runs();
    thread.request_stop();
    dispatcher.reset();
    EXPECT_TRUE(Workers{outbox()}.list().empty());
  }
}

using DestroyedInside = Destroyed;

TEST_P(DestroyedInside, one_of_its_own_threads_ends_the_program_and_says_why) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto destroy_within = [&](bool in_handler) {
    std::unique_ptr<Dispatcher> dispatcher;
    std::counting_semaphore<> never{0};
    DispatchObserver observer;
    observer.timed_out = [&](auto&&...) { dispatcher.reset(); };
    Handlers handlers;
    handlers.on(Topic{"order.placed"},
                [&](const Message&) {
                  if (in_handler) dispatcher.reset();
                  never.acquire();
                },
                {.timeout = 1ms});
    outbox().enqueue(a_message());
    dispatcher = std::make_unique<Dispatcher>(outbox(), std::move(handlers), by_wake_up(),
                                              in_handler ? DispatchObserver{} : observer);
    dispatcher->run({});
  };
  EXPECT_DEATH(destroy_within(true), "destroyed inside run\\(\\), by one of its own threads");
  EXPECT_DEATH(destroy_within(false), "destroyed inside run\\(\\), by one of its own threads");
}

TWINBOX_ON_EVERY_BACKEND(Destroyed);
TWINBOX_ON_BACKENDS(DestroyedInside, Backend::sqlite_memory);

}  // namespace
}  // namespace twinbox::test
