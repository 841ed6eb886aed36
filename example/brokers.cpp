// An outbox into a broker and a broker into an inbox. There is no broker here: each part is made,
// tries to connect, and stops.
#include <iostream>
#include <string>
#include <thread>

#include <twinbox/dispatcher.hpp>
#include <twinbox/inbox.hpp>
#include <twinbox/kafka.hpp>
#include <twinbox/nats.hpp>
#include <twinbox/outbox.hpp>
#include <twinbox/rabbitmq.hpp>
#include <twinbox/sink.hpp>

namespace {

using namespace twinbox;

void use_rabbitmq(Outbox& outbox, Inbox& inbox, const std::string& url) {
  auto publisher = std::make_shared<RabbitPublisher>(RabbitConnection{.url = url},
                                                     RabbitSinkOptions{.exchange = "events"});
  Routes routes{
      {{.name = "events", .pattern = TopicPattern{"#"}, .sink = rabbitmq_sink(publisher)}}};
  Dispatcher dispatcher{outbox, routes.handlers()};

  auto source = rabbitmq_source(
      {.url = url},
      {.queue = "billing", .bindings = {{"events", "order.#"}}, .topology = Topology::declare},
      accept_into(inbox));  // or accept_into(channels, "orders")
  std::jthread thread{[&](std::stop_token stop) { source->run(stop); }};
}

void use_nats(Outbox& outbox, Inbox& inbox, const std::string& url) {
  NatsStream events{.name = "events", .subjects = {"order.>"}};
  auto publisher = std::make_shared<NatsPublisher>(
      NatsConnection{.url = url}, NatsSinkOptions{.stream = events, .topology = Topology::declare});
  Routes routes{{{.name = "events", .pattern = TopicPattern{"#"}, .sink = nats_sink(publisher)}}};
  Dispatcher dispatcher{outbox, routes.handlers()};

  auto source = nats_source(
      {.url = url}, {.stream = events, .consumer = "billing", .topology = Topology::declare},
      accept_into(inbox));
  std::jthread thread{[&](std::stop_token stop) { source->run(stop); }};
}

void use_kafka(Outbox& outbox, Inbox& inbox, const std::string& brokers) {
  const KafkaConnection cluster{.brokers = brokers};
  auto publisher = std::make_shared<KafkaPublisher>(cluster, KafkaSinkOptions{.topic = "orders"});
  Routes routes{{{.name = "events", .pattern = TopicPattern{"#"}, .sink = kafka_sink(publisher)}}};
  Dispatcher dispatcher{outbox, routes.handlers()};

  auto source =
      kafka_source(cluster, {.topics = {"orders"}, .group = "billing"}, accept_into(inbox));
  std::jthread thread{[&](std::stop_token stop) { source->run(stop); }};
}

}  // namespace

int main() {
  Database database{"sqlite::memory:", {}, {.log = [](const LogEvent&) {}}};
  Outbox outbox{database, {.deploy_schema = true}};
  Inbox inbox{database, {.deploy_schema = true}};
  use_rabbitmq(outbox, inbox, "amqp://guest:guest@127.0.0.1:1");
  use_nats(outbox, inbox, "nats://127.0.0.1:1");
  use_kafka(outbox, inbox, "127.0.0.1:1");
  std::cout << "every broker has stopped\n";
}
