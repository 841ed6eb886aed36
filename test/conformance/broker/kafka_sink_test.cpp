// From the outbox to Kafka.
#include <set>

#include "kafka_test.hpp"
#include <twinbox/dispatcher.hpp>
#include <twinbox/event.hpp>
#include <twinbox/event_bus.hpp>
#include <twinbox/sink.hpp>

namespace twinbox::test {
namespace {

using Kind = Outcome::Kind;

class KafkaSink : public KafkaTest {
 protected:
  KafkaSink() { topic = kafka.topic(own_name("out")); }

  std::shared_ptr<KafkaPublisher> publisher(KafkaSinkOptions options = {}) {
    if (options.topic.empty()) options.topic = topic;
    KafkaConnection to = connection();
    to.max_reconnect_delay = 1s;
    return std::make_shared<KafkaPublisher>(std::move(to), std::move(options), environment());
  }
  void enqueue(const std::string& id, MessageExtras extras = {}) {
    outbox().enqueue({.topic = Topic{"order.placed"},
                      .payload = payload(id),
                      .id = MessageId{id},
                      .extras = std::move(extras)});
  }
  std::vector<Message> claim(std::size_t limit = 100) {
    return outbox().claim(worker_a, 30s, static_cast<int>(limit));
  }
  std::vector<std::string> ids() {
    std::vector<std::string> found;
    for (const KafkaRecord& record : kafka.read(topic)) {
      found.push_back(record.headers.at("twinbox-id"));
    }
    return found;
  }
  /// Hands out what is due, on this thread.
  std::size_t drain(const std::shared_ptr<KafkaPublisher>& to) {
    const Routes routes{{{.name = "kafka", .pattern = TopicPattern{"#"}, .sink = kafka_sink(to)}}};
    return Dispatcher{outbox(), routes.handlers(), {.workers = 1}}.drain();
  }
  DeliveryView delivery_of(const std::string& id) {
    return Admin{outbox()}.get(MessageKey{Source::none(), MessageId{id}}).value().deliveries.at(0);
  }
};

TEST_P(KafkaSink, a_message_travels_with_its_attributes_and_its_partition_key_is_the_records_key) {
  MessageExtras extras;
  extras.correlation_id = CorrelationId{"story"};
  extras.partition_key = PartitionKey{"customer"};
  extras.content_type = "application/x-order";
  extras.headers = R"({"color":"blue"})";
  enqueue("a", extras);
  EXPECT_EQ(publisher()->publish(claim()).at(0).kind(), Kind::done);
  const KafkaRecord found = kafka.read(topic).at(0);
  EXPECT_EQ(found.body, payload("a"));
  EXPECT_EQ(found.key, "customer");
  EXPECT_EQ(found.headers.at("content-type"), "application/x-order");
  EXPECT_EQ(found.headers.at("twinbox-id"), "a");
  EXPECT_EQ(found.headers.at("twinbox-topic"), "order.placed");
  EXPECT_EQ(found.headers.at("twinbox-source"), "-");
  EXPECT_EQ(found.headers.at("twinbox-correlation-id"), "story");
  EXPECT_EQ(found.headers.at("twinbox-headers"), R"({"color":"blue"})");
  EXPECT_FALSE(found.headers.contains("twinbox-attempt"));
}

TEST_P(KafkaSink, records_of_one_key_lie_in_one_partition_in_their_order) {
  topic = kafka.topic(own_name("wide"), 4);
  const auto to = publisher();
  std::vector<std::string> sent;
  for (int i = 0; i < 12; ++i) {
    MessageExtras extras;
    extras.partition_key = PartitionKey{"customer"};
    sent.push_back("m" + std::to_string(i));
    enqueue(sent.back(), extras);
  }
  while (drain(to) > 0) {
  }
  std::set<int> partitions;
  for (const KafkaRecord& one : kafka.read(topic)) partitions.insert(one.partition);
  EXPECT_EQ(partitions.size(), 1u);
  EXPECT_EQ(ids(), sent);
}

TEST_P(KafkaSink, an_event_travels_binary_or_structured) {
  CloudEvent event{.id = "e-1", .source = "/shop", .type = "order.placed.v1"};
  event.subject = "größe 1%";
  event.extensions["partitionkey"] = "customer";
  event.set_data(R"({"total": 7})");
  outbox().enqueue(to_message(event));
  const auto claimed = claim();
  EXPECT_EQ(publisher()->publish(claimed).at(0).kind(), Kind::done);
  EXPECT_EQ(publisher({.form = BodyFormat::structured})->publish(claimed).at(0).kind(), Kind::done);
  const auto found = kafka.read(topic);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].body, R"({"total": 7})");
  EXPECT_EQ(found[0].key, "customer");
  EXPECT_EQ(found[0].headers.at("content-type"), "application/json");
  EXPECT_EQ(found[0].headers.at("ce_id"), "e-1");
  EXPECT_EQ(found[0].headers.at("ce_specversion"), "1.0");
  EXPECT_EQ(found[0].headers.at("ce_subject"), "größe 1%");
  EXPECT_EQ(found[0].headers.at("ce_partitionkey"), "customer");
  EXPECT_EQ(event_from_json(found[1].body), event);
  EXPECT_TRUE(has(found[1].headers.at("content-type"), "application/cloudevents+json"));
}

TEST_P(KafkaSink, without_a_topic_of_its_own_the_messages_topic_is_taken) {
  const std::string about = kafka.topic(own_name("about"));
  outbox().enqueue({.topic = Topic{about}, .payload = payload("a"), .id = MessageId{"a"}});
  outbox().enqueue({.topic = Topic{"größe"}, .payload = payload("b"), .id = MessageId{"b"}});
  const auto claimed = claim();
  KafkaPublisher to{connection(), {}};
  const auto outcomes = to.publish(claimed);
  for (std::size_t i = 0; i < claimed.size(); ++i) {
    const bool good = claimed[i].id.view() == "a";
    EXPECT_EQ(outcomes[i].kind(), good ? Kind::done : Kind::dead);
    if (!good) {
      EXPECT_EQ(outcomes[i].cause(), "malformed");
      EXPECT_TRUE(has(outcomes[i].reason(), "größe")) << outcomes[i].reason();
    }
  }
  EXPECT_EQ(kafka.count(about), 1u);
}

TEST_P(KafkaSink, an_unknown_topic_is_a_failed_attempt_that_names_it) {
  const std::string missing = kafka.topic(own_name("missing"));
  kafka.hide(missing, RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
  enqueue("a");
  const auto claimed = claim();
  const Outcome outcome = publisher({.topic = missing})->publish(claimed).at(0);
  EXPECT_EQ(outcome.kind(), Kind::retry);
  EXPECT_TRUE(has(outcome.reason(), missing)) << outcome.reason();
  EXPECT_TRUE(has(outcome.reason(), "nknown topic")) << outcome.reason();
  EXPECT_EQ(publisher()->publish(claimed).at(0).kind(), Kind::done);
}

TEST_P(KafkaSink, a_missing_right_is_a_failed_attempt) {
  kafka.fail(Kafka::produce_request, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
  enqueue("a");
  const auto to = publisher();
  const auto claimed = claim();
  const Outcome outcome = to->publish(claimed).at(0);
  EXPECT_EQ(outcome.kind(), Kind::retry);
  EXPECT_TRUE(has(outcome.reason(), "uthorization")) << outcome.reason();
  // The client library believes it for a while.
  EXPECT_TRUE(eventually([&] { return to->publish(claimed).at(0).kind() == Kind::done; }));
}

TEST_P(KafkaSink, a_message_that_the_broker_finds_too_large_is_dead_and_the_others_go) {
  // The whole request is refused, and so is one record when each is sent alone.
  kafka.fail(Kafka::produce_request, RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, 2);
  for (const char* id : {"a", "b", "c"}) enqueue(id);
  const auto claimed = claim();
  KafkaConnection gathered = connection();
  gathered.settings["linger.ms"] = "100";
  gathered.settings["batch.num.messages"] = "3";
  KafkaPublisher to{gathered, {.topic = topic}};
  const auto outcomes = to.publish(claimed);
  EXPECT_EQ(outcomes[0].kind(), Kind::dead);
  EXPECT_TRUE(has(outcomes[0].reason(), "too large")) << outcomes[0].reason();
  EXPECT_EQ(outcomes[1].kind(), Kind::done);
  EXPECT_EQ(outcomes[2].kind(), Kind::done);
  EXPECT_EQ(ids(), (std::vector<std::string>{"b", "c"}));
}

TEST_P(KafkaSink, what_cannot_be_sent_is_malformed_without_asking_the_cluster) {
  enqueue("a");
  EXPECT_EQ(publisher({.max_bytes = 3})->publish(claim()).at(0).cause(), "malformed");
  EXPECT_EQ(kafka.count(topic), 0u);
}

TEST_P(KafkaSink, EVB_27_a_key_waits_in_the_outbox_while_the_cluster_is_away_and_keeps_its_order) {
  const auto to = publisher();
  kafka.down();
  std::vector<std::string> sent;
  for (int i = 0; i < 20; ++i) {
    sent.push_back("m" + std::to_string(i));
    enqueue(sent.back(), {.partition_key = PartitionKey{"order 7"}});
    clock().advance(100ms);
  }
  for (int i = 0; i < 15; ++i) {  // more often than the retry policy would allow attempts
    drain(to);
    clock().advance(1min);
  }
  EXPECT_EQ(delivery_of("m0").attempts, 0);
  EXPECT_EQ(delivery_of("m0").state, DeliveryState::ready);
  EXPECT_FALSE(log().events("broker_lost").empty());
  kafka.up();
  ASSERT_TRUE(eventually([&] {
    drain(to);
    clock().advance(1min);
    return read("select count(*) from {schema}outbox_work") == "0";
  }));
  EXPECT_EQ(ids(), sent);
}

TEST_P(KafkaSink, a_partition_with_too_few_replicas_costs_no_attempt_and_the_log_says_so_once) {
  kafka.fail(Kafka::produce_request, RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, 100'000);
  enqueue("a");
  const auto to = publisher({.timeout = 300ms});
  for (int i = 0; i < 2; ++i) {
    drain(to);
    clock().advance(1min);
  }
  EXPECT_EQ(delivery_of("a").attempts, 0);
  EXPECT_EQ(delivery_of("a").state, DeliveryState::ready);
  const auto blocked = log().events("broker_blocked");
  ASSERT_EQ(blocked.size(), 1u);
  EXPECT_EQ(blocked[0].field("topic"), topic);
  EXPECT_TRUE(has(blocked[0].field("error"), "min.insync.replicas")) << blocked[0].field("error");
  kafka.heal(Kafka::produce_request);
  ASSERT_TRUE(eventually([&] {
    drain(to);
    clock().advance(1min);
    return delivery_of("a").state == DeliveryState::done;
  }));
  kafka.fail(Kafka::produce_request, RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, 100'000);
  enqueue("b");
  drain(to);
  EXPECT_EQ(log().events("broker_blocked").size(), 2u) << "it is news again";
}

TEST_P(KafkaSink, EVB_28_a_connection_cut_in_mid_publish_sends_again_under_the_same_id) {
  const auto to = publisher();
  enqueue("first");
  drain(to);
  std::set<std::string> all = {"first"};
  for (int i = 0; i < 50; ++i) {
    all.insert("m" + std::to_string(i));
    enqueue("m" + std::to_string(i));
  }
  kafka.fail(Kafka::produce_request, RD_KAFKA_RESP_ERR__TRANSPORT, 3);  // the mock cluster hangs up
  ASSERT_TRUE(eventually([&] {
    drain(to);
    clock().advance(1min);
    return read("select count(*) from {schema}outbox_work") == "0";
  }));
  const std::vector<std::string> found = ids();
  EXPECT_EQ(std::set<std::string>(found.begin(), found.end()), all);
  for (const std::string& id : all) EXPECT_EQ(delivery_of(id).state, DeliveryState::done);
}

TEST_P(KafkaSink, EVB_28_what_was_on_its_way_when_the_cluster_went_is_sent_again) {
  const auto to = publisher();
  enqueue("first");
  drain(to);
  enqueue("second");
  const auto claimed = claim();
  kafka.delay(Kafka::produce_request);  // the broker has it, and says nothing
  std::jthread breaker{[&] {
    // Not before the request has gone out; sooner would only mean that it is put off.
    eventually([&] { return kafka.count(topic) == 2; });
    kafka.down();
  }};
  const Outcome outcome = to->publish(claimed).at(0);
  EXPECT_NE(outcome.kind(), Kind::done);
  EXPECT_NE(outcome.kind(), Kind::dead);
  breaker.join();
  kafka.up();
  ASSERT_TRUE(eventually([&] { return to->publish(claimed).at(0).kind() == Kind::done; }));
  const std::vector<std::string> found = ids();
  EXPECT_EQ(std::set<std::string>(found.begin(), found.end()),
            (std::set<std::string>{"first", "second"}));
}

TEST_P(KafkaSink, EVB_28_a_crash_after_sending_sends_again_and_an_inbox_drops_it) {
  kafka.topic(topic + ".dead");
  enqueue("m");
  const auto to = publisher();
  EXPECT_EQ(to->publish(claim()).at(0).kind(), Kind::done);
  clock().advance(31s);  // the worker is gone before it could say so
  EXPECT_EQ(drain(to), 1u);
  auto source = run();
  ASSERT_TRUE(source->wait_for(2));
  source->stop();
  EXPECT_EQ(source->status().accepted, 1u);
  EXPECT_GE(source->status().duplicates, 1u);
}

TEST_P(KafkaSink, EVB_02_an_event_goes_through_the_outbox_or_at_once) {
  const auto to = publisher();
  EventBus bus{outbox(),
               {.source = "/shop", .transport = [&](const CloudEvent& event) { to->send(event); }}};
  CloudEvent event{.id = "direct", .source = {}, .type = "order.placed"};
  event.set_data("{}");
  bus.publish(event, {.use_outbox = false});
  EXPECT_EQ(read("select count(*) from {schema}outbox_work"), "0");
  EXPECT_EQ(kafka.read(topic).at(0).headers.at("ce_id"), "direct");
  event.id = "stored";
  EXPECT_THROW(bus.in_transaction([&](UnitOfWork& work) {
    work.publish(event);
    throw std::runtime_error("rolled back");
  }),
               std::runtime_error);
  drain(to);
  EXPECT_EQ(kafka.count(topic), 1u);
  bus.in_transaction([&](UnitOfWork& work) { work.publish(event); });
  EXPECT_EQ(kafka.count(topic), 1u);  // not before the commit, and only by a dispatcher
  drain(to);
  EXPECT_EQ(kafka.read(topic).at(1).headers.at("ce_id"), "stored");
  event.source = "/shop";
  KafkaPublisher small{connection(), {.topic = topic, .max_bytes = 3}};
  EXPECT_THROW(small.send(event), BrokerError);
}

TEST_P(KafkaSink, a_stop_request_ends_the_wait_at_once) {
  const auto to = publisher({.timeout = 1h});
  enqueue("first");
  drain(to);
  enqueue("second");
  const auto claimed = claim();
  kafka.delay(Kafka::produce_request);  // whoever waits hears after a minute that it is done
  std::stop_source stop;
  std::jthread stopper{[&] {
    eventually([&] { return kafka.count(topic) == 2; });
    stop.request_stop();
  }};
  EXPECT_EQ(to->publish(claimed, stop.get_token()).at(0).kind(), Kind::retry);
}

TEST_P(KafkaSink, more_than_the_client_library_has_room_for_goes_piece_by_piece) {
  KafkaConnection narrow = connection();
  narrow.settings["queue.buffering.max.messages"] = "3";
  KafkaPublisher to{narrow, {.topic = topic}};
  for (int i = 0; i < 50; ++i) enqueue("m" + std::to_string(i));
  for (const Outcome& one : to.publish(claim())) EXPECT_EQ(one.kind(), Kind::done) << one.reason();
  EXPECT_EQ(ids().size(), 50u);
}

TEST_P(KafkaSink, many_callers_share_one_producer) {
  const auto to = publisher();
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
  EXPECT_EQ(log().events("broker_connected").size(), 1u);
  EXPECT_EQ(ids().size(), 80u);
}

TWINBOX_ON_EVERY_BACKEND(KafkaSink);

TEST(KafkaSinkOptions, are_refused_with_the_name_of_the_option) {
  const auto refusal = [](KafkaConnection connection, KafkaSinkOptions options) {
    try {
      KafkaPublisher{std::move(connection), std::move(options)};
    } catch (const std::invalid_argument& error) {
      return std::string{error.what()};
    }
    return std::string{};
  };
  const KafkaConnection good{.brokers = "localhost:9092"};
  EXPECT_TRUE(has(refusal({.brokers = ""}, {}), "brokers"));
  EXPECT_TRUE(has(refusal(good, {.topic = "a topic"}), "topic 'a topic'"));
  EXPECT_TRUE(has(refusal(good, {.max_bytes = 0}), "max_bytes"));
  EXPECT_TRUE(has(refusal({.brokers = "x:1", .settings = {{"acks", "1"}}}, {}), "acks"));
  EXPECT_TRUE(has(refusal({.brokers = "x:1", .settings = {{"no.such", "1"}}}, {}), "no.such"));
  EXPECT_TRUE(has(
      refusal({.brokers = "x:1",
               .settings = {{"security.protocol", "ssl"}, {"ssl.ca.location", "/no/such/file"}}},
              {}),
      "ssl.ca.location"));
  EXPECT_TRUE(has(refusal({.brokers = "x:1", .settings = {{"sasl.username", "me"}}}, {}),
                  "security.protocol=plaintext"));
  EXPECT_EQ(refusal(good, {}), "");
}

}  // namespace
}  // namespace twinbox::test
