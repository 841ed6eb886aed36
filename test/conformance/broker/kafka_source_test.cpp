// From Kafka into an inbox.
#include "kafka_test.hpp"
#include <twinbox/channel.hpp>
#include <twinbox/error.hpp>
#include <twinbox/event.hpp>

namespace twinbox::test {
namespace {

class KafkaSource : public KafkaTest {};

TEST_P(KafkaSource, PHD_29_an_offset_moves_on_after_the_accept_has_committed) {
  source_options();
  send("a");
  std::int64_t committed_during_accept = -2;
  std::string state_before;
  {
    RunningKafka source{connection(), source_options(), [&](std::span<const Arrival> arrivals) {
                          auto answers = inbox().accept(arrivals);
                          // In the store, and not committed yet: a crash now would bring it again.
                          committed_during_accept = committed();
                          state_before = to_string(inbox().state(key("a")).value());
                          return answers;
                        }};
    ASSERT_TRUE(source.wait_for(1));
  }
  EXPECT_EQ(committed_during_accept, -1);
  EXPECT_EQ(state_before, "open");
  EXPECT_EQ(committed(), 1);
  EXPECT_EQ(detail(key("a")).message.topic.value().str(), "order.placed");
}

TEST_P(KafkaSource, PHD_29_a_consumer_that_ends_before_the_commit_leaves_the_record_to_the_next) {
  source_options();
  send("a");
  {
    std::mutex mutex;
    std::condition_variable told;
    bool tried = false;
    RunningKafka source{connection(), source_options(),
                        [&](std::span<const Arrival>) -> std::vector<Accepted> {
                          const std::scoped_lock lock{mutex};
                          tried = true;
                          told.notify_all();
                          throw DatabaseError(DatabaseError::Kind::connection_lost, "gone");
                        }};
    std::unique_lock lock{mutex};
    ASSERT_TRUE(told.wait_for(lock, 90s, [&] { return tried; }));
  }
  EXPECT_EQ(committed(), -1);
  auto second = run();
  ASSERT_TRUE(second->wait_for(1));
  second->stop();
  EXPECT_EQ(second->status().accepted, 1u);
  EXPECT_EQ(committed(), 1);
}

TEST_P(KafkaSource, PHD_03_a_consumer_that_ends_after_the_commit_gets_it_again_and_adds_nothing) {
  source_options();
  send("a");
  // Its offset is never committed, as if the process had ended right after the accept.
  kafka.fail(Kafka::commit_request, RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED, 1000);
  {
    auto first = run();
    ASSERT_TRUE(first->wait_for(1));
  }
  kafka.heal(Kafka::commit_request);
  EXPECT_EQ(committed(), -1);
  EXPECT_FALSE(log().events("commit_failed").empty());
  auto second = run();
  ASSERT_TRUE(second->wait_for(1));
  second->stop();
  EXPECT_EQ(second->status().accepted, 0u);
  EXPECT_GE(second->status().duplicates, 1u);
  EXPECT_EQ(detail(key("a")).deliveries.size(), 1u);
  EXPECT_EQ(count_messages(), "1");
}

TEST_P(KafkaSource, PHD_29_a_handler_that_fails_changes_nothing_about_the_offset) {
  source_options();
  send("a");
  auto source = run();
  ASSERT_TRUE(source->wait_for(1));
  source->stop();
  const auto claimed = inbox().claim(worker_a, 30s, 1);
  ASSERT_EQ(claimed.size(), 1u);
  EXPECT_EQ(inbox().abandon(worker_a, claimed, "the handler failed"), 1u);
  EXPECT_EQ(committed(), 1);
  EXPECT_EQ(kafka.count(topic + ".dead"), 0u);
}

TEST_P(KafkaSource, PHD_30_an_accept_that_keeps_failing_is_repeated_and_then_a_dead_letter) {
  refuse_poison("insert");
  source_options();
  kafka.publish(topic, {.body = payload("bad"),
                        .key = "customer",
                        .headers = {{"twinbox-id", "bad"}, {"twinbox-topic", "poison"}}});
  send("good");
  auto source = run();
  ASSERT_TRUE(source->wait_for(1));
  ASSERT_TRUE(eventually([&] { return source->status().dead == 1; }));
  source->stop();
  EXPECT_EQ(source->status().retried, 2u);
  EXPECT_EQ(source->status().accepted, 1u);
  EXPECT_EQ(log().events("accept_failed").size(), 3u);
  EXPECT_EQ(committed(), 2);
  const KafkaRecord dead = kafka.read(topic + ".dead").at(0);
  EXPECT_EQ(dead.body, payload("bad"));
  EXPECT_EQ(dead.key, "customer");
  EXPECT_EQ(dead.headers.at("twinbox-id"), "bad");
  EXPECT_TRUE(has(dead.headers.at("twinbox-error"), "refused")) << dead.headers.at("twinbox-error");
  EXPECT_EQ(dead.headers.at("twinbox-origin"), topic + "/0/0");
}

TEST_P(KafkaSource, PHD_30_dead_letters_go_to_the_topic_that_was_named_for_them) {
  refuse_poison("insert");
  KafkaSourceOptions options = source_options();
  options.dead_letter_topic = kafka.topic(own_name("dead_letter_queue"));
  send("bad", "poison");
  RunningKafka source = run(options);
  ASSERT_TRUE(eventually([&] { return source.status().dead == 1; }));
  source.stop();
  EXPECT_EQ(kafka.read(options.dead_letter_topic).at(0).headers.at("twinbox-id"), "bad");
  EXPECT_EQ(kafka.count(topic + ".dead"), 0u);
  EXPECT_EQ(committed(), 1);
}

TEST_P(KafkaSource, PHD_30_no_offset_goes_past_a_dead_letter_that_nobody_takes) {
  refuse_poison("insert");
  KafkaSourceOptions options = source_options();
  options.dead_letter_topic = kafka.topic(own_name("dead_letter_queue"));
  kafka.hide(options.dead_letter_topic, RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
  send("first");
  send("bad", "poison");
  {
    RunningKafka source = run(options);
    ASSERT_TRUE(eventually([&] { return !log().events("dead_letter_failed").empty(); }));
    send("good");
    ASSERT_TRUE(source.wait_for(2));
    EXPECT_EQ(source.status().dead, 0u);
    EXPECT_TRUE(has(source.status().error, options.dead_letter_topic)) << source.status().error;
  }
  EXPECT_EQ(committed(), 1);
}

TEST_P(KafkaSource, PHD_30_a_store_that_is_away_is_waited_for_without_giving_anything_up) {
  source_options();
  send("a");
  RunningKafka source{connection(), source_options(), unavailable_at_first(accept_into(inbox()))};
  ASSERT_TRUE(source.wait_for(1));
  source.stop();
  EXPECT_EQ(source.status().dead, 0u);
  EXPECT_EQ(source.status().retried, 0u);
  EXPECT_EQ(source.status().accepted, 1u);
  EXPECT_EQ(kafka.count(topic + ".dead"), 0u);
}

TEST_P(KafkaSource, PHD_30_a_damaged_event_is_a_dead_letter_at_once_and_the_others_go_on) {
  source_options();
  kafka.publish(topic, {.body = payload("x"), .headers = {{"ce_id", "1"}}});
  send("a");
  auto source = run();
  ASSERT_TRUE(source->wait_for(1));
  ASSERT_TRUE(eventually([&] { return source->status().dead == 1; }));
  source->stop();
  EXPECT_EQ(kafka.count(topic + ".dead"), 1u);
  EXPECT_EQ(committed(), 2);
}

TEST_P(KafkaSource, PHD_30_a_compressed_body_is_a_dead_letter_at_once) {
  source_options();
  kafka.publish(topic, {.body = "\x1f\x8b", .headers = {{"content-encoding", "gzip"}}});
  auto source = run();
  ASSERT_TRUE(eventually([&] { return source->status().dead == 1; }));
  source->stop();
  EXPECT_EQ(source->status().retried, 0u);
  const KafkaRecord dead = kafka.read(topic + ".dead").at(0);
  EXPECT_EQ(dead.body, "\x1f\x8b");
  EXPECT_EQ(dead.headers.at("content-encoding"), "gzip");
  EXPECT_TRUE(has(dead.headers.at("twinbox-error"), "content encoding 'gzip'"))
      << dead.headers.at("twinbox-error");
}

TEST_P(KafkaSource, PHD_31_the_stored_message_keeps_transport_body_properties_and_first_receipt) {
  source_options();
  const std::string body = payload(std::string{"binary \0\xff", 9});
  kafka.publish(topic, {.body = body,
                        .key = "customer",
                        .headers = {{"content-type", "application/x-thing"},
                                    {"twinbox-source", "shop"},
                                    {"twinbox-id", "a"},
                                    {"twinbox-correlation-id", "story"},
                                    {"color", "blue"}}});
  auto source = run();
  ASSERT_TRUE(source->wait_for(1));
  source->stop();
  const MessageDetail found = detail({Source{"shop"}, MessageId{"a"}});
  EXPECT_EQ(found.payload, body);
  EXPECT_EQ(found.message.content_type, "application/x-thing");
  EXPECT_EQ(found.message.correlation_id.value().str(), "story");
  EXPECT_EQ(found.message.partition_key.value().str(), "customer");
  EXPECT_EQ(found.message.topic.value().str(), topic);
  EXPECT_EQ(found.message.created_at, clock().now());
  const std::string headers = found.headers.value();
  EXPECT_TRUE(has(headers, R"("transport":"kafka")")) << headers;
  EXPECT_TRUE(has(headers, R"("partition":0,"offset":0)")) << headers;
  EXPECT_TRUE(has(headers, R"("color":"blue")")) << headers;
}

TEST_P(KafkaSource, PHD_03_a_record_without_an_id_is_known_by_its_place) {
  source_options();
  kafka.publish(topic, {.body = payload("anonymous"), .key = std::string{"\xff\x00\x01", 3}});
  kafka.publish(topic, {.body = payload("anonymous")});
  auto source = run();
  ASSERT_TRUE(source->wait_for(2));
  source->stop();
  EXPECT_EQ(count_messages(), "2");
  EXPECT_TRUE(
      detail(key(topic + "/0/0")).message.partition_key.value().str().starts_with("sha256:"));
  EXPECT_FALSE(detail(key(topic + "/0/1")).message.partition_key);
  EXPECT_EQ(kafka.count(topic + ".dead"), 0u);
}

TEST_P(KafkaSource,
       PHD_02_PHD_22_a_channel_that_is_bound_to_a_topic_writes_one_delivery_per_handler) {
  source_options();
  Channels channels{{}, environment()};
  const auto nothing = [](const Message&) {};
  channels.add("orders")
      .over("kafka")
      .uses(inbox())
      .on(Topic{"order.placed"}, HandlerKey{"stock"}, nothing)
      .on(Topic{"order.placed"}, HandlerKey{"mail"}, nothing);
  channels.check();
  send("a");
  std::size_t deliveries_before_commit = 0;
  RunningKafka source{connection(), source_options(), [&](std::span<const Arrival> arrivals) {
                        auto answers = accept_into(channels, "orders")(arrivals);
                        deliveries_before_commit = detail(key("a")).deliveries.size();
                        return answers;
                      }};
  ASSERT_TRUE(source.wait_for(1));
  source.stop();
  EXPECT_EQ(deliveries_before_commit, 2u);
  EXPECT_EQ(committed(), 1);
}

TEST_P(KafkaSource, EVB_30_takes_cloudevents_binary_and_structured) {
  source_options();
  CloudEvent event{.id = "e-1", .source = "/shop", .type = "order.placed.v1"};
  event.set_data(R"({"total": 7})");
  kafka.publish(topic, {.body = to_json(event),
                        .headers = {{"content-type", "application/cloudevents+json"}}});
  kafka.publish(topic, {.body = R"({"total": 7})",
                        .key = "customer",
                        .headers = {{"content-type", "application/json"},
                                    {"ce_specversion", "1.0"},
                                    {"ce_id", "e-2"},
                                    {"ce_source", "/shop"},
                                    {"ce_type", "order.placed.v1"},
                                    {"ce_subject", "größe 1%"}}});
  auto source = run();
  ASSERT_TRUE(source->wait_for(2));
  source->stop();
  EXPECT_EQ(event_from_json(detail({Source{"/shop"}, MessageId{"e-1"}}).payload), event);
  const MessageDetail binary = detail({Source{"/shop"}, MessageId{"e-2"}});
  EXPECT_EQ(event_from_json(binary.payload).subject, "größe 1%");
  EXPECT_EQ(binary.message.partition_key.value().str(), "customer");
  EXPECT_EQ(binary.message.topic.value().str(), "order.placed.v1");
}

TEST_P(KafkaSource, keeps_the_order_inside_a_partition_key_while_the_first_is_repeated) {
  source_options();
  std::vector<std::string> order;
  int failures = 0;
  for (const char* id : {"first", "second", "third"}) {
    kafka.publish(topic, {.body = payload(id), .key = "customer", .headers = {{"twinbox-id", id}}});
  }
  RunningKafka source{connection(), source_options(), [&](std::span<const Arrival> arrivals) {
                        for (const Arrival& one : arrivals) {
                          if (one.id.view() == "first" && failures < 2) {
                            ++failures;
                            throw std::runtime_error("not yet");
                          }
                        }
                        for (const Arrival& one : arrivals) order.push_back(one.id.str());
                        return inbox().accept(arrivals);
                      }};
  ASSERT_TRUE(source.wait_for(3));
  source.stop();
  EXPECT_EQ(order, (std::vector<std::string>{"first", "second", "third"}));
  EXPECT_EQ(committed(), 3);
}

TEST_P(KafkaSource, pauses_while_too_much_waits_and_goes_on_afterwards) {
  KafkaSourceOptions options = source_options();
  options.prefetch = 3;
  for (int i = 0; i < 20; ++i) send("m" + std::to_string(i));
  std::atomic<int> calls = 0;
  std::size_t most = 0;
  RunningKafka source{connection(), options, [&](std::span<const Arrival> arrivals) {
                        most = std::max(most, arrivals.size());
                        if (++calls < 5) {
                          throw DatabaseError(DatabaseError::Kind::connection_lost, "away");
                        }
                        return inbox().accept(arrivals);
                      }};
  ASSERT_TRUE(source.wait_for(20));
  source.stop();
  EXPECT_LE(most, 3u);
  EXPECT_EQ(count_messages(), "20");
  EXPECT_EQ(committed(), 20);
}

TEST_P(KafkaSource, goes_on_after_the_cluster_was_away) {
  source_options();
  send("a");
  auto source = run();
  ASSERT_TRUE(source->wait_for(1));
  kafka.down();
  ASSERT_TRUE(eventually([&] { return !source->status().connected; }));
  EXPECT_FALSE(source->status().error.empty());
  EXPECT_FALSE(log().events("broker_lost").empty());
  kafka.up();
  send("b");
  ASSERT_TRUE(eventually([&] { return inbox().state(key("b")).has_value(); }));
  ASSERT_TRUE(eventually([&] { return source->status().connected; }));
  EXPECT_EQ(count_messages(), "2");
}

TEST_P(KafkaSource, whose_offset_is_gone_from_the_topic_says_where_it_goes_on) {
  const KafkaSourceOptions options = source_options();
  send("a");
  kafka.commit(group, topic, 100);  // as after a retention that was too short, or a new topic
  RunningKafka source = run(options);
  ASSERT_TRUE(source.wait_for(1));
  source.stop();
  const auto told = log().events("offset_reset");
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told[0].field("source"), group);
  EXPECT_TRUE(has(told[0].field("reason"), topic)) << told[0].field("reason");
}

TEST_P(KafkaSource, ends_in_time_while_the_cluster_is_away) {
  source_options();
  kafka.down();
  auto source = run();
  ASSERT_TRUE(eventually([&] { return !source->status().error.empty(); }));
  source->stop();
  EXPECT_FALSE(source->status().connected);
}

TEST_P(KafkaSource, ends_with_records_fetched_and_not_taken_and_leaves_them_to_the_next) {
  KafkaSourceOptions options = source_options();
  options.prefetch = 1;
  constexpr int count = 200;
  for (int i = 0; i < count; ++i) send("m" + std::to_string(i));
  RunningKafka source = run(options);
  ASSERT_TRUE(source.wait_for(1));
  source.stop();
  EXPECT_EQ(std::to_string(committed()), count_messages());
}

TWINBOX_ON_EVERY_BACKEND(KafkaSource);

/// One member joins another, and stays when that one leaves.
class KafkaGroup : public KafkaTest {
 protected:
  void share(const std::string& strategy) {
    const KafkaSourceOptions options{.topics = {kafka.topic(own_name("wide"), 4)}, .group = group};
    KafkaConnection to = connection();
    to.settings["partition.assignment.strategy"] = strategy;
    constexpr int count = 400;
    const auto send_some = [&](int from, int end) {
      for (int i = from; i < end; ++i) {
        kafka.publish(options.topics[0], {.body = payload(),
                                          .headers = {{"twinbox-id", "m" + std::to_string(i)}},
                                          .partition = i % 4});
      }
    };
    auto first = std::make_unique<RunningKafka>(to, options, accept_into(inbox()));
    send_some(0, count / 2);
    ASSERT_TRUE(first->wait_for(1));
    {
      RunningKafka second{to, options, accept_into(inbox())};
      ASSERT_TRUE(eventually([&] { return second.status().connected; }));
      send_some(count / 2, count);
      first.reset();
      ASSERT_TRUE(eventually([&] { return count_messages() == std::to_string(count); }))
          << count_messages();
    }
    EXPECT_EQ(count_messages(), std::to_string(count));
  }
};

TEST_P(KafkaGroup, PHD_29_a_rebalance_loses_nothing_and_what_comes_twice_adds_nothing) {
  share("range");
}

TEST_P(KafkaGroup, PHD_29_a_rebalance_in_steps_loses_nothing) { share("cooperative-sticky"); }

TWINBOX_ON_EVERY_BACKEND(KafkaGroup);

class KafkaPause : public KafkaTest {};

TEST_P(KafkaPause, PHD_29_partitions_that_were_paused_when_they_went_come_again) {
  const KafkaSourceOptions options{.topics = {kafka.topic(own_name("wide"), 2)},
                                   .group = group,
                                   .prefetch = 3,
                                   .retry = {.delay = 1ms, .max_delay = 10ms}};
  constexpr int count = 40;
  for (int i = 0; i < count; ++i) {
    kafka.publish(options.topics[0], {.body = payload(),
                                      .headers = {{"twinbox-id", "m" + std::to_string(i)}},
                                      .partition = i % 2});
  }
  std::atomic<bool> away = true;
  std::atomic<int> tries = 0;
  const auto accept = [&, &box = inbox()](std::span<const Arrival> arrivals) {
    ++tries;
    if (away) throw DatabaseError(DatabaseError::Kind::connection_lost, "away");
    return box.accept(arrivals);
  };
  RunningKafka first{connection(), options, accept};
  ASSERT_TRUE(eventually([&] { return tries > 10; }));  // it holds what it may by now
  {
    RunningKafka second{connection(), options, accept};
    ASSERT_TRUE(eventually([&] { return second.status().connected; }));
  }
  away = false;
  ASSERT_TRUE(eventually([&] { return count_messages() == std::to_string(count); }))
      << count_messages();
}

TWINBOX_ON_BACKENDS(KafkaPause, Backend::sqlite_file);

TEST(KafkaSourceOptions, are_refused_with_the_name_of_the_option) {
  const auto refusal = [](KafkaConnection connection, KafkaSourceOptions options) {
    try {
      kafka_source(std::move(connection), std::move(options),
                   [](auto) { return std::vector<Accepted>{}; });
    } catch (const std::invalid_argument& error) {
      return std::string{error.what()};
    }
    return std::string{};
  };
  const KafkaConnection good{.brokers = "localhost:9092"};
  EXPECT_TRUE(has(refusal(good, {.topics = {}, .group = "g"}), "topics"));
  EXPECT_TRUE(has(refusal(good, {.topics = {"t"}, .group = ""}), "group"));
  EXPECT_TRUE(has(refusal(good, {.topics = {"a b"}, .group = "g"}), "'a b'"));
  EXPECT_TRUE(has(refusal(good, {.topics = {"t"}, .group = "g", .prefetch = 0}), "prefetch"));
  EXPECT_TRUE(has(refusal(good, {.topics = {"t"}, .group = "g", .dead_letter_topic = "t"}),
                  "dead_letter_topic"));
  EXPECT_TRUE(has(refusal({.brokers = "x:1", .settings = {{"enable.auto.offset.store", "true"}}},
                          {.topics = {"t"}, .group = "g"}),
                  "enable.auto.offset.store"));
  EXPECT_EQ(refusal(good, {.topics = {"t"}, .group = "g"}), "");
}

}  // namespace
}  // namespace twinbox::test
