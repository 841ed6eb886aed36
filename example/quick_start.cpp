#include <iostream>

#include <twinbox/dispatcher.hpp>
#include <twinbox/inbox.hpp>
#include <twinbox/outbox.hpp>

int main() {
  using namespace twinbox;

  Database database{"sqlite::memory:"};  // or "sqlite:shop.db", or "postgresql://me@localhost/shop"
  Outbox outbox{database, {.deploy_schema = true}};
  Inbox inbox{database, {.deploy_schema = true}};

  // The order and its message are one transaction.
  database.in_transaction([&](Session& session) {
    session.execute("create table orders (id integer primary key, total integer)");
    session.execute("insert into orders values (@id, @total)", {{"id", 7}, {"total", 1999}});
    outbox.enqueue(session, {.topic = Topic{"order.placed"}, .payload = R"({"order":7})"});
  });

  // A handler that throws is retried after a backoff; the last failure makes a dead letter.
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [](const Message& message) {
    std::cout << "send " << message.topic.str() << " " << message.payload << "\n";
  });
  Dispatcher dispatcher{outbox, handlers};
  dispatcher.drain();  // a service calls dispatcher.run(stop_token) on a thread

  // A message that arrives twice is processed once.
  const Arrival webhook{Source{"stripe"}, MessageId{"evt_1"}, Topic{"payment.received"}, "{}"};
  for (int arrival = 1; arrival <= 2; ++arrival) {
    std::cout << "arrival " << arrival << ": " << to_string(inbox.accept(webhook).state) << "\n";
  }
}
