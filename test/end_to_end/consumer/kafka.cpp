#include <twinbox/kafka.hpp>

int main() {
  using namespace twinbox;
  using namespace std::chrono_literals;
  Database database{"sqlite::memory:"};
  Outbox outbox{database, {.deploy_schema = true}};
  outbox.enqueue({.topic = Topic{"order.placed"}, .payload = "[42]"});
  KafkaPublisher publisher{{.brokers = "127.0.0.1:1"}, {.topic = "orders"}};
  // Nobody is there: the message is put off, and no attempt is counted.
  const auto outcomes = publisher.publish(outbox.claim(OwnerToken::make({}), 1s, 1));
  return outcomes.at(0).kind() == Outcome::Kind::postpone ? 0 : 1;
}
