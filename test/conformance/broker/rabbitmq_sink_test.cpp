// From the outbox to RabbitMQ.
#include <algorithm>

#include "rabbit_test.hpp"
#include "relay.hpp"
#include <twinbox/dispatcher.hpp>
#include <twinbox/event.hpp>
#include <twinbox/event_bus.hpp>
#include <twinbox/sink.hpp>

namespace twinbox::test {
namespace {

using Kind = Outcome::Kind;

class RabbitSink : public RabbitTest {
 protected:
  RabbitSink() {
    exchange = own_name("out");
    rabbit.exchange(exchange);
    queue = rabbit.queue(own_name("orders"));
    rabbit.bind(queue, exchange, "order.#");
  }
  std::shared_ptr<RabbitPublisher> publisher(RabbitSinkOptions options = {},
                                             RabbitConnection to = connection()) {
    if (options.exchange.empty()) options.exchange = exchange;
    return std::make_shared<RabbitPublisher>(std::move(to), std::move(options), environment());
  }
  void enqueue(const std::string& id, const std::string& topic = "order.placed",
               MessageExtras extras = {}) {
    outbox().enqueue({.topic = Topic{topic},
                      .payload = payload(id),
                      .id = MessageId{id},
                      .extras = std::move(extras)});
  }
  std::vector<Message> claim(std::size_t limit = 100) {
    return outbox().claim(worker_a, 30s, static_cast<int>(limit));
  }
  std::vector<std::string> ids() {
    std::vector<std::string> found;
    for (const RabbitMessage& message : rabbit.drain(queue)) found.push_back(message.message_id);
    return found;
  }
  /// Hands out what is due, on this thread.
  std::size_t drain(const std::shared_ptr<RabbitPublisher>& to) {
    const Routes routes{
        {{.name = "rabbit", .pattern = TopicPattern{"#"}, .sink = rabbitmq_sink(to)}}};
    return Dispatcher{outbox(), routes.handlers(), {.workers = 1}}.drain();
  }
  DeliveryView delivery_of(const std::string& id) {
    return Admin{outbox()}.get(MessageKey{Source::none(), MessageId{id}}).value().deliveries.at(0);
  }

  std::string exchange;
};

TEST_P(RabbitSink, a_message_travels_with_its_attributes_persistently) {
  MessageExtras extras;
  extras.correlation_id = CorrelationId{"story"};
  extras.partition_key = PartitionKey{"customer"};
  extras.content_type = "application/x-order";
  extras.headers = R"({"color":"blue"})";
  enqueue("a", "order.placed", extras);
  EXPECT_EQ(publisher()->publish(claim()).at(0).kind(), Kind::done);
  const RabbitMessage found = rabbit.get(queue).value();
  EXPECT_EQ(found.body, payload("a"));
  EXPECT_EQ(found.message_id, "a");
  EXPECT_EQ(found.type, "order.placed");
  EXPECT_EQ(found.routing_key, "order.placed");
  EXPECT_EQ(found.content_type, "application/x-order");
  EXPECT_EQ(found.correlation_id, "story");
  EXPECT_EQ(found.delivery_mode, 2);
  EXPECT_FALSE(found.headers.contains("twinbox-id"));  // the property says it
  EXPECT_EQ(found.headers.at("twinbox-source"), "-");
  EXPECT_EQ(found.headers.at("twinbox-partition-key"), "customer");
  EXPECT_EQ(found.headers.at("twinbox-headers"), R"({"color":"blue"})");
}

TEST_P(RabbitSink, what_is_too_long_for_a_property_travels_as_a_header_and_arrives_whole) {
  std::string id;
  for (int i = 0; i < 200; ++i) id += "ä";  // 200 characters, 400 bytes
  rabbit.queue(queue + ".dead");
  outbox().enqueue({.topic = Topic{"order.placed"},
                    .payload = payload(),
                    .id = MessageId{id},
                    .source = Source{"shop"}});
  EXPECT_EQ(publisher()->publish(claim()).at(0).kind(), Kind::done);
  RunningRabbit source = run({.queue = queue, .queue_type = "classic"});
  ASSERT_TRUE(source.wait_for(1));
  source.stop();
  EXPECT_TRUE(inbox().state({Source{"shop"}, MessageId{id}}).has_value());
}

TEST_P(RabbitSink, EVB_30_an_event_travels_binary_or_structured) {
  CloudEvent event{.id = "e-1", .source = "/shop", .type = "order.placed.v1"};
  event.subject = "größe 1%";
  event.set_data(R"({"total": 7})");
  outbox().enqueue(to_message(event));
  const auto claimed = claim();
  EXPECT_EQ(publisher()->publish(claimed).at(0).kind(), Kind::done);
  const RabbitMessage binary = rabbit.get(queue).value();
  EXPECT_EQ(binary.body, R"({"total": 7})");
  EXPECT_EQ(binary.content_type, "application/json");
  EXPECT_EQ(binary.headers.at("cloudEvents_id"), "e-1");
  EXPECT_EQ(binary.headers.at("cloudEvents_specversion"), "1.0");
  EXPECT_EQ(binary.headers.at("cloudEvents_subject"), "größe 1%");
  EXPECT_EQ(publisher({.form = BodyFormat::structured})->publish(claimed).at(0).kind(), Kind::done);
  const RabbitMessage structured = rabbit.get(queue).value();
  EXPECT_EQ(event_from_json(structured.body), event);
  EXPECT_TRUE(has(structured.content_type, "application/cloudevents+json"));
}

TEST_P(RabbitSink, what_no_queue_takes_is_a_failed_attempt_and_the_others_go) {
  enqueue("a");
  enqueue("lost", "nobody.wants");
  enqueue("b");
  const auto claimed = claim();
  const auto outcomes = publisher()->publish(claimed);
  for (std::size_t i = 0; i < claimed.size(); ++i) {
    const bool lost = claimed[i].id.view() == "lost";
    EXPECT_EQ(outcomes[i].kind(), lost ? Kind::retry : Kind::done);
    if (lost) {
      EXPECT_TRUE(has(outcomes[i].reason(), "nobody.wants")) << outcomes[i].reason();
    }
  }
  EXPECT_EQ(ids(), (std::vector<std::string>{"a", "b"}));
}

TEST_P(RabbitSink, what_a_full_queue_refuses_is_a_failed_attempt) {
  const std::string small =
      rabbit.queue(own_name("small"), {{"x-max-length", "2"}, {"x-overflow", "reject-publish"}});
  rabbit.bind(small, exchange, "small");
  for (int i = 0; i < 10; ++i) enqueue("m" + std::to_string(i), "small");
  const auto outcomes = publisher()->publish(claim());
  const auto done = std::count_if(outcomes.begin(), outcomes.end(),
                                  [](const Outcome& one) { return one.kind() == Kind::done; });
  EXPECT_GE(done, 2);
  EXPECT_LT(done, 10);
  for (const Outcome& one : outcomes) {
    if (one.kind() == Kind::done) continue;
    EXPECT_EQ(one.kind(), Kind::retry);
    EXPECT_TRUE(has(one.reason(), "full")) << one.reason();
  }
  EXPECT_EQ(rabbit.drain(small).size(), static_cast<std::size_t>(done));
}

TEST_P(RabbitSink, a_message_that_the_broker_finds_too_large_is_dead_and_the_others_go) {
  enqueue("a");
  outbox().enqueue({.topic = Topic{"order.placed"},
                    .payload = std::string(2'000'000, 'x'),
                    .id = MessageId{"large"}});
  for (const char* id : {"b", "c", "d"}) enqueue(id);
  const auto claimed = claim();
  ASSERT_EQ(claimed.size(), 5u);
  const auto to = publisher();
  const auto outcomes = to->publish(claimed);
  for (std::size_t i = 0; i < claimed.size(); ++i) {
    const bool large = claimed[i].id.view() == "large";
    EXPECT_EQ(outcomes[i].kind(), large ? Kind::dead : Kind::done) << outcomes[i].reason();
    if (large) {
      EXPECT_TRUE(has(outcomes[i].reason(), "406")) << outcomes[i].reason();
    }
  }
  std::vector<std::string> found = ids();
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  EXPECT_EQ(found, (std::vector<std::string>{"a", "b", "c", "d"}));
  enqueue("e");
  EXPECT_EQ(to->publish(claim()).at(0).kind(), Kind::done);
}

TEST_P(RabbitSink, a_routing_key_that_is_not_allowed_is_a_failed_attempt_and_the_others_go) {
  Rabbit::permit(exchange, "^order");
  for (const char* id : {"a", "b"}) enqueue(id);
  enqueue("forbidden", "payment.received");
  for (const char* id : {"c", "d"}) enqueue(id);
  const auto claimed = claim();
  const auto to = publisher();
  const auto outcomes = to->publish(claimed);
  for (std::size_t i = 0; i < claimed.size(); ++i) {
    const bool forbidden = claimed[i].id.view() == "forbidden";
    EXPECT_EQ(outcomes[i].kind(), forbidden ? Kind::retry : Kind::done) << outcomes[i].reason();
    if (forbidden) {
      EXPECT_TRUE(has(outcomes[i].reason(), "403")) << outcomes[i].reason();
    }
  }
}

TEST_P(RabbitSink, an_exchange_that_takes_nothing_from_its_user_costs_few_messages_an_attempt) {
  Rabbit::permit(exchange, "^$");
  for (int i = 0; i < 50; ++i) enqueue(std::to_string(i));
  Relay relay{port_of(Rabbit::url())};
  const auto to = publisher({}, {.url = with_port(Rabbit::url(), relay.port())});
  const auto outcomes = to->publish(claim());
  EXPECT_EQ(std::ranges::count(outcomes, Kind::retry, &Outcome::kind), 3);
  EXPECT_EQ(std::ranges::count(outcomes, Kind::postpone, &Outcome::kind), 47);
  EXPECT_LE(relay.connections(), 4);
}

/// A confirm as RabbitMQ would send it.
std::string confirm_of(char tag) {
  return std::string{"\1\0\1\0\0\0\15\0\74\0\120\0\0\0\0\0\0\0", 18} + tag + '\0' + '\xCE';
}

TEST_P(RabbitSink, a_confirm_that_comes_again_or_for_nothing_is_passed_over) {
  Relay relay{port_of(Rabbit::url())};
  const auto to = publisher({}, {.url = with_port(Rabbit::url(), relay.port())});
  enqueue("a");
  ASSERT_EQ(to->publish(claim()).at(0).kind(), Kind::done);
  for (const char tag : std::string{"\1\0\143", 3}) {
    relay.answer_first(confirm_of(tag));
    enqueue("next " + std::to_string(tag));
    EXPECT_EQ(to->publish(claim()).at(0).kind(), Kind::done);
  }
  EXPECT_EQ(relay.connections(), 1);
}

TEST_P(RabbitSink, what_cannot_be_sent_is_malformed_without_asking_the_broker) {
  enqueue("a");
  EXPECT_EQ(publisher({.max_bytes = 3})->publish(claim()).at(0).cause(), "malformed");
  EXPECT_TRUE(ids().empty());
}

TEST_P(RabbitSink, EVB_27_a_key_waits_in_the_outbox_while_the_broker_is_away_and_keeps_its_order) {
  Relay relay{port_of(Rabbit::url())};
  const auto to = publisher({}, {.url = with_port(Rabbit::url(), relay.port())});
  relay.refuse_connections();
  std::vector<std::string> sent;
  for (int i = 0; i < 20; ++i) {
    sent.push_back("m" + std::to_string(i));
    enqueue(sent.back(), "order.placed", {.partition_key = PartitionKey{"order 7"}});
    clock().advance(100ms);
  }
  for (int i = 0; i < 15; ++i) {  // more often than the retry policy would allow attempts
    drain(to);
    clock().advance(1min);
  }
  EXPECT_EQ(delivery_of("m0").attempts, 0);
  EXPECT_EQ(delivery_of("m0").state, DeliveryState::ready);
  relay.allow_connections();
  ASSERT_TRUE(eventually([&] {
    drain(to);
    clock().advance(1min);
    return read("select count(*) from {schema}outbox_work") == "0";
  }));
  EXPECT_EQ(ids(), sent);
}

TEST_P(RabbitSink, EVB_28_a_connection_cut_in_mid_publish_sends_again_under_the_same_id) {
  Relay relay{port_of(Rabbit::url())};
  const auto to = publisher({}, {.url = with_port(Rabbit::url(), relay.port())});
  enqueue("first");
  drain(to);
  std::set<std::string> all = {"first"};
  for (int i = 0; i < 50; ++i) {
    all.insert("m" + std::to_string(i));
    enqueue("m" + std::to_string(i));
  }
  relay.cut_after(4'999);  // in the middle of a message
  ASSERT_TRUE(eventually([&] {
    drain(to);
    clock().advance(1min);
    return read("select count(*) from {schema}outbox_work") == "0";
  }));
  EXPECT_GE(relay.connections(), 2);
  const std::vector<std::string> found = ids();
  EXPECT_EQ(std::set<std::string>(found.begin(), found.end()), all);
  for (const std::string& id : all) EXPECT_EQ(delivery_of(id).state, DeliveryState::done);
}

TEST_P(RabbitSink, EVB_28_a_crash_after_sending_sends_again_and_an_inbox_drops_it) {
  RabbitSourceOptions options{.queue = queue, .queue_type = "classic"};
  rabbit.queue(queue + ".dead");
  enqueue("m");
  const auto to = publisher();
  EXPECT_EQ(to->publish(claim()).at(0).kind(), Kind::done);
  clock().advance(31s);  // the worker is gone before it could say so
  EXPECT_EQ(drain(to), 1u);
  auto source = run(options);
  ASSERT_TRUE(source.wait_for(2));
  source.stop();
  EXPECT_EQ(source.status().accepted, 1u);
  EXPECT_EQ(source.status().duplicates, 1u);
}

TEST_P(RabbitSink, EVB_02_an_event_goes_through_the_outbox_or_at_once) {
  const auto to = publisher();
  EventBus bus{outbox(),
               {.source = "/shop", .transport = [&](const CloudEvent& event) { to->send(event); }}};
  CloudEvent event{.id = "direct", .source = {}, .type = "order.placed"};
  event.set_data("{}");
  bus.publish(event, {.use_outbox = false});
  EXPECT_EQ(read("select count(*) from {schema}outbox_work"), "0");
  EXPECT_EQ(rabbit.get(queue).value().headers.at("cloudEvents_id"), "direct");
  event.id = "stored";
  EXPECT_THROW(bus.in_transaction([&](UnitOfWork& work) {
    work.publish(event);
    throw std::runtime_error("rolled back");
  }),
               std::runtime_error);
  drain(to);
  EXPECT_FALSE(rabbit.get(queue));
  bus.in_transaction([&](UnitOfWork& work) { work.publish(event); });
  EXPECT_FALSE(rabbit.get(queue));  // not before the commit, and only by a dispatcher
  drain(to);
  EXPECT_EQ(rabbit.get(queue).value().headers.at("cloudEvents_id"), "stored");
  event.source = "/shop";
  event.type = "nobody.wants";
  EXPECT_THROW(to->send(event), BrokerError);
}

TEST_P(RabbitSink, declares_its_exchange_when_it_is_told_to) {
  const std::string name = own_name("declared");
  enqueue("a");
  const auto claimed = claim();
  EXPECT_EQ(publisher({.exchange = name})->publish(claimed).at(0).kind(), Kind::postpone);
  const auto lost = log().events("broker_lost");
  ASSERT_FALSE(lost.empty());
  EXPECT_TRUE(has(lost.back().field("error"), "topology = declare")) << lost.back().field("error");
  const auto to = publisher({.exchange = name, .topology = Topology::declare});
  rabbit.forget_exchange(name);
  EXPECT_EQ(to->publish(claimed).at(0).kind(), Kind::retry);  // nobody is bound yet
  rabbit.bind(queue, name, "order.*");
  EXPECT_EQ(to->publish(claimed).at(0).kind(), Kind::done);
}

TEST_P(RabbitSink, the_default_exchange_leads_to_the_queue_of_that_name) {
  enqueue("a", "anything");
  RabbitPublisher to{connection(), {.routing_key = queue}};
  EXPECT_EQ(to.publish(claim()).at(0).kind(), Kind::done);
  EXPECT_EQ(ids(), std::vector<std::string>{"a"});
}

TEST_P(RabbitSink, a_stop_request_ends_the_wait_at_once) {
  Relay relay{port_of(Rabbit::url())};
  enqueue("a");
  const auto claimed = claim();
  std::stop_source stop;
  stop.request_stop();
  const auto to = publisher({}, {.url = with_port(Rabbit::url(), relay.port())});
  EXPECT_EQ(to->publish(claimed, stop.get_token()).at(0).kind(), Kind::retry);
}

TEST_P(RabbitSink, many_callers_share_one_connection) {
  Relay relay{port_of(Rabbit::url())};
  const auto to = publisher({}, {.url = with_port(Rabbit::url(), relay.port())});
  for (int i = 0; i < 80; ++i) enqueue("m" + std::to_string(i));
  const auto claimed = claim();
  ASSERT_EQ(claimed.size(), 80u);
  std::atomic<int> done = 0;
  {
    std::vector<std::jthread> callers;
    for (std::size_t at = 0; at < 80; at += 10) {
      callers.emplace_back([&, at] {
        for (const Outcome& one : to->publish(std::span{claimed}.subspan(at, 10))) {
          done += one.kind() == Kind::done ? 1 : 0;
        }
      });
    }
  }
  EXPECT_EQ(done, 80);
  EXPECT_EQ(relay.connections(), 1);
  EXPECT_EQ(ids().size(), 80u);
}

TWINBOX_ON_EVERY_BACKEND(RabbitSink);

}  // namespace
}  // namespace twinbox::test
