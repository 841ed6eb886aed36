#include <iostream>

#include <twinbox/dispatcher.hpp>
#include <twinbox/inbox.hpp>
#include <twinbox/outbox.hpp>

int main() {
  using namespace twinbox;

  Database database{"sqlite::memory:"};  // or "sqlite:shop.db", or "postgresql://me@localhost/shop"
  Outbox outbox{database, {.deploy_schema = true}};
  Inbox inbox{database, {.deploy_schema = true}};

  // What happened and what others must be told: one transaction.
  database.in_transaction([&](Session& session) {
    session.execute("create table orders (id integer primary key, total integer)");
    session.execute("insert into orders values (@id, @total)", {{"id", 7}, {"total", 1999}});
    outbox.enqueue(session, {.topic = Topic{"order.placed"}, .payload = R"({"order":7})"});
  });

  // Who handles what. An exception means: again, later and later; in the end it is a dead letter.
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [](const Message& message) {
    std::cout << "send " << message.topic.str() << " " << message.payload << "\n";
  });
  Dispatcher dispatcher{outbox, handlers};
  dispatcher.drain();  // in a service: dispatcher.run(stop_token) on a thread of yours

  // What arrives twice is handled once.
  const Arrival webhook{Source{"stripe"}, MessageId{"evt_1"}, Topic{"payment.received"}, "{}"};
  for (int delivery = 1; delivery <= 2; ++delivery) {
    std::cout << "delivery " << delivery << ": " << to_string(inbox.accept(webhook).state) << "\n";
  }
}
