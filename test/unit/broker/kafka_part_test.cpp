// How far a group may commit, whether a cluster can be reached, what a delivery report means, and
// what is unsafe about a topic, without a cluster.
#include <gtest/gtest.h>

#include "transport/kafka/offset_tracker.hpp"
#include "transport/kafka/producer.hpp"
#include "transport/kafka/topic_findings.hpp"

namespace twinbox::kafka {
namespace {

using namespace std::chrono_literals;

const Partition one{"t", 0}, other{"t", 1};

TEST(KafkaOffsetTracker, never_goes_past_what_is_open) {
  OffsetTracker offsets;
  for (const std::int64_t offset : {5, 6, 9}) offsets.add(one, offset);
  EXPECT_EQ(offsets.position(one), 5);
  offsets.settle(one, 6);
  offsets.settle(one, 9);
  EXPECT_EQ(offsets.position(one), 5);
  EXPECT_EQ(offsets.widest_open_range(), 5);
  offsets.settle(one, 5);
  EXPECT_EQ(offsets.position(one), 10);
  EXPECT_EQ(offsets.widest_open_range(), 0);
}

TEST(KafkaOffsetTracker, of_one_partition_says_nothing_about_another) {
  OffsetTracker offsets;
  offsets.add(one, 5);
  offsets.add(other, 7);
  offsets.settle(other, 7);
  EXPECT_EQ(offsets.position(other), 8);
  EXPECT_EQ(offsets.position(one), 5);
}

TEST(KafkaOffsetTracker, forgets_what_belongs_to_somebody_else) {
  OffsetTracker offsets;
  offsets.add(one, 5);
  offsets.drop(one);
  EXPECT_FALSE(offsets.knows(one));
  offsets.settle(one, 5);
  EXPECT_EQ(offsets.widest_open_range(), 0);
  offsets.add(one, 3);  // it has come back, from where the other one was
  EXPECT_EQ(offsets.position(one), 3);
}

TEST(KafkaClusterHealth, asks_after_any_error_though_nobody_says_that_all_brokers_are_down) {
  ClusterHealth health;
  EXPECT_FALSE(health.needs_probe());
  health.error(nullptr, RD_KAFKA_RESP_ERR__TRANSPORT, "connection refused");
  EXPECT_TRUE(health.needs_probe());
  EXPECT_FALSE(health.unreachable()) << "another broker may answer";
  health.on_no_answer();
  EXPECT_TRUE(health.unreachable());
  EXPECT_EQ(health.last_error(), "connection refused");
  health.on_answer();
  EXPECT_FALSE(health.needs_probe());
  EXPECT_FALSE(health.unreachable());
}

TEST(KafkaClusterHealth, knows_that_all_brokers_are_down_and_keeps_the_reason) {
  ClusterHealth health;
  health.error(nullptr, RD_KAFKA_RESP_ERR__TRANSPORT, "connection refused");
  health.error(nullptr, RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN, "1/1 brokers are down");
  EXPECT_TRUE(health.unreachable());
  EXPECT_EQ(health.last_error(), "connection refused");
}

TEST(KafkaReport, that_nobody_could_be_reached_is_not_the_messages_fault) {
  EXPECT_EQ(report_result_of(RD_KAFKA_RESP_ERR_NO_ERROR, true), ReportResult::written);
  for (const auto error : {RD_KAFKA_RESP_ERR__MSG_TIMED_OUT, RD_KAFKA_RESP_ERR__PURGE_QUEUE,
                           RD_KAFKA_RESP_ERR__FATAL, RD_KAFKA_RESP_ERR__TRANSPORT}) {
    EXPECT_EQ(report_result_of(error, false), ReportResult::unreachable)
        << rd_kafka_err2name(error);
    EXPECT_EQ(report_result_of(error, true), ReportResult::failed) << rd_kafka_err2name(error);
  }
}

TEST(KafkaReport, tells_what_a_message_is_from_where_it_goes) {
  EXPECT_EQ(report_result_of(RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, false), ReportResult::refused);
  EXPECT_EQ(report_result_of(RD_KAFKA_RESP_ERR_INVALID_RECORD, false), ReportResult::refused);
  for (const auto error :
       {RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC,
        RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED}) {
    EXPECT_EQ(report_result_of(error, false), ReportResult::failed) << rd_kafka_err2name(error);
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
