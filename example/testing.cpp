// How you test a program that uses Twinbox: no thread, no sleeping, no server; time, chance and
// trouble are the test's own.
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>

#include <twinbox/dispatcher.hpp>
#include <twinbox/operations.hpp>
#include <twinbox/outbox.hpp>
#include <twinbox/testing.hpp>

namespace {

using namespace twinbox;
using namespace std::chrono_literals;

void expect(bool holds, const std::string& what) {
  std::cout << (holds ? "ok      " : "FAILED  ") << what << "\n";
  if (!holds) std::exit(1);
}

// The program: it confirms orders by mail.
struct Mailer {
  int sent = 0;
  bool down = false;
  void send(const std::string&) {
    if (down) throw std::runtime_error("mail server is down");
    ++sent;
  }
};

Handlers handlers_of(Mailer& mailer) {
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message& message) { mailer.send(message.payload); });
  return handlers;
}

}  // namespace

int main() {
  TestEnvironment world;
  FaultPlan faults;
  Database database = open_faulty("sqlite::memory:", faults, {.retries = 0}, world.environment());
  Outbox outbox{database, {.deploy_schema = true}};
  Mailer mailer;
  Dispatcher dispatcher{outbox, handlers_of(mailer)};
  const NewMessage order{.topic = Topic{"order.placed"}, .payload = R"({"order":7})"};

  // A handler alone, with a message as it would get it.
  mailer.send(make_message(order).payload);
  expect(mailer.sent == 1, "the mailer takes the payload of a message");
  mailer.sent = 0;

  outbox.enqueue(order);
  expect(enqueued(outbox, Topic{"order.placed"}).at(0).payload == order.payload,
         "what was enqueued can be read");
  expect(dispatcher.drain() == 1 && mailer.sent == 1, "an order is confirmed");

  mailer.down = true;
  outbox.enqueue(order);
  dispatcher.drain();
  mailer.down = false;
  expect(dispatcher.drain() == 0, "a failed mail waits for its retry");
  world.clock.advance(2s);
  expect(dispatcher.drain() == 1 && mailer.sent == 2, "and is sent two seconds later");
  expect(world.log.events("handler_error").at(0).field("error") == "mail server is down",
         "the log says why it failed");

  faults.fail_commit(DatabaseError::Kind::out_of_space);
  try {
    outbox.enqueue(order);
    expect(false, "a full disk is reported");
  } catch (const DatabaseError&) {
    expect(Admin{outbox}.counts().all.open() == 0, "a full disk is reported, and nothing is left");
  }

  // The database goes away after the mail was sent, before that was written down.
  faults.fail_statement(DatabaseError::Kind::connection_lost, 1, "ack");
  outbox.enqueue(order);
  try {
    dispatcher.drain();
  } catch (const DatabaseError&) {
    world.clock.advance(default_lease);
  }
  dispatcher.drain();
  expect(mailer.sent == 4, "a crash before the end is written calls the handler again");
}
