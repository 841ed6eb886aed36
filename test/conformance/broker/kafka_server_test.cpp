// A real cluster, where TWINBOX_TEST_KAFKA names one; what the doctor sees.
#include <cstdlib>

#include "kafka_test.hpp"
#include <twinbox/dispatcher.hpp>
#include <twinbox/sink.hpp>

namespace twinbox::test {
namespace {

class KafkaServer : public InboxTest {
 protected:
  void SetUp() override {
    if (std::getenv("TWINBOX_TEST_KAFKA") == nullptr) GTEST_SKIP() << "TWINBOX_TEST_KAFKA: none";
  }
};

/// The cluster must make topics that are asked for.
TEST_P(KafkaServer, EVB_28_PHD_30_messages_go_through_it_in_order_once_and_bad_ones_aside) {
  refuse_poison("insert");
  Kafka kafka{std::getenv("TWINBOX_TEST_KAFKA")};
  const std::string topic = kafka.topic(own_name("through"));
  kafka.topic(topic + ".dead");
  const KafkaConnection connection{.brokers = kafka.brokers()};
  const auto publisher =
      std::make_shared<KafkaPublisher>(connection, KafkaSinkOptions{.topic = topic}, environment());
  const Routes routes{
      {{.name = "kafka", .pattern = TopicPattern{"#"}, .sink = kafka_sink(publisher)}}};
  constexpr int count = 50;
  for (int i = 0; i < count; ++i) {
    MessageExtras extras;
    extras.partition_key = PartitionKey{"customer"};
    outbox().enqueue({.topic = Topic{"order.placed"},
                      .payload = payload(),
                      .id = MessageId{"m" + std::to_string(i)},
                      .source = Source{"shop"},
                      .extras = std::move(extras)});
  }
  outbox().enqueue({.topic = Topic{"poison"}, .payload = payload(), .id = MessageId{"bad"}});
  ASSERT_TRUE(eventually([&] {
    Dispatcher{outbox(), routes.handlers(), {.workers = 1}}.drain();
    clock().advance(1min);
    return read("select count(*) from {schema}outbox_work") == "0";
  }));
  std::vector<std::string> order;
  RunningKafka source{
      connection,
      {.topics = {topic}, .group = own_name("group"), .retry = {.max_retries = 1, .delay = 1ms}},
      [&](std::span<const Arrival> arrivals) {
        auto answers = inbox().accept(arrivals);
        for (const Arrival& one : arrivals) order.push_back(one.id.str());
        return answers;
      },
      environment()};
  ASSERT_TRUE(source.wait_for(count));
  ASSERT_TRUE(eventually([&] { return source.status().dead == 1; })) << source.status().error;
  source.stop();
  std::erase(order, "bad");
  ASSERT_GE(order.size(), static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    EXPECT_EQ(order[static_cast<std::size_t>(i)], "m" + std::to_string(i));
  }
  EXPECT_EQ(count_messages(), std::to_string(count));
  EXPECT_EQ(kafka.count(topic + ".dead"), 1u);
}

TWINBOX_ON_BACKENDS(KafkaServer, Backend::sqlite_file);

class KafkaDoctor : public ::testing::Test {
 protected:
  const Finding* find(const std::string& check, Finding::Level level) {
    for (const Finding& one : findings) {
      if (one.check == check && one.level == level) return &one;
    }
    return nullptr;
  }
  KafkaConnection connection() {
    return {.brokers = kafka.brokers(), .settings = quick_settings()};
  }

  Kafka kafka;
  std::vector<Finding> findings;
};

TEST_F(KafkaDoctor, looks_at_the_topic_of_a_sink_and_says_what_it_cannot_ask) {
  findings = examine_kafka(connection(), KafkaSinkOptions{.topic = kafka.topic("orders")});
  EXPECT_NE(find("reach", Finding::Level::ok), nullptr);
  const Finding* replicas = find("replicas", Finding::Level::warning);
  ASSERT_NE(replicas, nullptr);
  EXPECT_TRUE(has(replicas->found, "'orders' has one replica")) << replicas->found;
  // The mock cluster knows no DescribeConfigs; the judgement itself is tested without one.
  const Finding* settings = find("settings", Finding::Level::warning);
  ASSERT_NE(settings, nullptr);
  EXPECT_TRUE(has(settings->fix, "min.insync.replicas"));
}

TEST_F(KafkaDoctor, finds_a_missing_topic_and_dead_letters_that_lie_there) {
  kafka.topic("orders");
  kafka.topic("missing");
  kafka.hide("missing", RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
  kafka.publish(kafka.topic("orders.dead"), {.body = "x"});
  kafka.topic("missing.dead");
  findings = examine_kafka(connection(),
                           KafkaSourceOptions{.topics = {"orders", "missing"}, .group = "g"});
  const Finding* topic = find("topic", Finding::Level::error);
  ASSERT_NE(topic, nullptr);
  EXPECT_TRUE(has(topic->found, "'missing'")) << topic->found;
  const Finding* dead = find("dead", Finding::Level::warning);
  ASSERT_NE(dead, nullptr);
  EXPECT_TRUE(has(dead->found, "1 dead letters in topic 'orders.dead'")) << dead->found;
  EXPECT_NE(find("dead", Finding::Level::ok), nullptr);
}

TEST_F(KafkaDoctor, says_when_a_cluster_cannot_be_reached_and_shows_no_password) {
  kafka.down();
  KafkaConnection to = connection();
  to.connect_timeout = 500ms;
  to.settings.insert({{"security.protocol", "sasl_plaintext"},
                      {"sasl.mechanism", "PLAIN"},
                      {"sasl.username", "me"},
                      {"sasl.password", "tops3cret"}});
  findings = examine_kafka(to, KafkaSinkOptions{});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].check, "reach");
  EXPECT_EQ(findings[0].level, Finding::Level::error);
  EXPECT_FALSE(has(findings[0].found, "tops3cret"));
}

}  // namespace
}  // namespace twinbox::test
