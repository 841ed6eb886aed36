// How far a group may commit, whether a cluster can be heard, what a delivery report means, and
// what is unsafe about a topic, without a cluster.
#include <gtest/gtest.h>

#include "transport/kafka/producer.hpp"
#include "transport/kafka/progress.hpp"
#include "transport/kafka/topic_findings.hpp"

namespace twinbox::kafka {
namespace {

using namespace std::chrono_literals;

const Partition one{"t", 0}, other{"t", 1};

TEST(KafkaProgress, never_goes_past_what_is_open) {
  Progress progress;
  for (const std::int64_t offset : {5, 6, 9}) progress.add(one, offset);
  EXPECT_EQ(progress.position(one), 5);
  progress.settle(one, 6);
  progress.settle(one, 9);
  EXPECT_EQ(progress.position(one), 5);
  EXPECT_EQ(progress.held(), 5);
  progress.settle(one, 5);
  EXPECT_EQ(progress.position(one), 10);
  EXPECT_EQ(progress.held(), 0);
}

TEST(KafkaProgress, of_one_partition_says_nothing_about_another) {
  Progress progress;
  progress.add(one, 5);
  progress.add(other, 7);
  progress.settle(other, 7);
  EXPECT_EQ(progress.position(other), 8);
  EXPECT_EQ(progress.position(one), 5);
}

TEST(KafkaProgress, forgets_what_belongs_to_somebody_else) {
  Progress progress;
  progress.add(one, 5);
  progress.drop(one);
  EXPECT_FALSE(progress.knows(one));
  progress.settle(one, 5);
  EXPECT_EQ(progress.held(), 0);
  progress.add(one, 3);  // it has come back, from where the other one was
  EXPECT_EQ(progress.position(one), 3);
}

TEST(KafkaHearing, asks_after_any_error_though_nobody_says_that_all_brokers_are_down) {
  Hearing hearing;
  EXPECT_FALSE(hearing.in_doubt());
  hearing.error(nullptr, RD_KAFKA_RESP_ERR__TRANSPORT, "connection refused");
  EXPECT_TRUE(hearing.in_doubt());
  EXPECT_FALSE(hearing.silent()) << "another broker may answer";
  hearing.not_heard();
  EXPECT_TRUE(hearing.silent());
  EXPECT_EQ(hearing.last_error(), "connection refused");
  hearing.heard();
  EXPECT_FALSE(hearing.in_doubt());
  EXPECT_FALSE(hearing.silent());
}

TEST(KafkaHearing, knows_that_all_brokers_are_down_and_keeps_the_reason) {
  Hearing hearing;
  hearing.error(nullptr, RD_KAFKA_RESP_ERR__TRANSPORT, "connection refused");
  hearing.error(nullptr, RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN, "1/1 brokers are down");
  EXPECT_TRUE(hearing.silent());
  EXPECT_EQ(hearing.last_error(), "connection refused");
}

TEST(KafkaReport, that_nobody_could_be_reached_is_not_the_messages_fault) {
  EXPECT_EQ(fate_of(RD_KAFKA_RESP_ERR_NO_ERROR, true), Fate::written);
  for (const auto error : {RD_KAFKA_RESP_ERR__MSG_TIMED_OUT, RD_KAFKA_RESP_ERR__PURGE_QUEUE,
                           RD_KAFKA_RESP_ERR__FATAL, RD_KAFKA_RESP_ERR__TRANSPORT}) {
    EXPECT_EQ(fate_of(error, false), Fate::away) << rd_kafka_err2name(error);
    EXPECT_EQ(fate_of(error, true), Fate::failed) << rd_kafka_err2name(error);
  }
}

TEST(KafkaReport, tells_what_a_message_is_from_where_it_goes) {
  EXPECT_EQ(fate_of(RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, false), Fate::refused);
  EXPECT_EQ(fate_of(RD_KAFKA_RESP_ERR_INVALID_RECORD, false), Fate::refused);
  for (const auto error :
       {RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC,
        RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED}) {
    EXPECT_EQ(fate_of(error, false), Fate::failed) << rd_kafka_err2name(error);
  }
}

class KafkaTopic : public ::testing::Test {
 protected:
  const Finding* find(const std::string& check, Finding::Level level, bool consumed = true) {
    findings = findings_of(topic, consumed);
    for (const Finding& finding : findings) {
      if (finding.check == check && finding.level == level) return &finding;
    }
    return nullptr;
  }

  TopicSettings topic{.name = "orders",
                      .replicas = 3,
                      .min_insync = 2,
                      .unclean_election = false,
                      .retention = 168h,
                      .compacted = false};
  std::vector<Finding> findings;
};

TEST_F(KafkaTopic, that_is_safe_is_found_so) {
  EXPECT_NE(find("topic", Finding::Level::ok), nullptr);
  EXPECT_EQ(findings.size(), 1u);
  topic.retention = -1ms;  // for ever
  EXPECT_NE(find("topic", Finding::Level::ok), nullptr);
}

TEST_F(KafkaTopic, whose_confirmed_records_hang_on_one_broker_is_found) {
  topic.min_insync = 1;
  ASSERT_NE(find("replicas", Finding::Level::warning), nullptr);
  EXPECT_NE(findings[0].fix.find("min.insync.replicas=2"), std::string::npos);
  topic.replicas = 1;
  EXPECT_NE(find("replicas", Finding::Level::warning), nullptr);
  topic = {.name = "orders", .replicas = 2, .min_insync = 3};
  EXPECT_NE(find("replicas", Finding::Level::error), nullptr);
}

TEST_F(KafkaTopic, that_may_lose_records_by_its_settings_is_found) {
  topic.unclean_election = true;
  EXPECT_NE(find("election", Finding::Level::warning), nullptr);
  topic.compacted = true;
  EXPECT_NE(find("compaction", Finding::Level::warning), nullptr);
  topic.retention = 90min;
  ASSERT_NE(find("retention", Finding::Level::warning), nullptr);
  EXPECT_EQ(find("retention", Finding::Level::warning, false), nullptr);
}

TEST_F(KafkaTopic, whose_settings_nobody_knows_is_judged_by_its_replicas) {
  topic = {.name = "orders", .replicas = 3};
  EXPECT_NE(find("topic", Finding::Level::ok), nullptr);
}

}  // namespace
}  // namespace twinbox::kafka
