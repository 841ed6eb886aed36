// A dispatcher on a thread, its statistics, and a clean stop.
#include <iostream>
#include <latch>
#include <thread>

#include <twinbox/dispatcher.hpp>
#include <twinbox/outbox.hpp>

int main() {
  using namespace twinbox;
  using namespace std::chrono_literals;

  Database database{"sqlite::memory:"};
  Outbox outbox{database, {.deploy_schema = true}};
  std::latch handled{2};
  const auto handle = [&](const Message& message) {
    std::cout << message.topic.str() + "\n";
    handled.count_down();
  };

  Handlers handlers;
  handlers.on(Topic{"order.placed"}, handle, {.timeout = 30s});
  handlers.on(TopicPattern{"payment.#"}, handle);  // `*` is one word, `#` any number of words

  DispatchStats stats;
  Dispatcher dispatcher{outbox, handlers, {.workers = 8}, stats.observer()};
  std::jthread thread{[&](std::stop_token stop) { dispatcher.run(stop); }};

  outbox.enqueue({.topic = Topic{"order.placed"}, .payload = "{}"});
  outbox.enqueue({.topic = Topic{"payment.received"}, .payload = "{}"});
  handled.wait();
  thread.request_stop();
  thread.join();

  const StatsSnapshot now = stats.snapshot();  // at any time, from any thread
  std::cout << now.all.handled << " handled, p99 " << now.all.handler_time.p99() << " us\n";
  return now.all.handled == 2 ? 0 : 1;
}
