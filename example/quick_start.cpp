#include <iostream>

#include <twinbox/inbox.hpp>
#include <twinbox/outbox.hpp>

int main() {
  using namespace twinbox;
  using namespace std::chrono_literals;

  Database database{"sqlite::memory:"};  // or "sqlite:shop.db", or "postgresql://me@localhost/shop"
  Outbox outbox{database, {.deploy_schema = true}};
  Inbox inbox{database, {.deploy_schema = true}};

  // What happened and what others must be told: one transaction.
  database.in_transaction([&](Session& session) {
    session.execute("create table orders (id integer primary key, total integer)");
    session.execute("insert into orders values (@id, @total)", {{"id", 7}, {"total", 1999}});
    outbox.enqueue(session, {.topic = Topic{"order.placed"}, .payload = R"({"order":7})"});
  });

  // A worker: leases what is due, sends it, and says how it went.
  const OwnerToken me = OwnerToken::make(database.environment());
  for (const Message& message : outbox.claim(me, 30s, 50)) {
    std::cout << "send " << message.topic.str() << " " << message.payload << "\n";
    outbox.ack(me, message);  // or abandon(me, message, "why"): it comes again, later and later
  }

  // What arrives twice is handled once.
  const Arrival webhook{Source{"stripe"}, MessageId{"evt_1"}, Topic{"payment.received"}, "{}"};
  for (int delivery = 1; delivery <= 2; ++delivery) {
    std::cout << "delivery " << delivery << ": " << to_string(inbox.accept(webhook).state) << "\n";
  }
}
