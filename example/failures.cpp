// Your own rule for failed calls, and a call that a stop request ends.
#include <iostream>
#include <stdexcept>
#include <stop_token>

#include <twinbox/dispatcher.hpp>
#include <twinbox/operations.hpp>
#include <twinbox/outbox.hpp>

int main() {
  using namespace twinbox;

  Database database{"sqlite::memory:"};
  Outbox outbox{database, {.deploy_schema = true}};
  Handlers handlers;
  handlers.on(Topic{"mail.send"},
              [](const Message&) { throw std::runtime_error("no such address"); });

  DispatcherOptions options;
  options.on_failure = [](const Message& message, const Outcome& failure) {
    std::cout << "alert: " << message.topic.view() << ": " << failure.reason() << "\n";
    return failure.reason() == "no such address" ? Outcome::dead(failure.reason()) : failure;
  };
  outbox.enqueue({.topic = Topic{"mail.send"}, .payload = "{}"});
  Dispatcher{outbox, handlers, options}.drain();

  std::stop_source stop;
  stop.request_stop();
  try {
    StopScope scope{stop.get_token()};  // for this thread, until the end of the block
    outbox.enqueue({.topic = Topic{"mail.send"}, .payload = "{}"});
  } catch (const DatabaseError& error) {
    std::cout << "enqueue: " << to_string(error.kind()) << "\n";
  }

  const StateCounts counts = Admin{outbox}.counts().all;
  std::cout << counts.dead << " dead letter, " << counts.open() << " open\n";
  return counts.dead == 1 && counts.open() == 0 ? 0 : 1;
}
