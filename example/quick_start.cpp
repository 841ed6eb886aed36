#include <iostream>

#include <twinbox/dispatcher.hpp>
#include <twinbox/inbox.hpp>
#include <twinbox/outbox.hpp>

int main() {
  using namespace twinbox;

  Database database{"sqlite::memory:"};  // or "sqlite:shop.db", or "postgresql://me@localhost/shop"
  Outbox outbox{database, {.deploy_schema = true}};
  database.in_transaction([&](Session& session) {  // the order and its message: both, or neither
    session.execute("create table orders (id integer)");
    session.execute("insert into orders values (7)");
    outbox.enqueue(session, {.topic = Topic{"order.placed"}, .payload = R"({"order":7})"});
  });

  Handlers handlers;  // a handler that throws is retried; the last failure makes a dead letter
  handlers.on(Topic{"order.placed"},
              [](const Message& message) { std::cout << message.payload << "\n"; });
  Dispatcher{outbox, handlers}.drain();  // a service calls run(stop_token) on a thread

  Inbox inbox{database, {.deploy_schema = true}};
  const Arrival webhook{Source{"stripe"}, MessageId{"evt_1"}, Topic{"payment.received"}, "{}"};
  std::cout << to_string(inbox.accept(webhook).state) << "\n";  // "accepted"
  std::cout << to_string(inbox.accept(webhook).state) << "\n";  // a duplicate: stored once
}
