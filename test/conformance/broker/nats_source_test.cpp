// From NATS JetStream into an inbox.
#include "nats_test.hpp"
#include <twinbox/channel.hpp>
#include <twinbox/error.hpp>
#include <twinbox/event.hpp>

namespace twinbox::test {
namespace {

class NatsSource : public NatsTest {};

TEST_P(NatsSource, PHD_29_a_delivery_is_acknowledged_after_the_accept_has_committed) {
  make_all();
  send("a");
  std::uint64_t left_during_accept = 0;
  std::string state_when_acknowledged;
  {
    RunningNats source{connection(), source_options(), [&](std::span<const Arrival> arrivals) {
                         auto answers = inbox().accept(arrivals);
                         // Committed, and not acknowledged yet: a crash now would bring it again.
                         left_during_accept = left();
                         state_when_acknowledged = to_string(inbox().state(key("a")).value());
                         return answers;
                       }};
    ASSERT_TRUE(source.wait_for(1));
  }
  EXPECT_EQ(left_during_accept, 1u);
  EXPECT_EQ(state_when_acknowledged, "open");
  EXPECT_TRUE(acknowledged());
  EXPECT_EQ(detail(key("a")).message.topic.value().str(), "order.placed");
}

TEST_P(NatsSource, PHD_29_a_consumer_that_dies_before_the_commit_leaves_the_message_in_its_stream) {
  make_all();
  send("a");
  {
    Relay relay{port_of(Nats::url())};
    std::mutex mutex;
    std::condition_variable told;
    bool cut = false;
    RunningNats source{connection(relay), source_options(),
                       [&](std::span<const Arrival>) -> std::vector<Accepted> {
                         relay.refuse_connections();  // as if the process had ended here
                         const std::scoped_lock lock{mutex};
                         cut = true;
                         told.notify_all();
                         throw DatabaseError(DatabaseError::Kind::connection_lost, "gone");
                       }};
    std::unique_lock lock{mutex};
    ASSERT_TRUE(told.wait_for(lock, 90s, [&] { return cut; }));
  }
  EXPECT_EQ(left(), 1u);
  RunningNats second = run();
  ASSERT_TRUE(second.wait_for(1));
  second.stop();
  EXPECT_EQ(second.status().accepted, 1u);
  EXPECT_TRUE(acknowledged());
}

TEST_P(NatsSource, PHD_03_a_consumer_that_dies_after_the_commit_gets_it_again_and_adds_nothing) {
  make_all();
  send("a");
  {
    Relay relay{port_of(Nats::url())};
    RunningNats source{connection(relay), source_options(), [&](std::span<const Arrival> arrivals) {
                         auto answers = inbox().accept(arrivals);
                         relay.refuse_connections();
                         return answers;
                       }};
    ASSERT_TRUE(source.wait_for(1));
  }
  EXPECT_EQ(left(), 1u);
  RunningNats second = run();
  ASSERT_TRUE(second.wait_for(1));
  second.stop();
  EXPECT_EQ(second.status().accepted, 0u);
  EXPECT_EQ(second.status().duplicates, 1u);
  EXPECT_EQ(detail(key("a")).deliveries.size(), 1u);
  EXPECT_EQ(count_messages(), "1");
}

TEST_P(NatsSource, PHD_29_a_handler_that_fails_changes_nothing_about_the_acknowledgement) {
  make_all();
  send("a");
  RunningNats source = run();
  ASSERT_TRUE(source.wait_for(1));
  source.stop();
  const auto claimed = inbox().claim(worker_a, 30s, 1);
  ASSERT_EQ(claimed.size(), 1u);
  EXPECT_EQ(inbox().abandon(worker_a, claimed, "the handler failed"), 1u);
  EXPECT_TRUE(acknowledged());
  EXPECT_TRUE(dead_letters().empty());
}

TEST_P(NatsSource, what_was_not_accepted_comes_at_once_to_the_next_after_a_stop) {
  make_stream();
  NatsSourceOptions options = source_options();
  options.ack_wait = 1h;
  send("a");
  {
    std::atomic<bool> called = false;
    RunningNats source{connection(), options, away(called)};
    ASSERT_TRUE(eventually([&] { return called.load(); }));
  }
  RunningNats second = run(options);
  EXPECT_TRUE(second.wait_for(1));
}

TEST_P(NatsSource, PHD_31_the_stored_message_keeps_transport_body_headers_and_first_receipt) {
  make_all();
  const std::string body = payload(std::string{"binary \0\xff", 9});
  nats.publish(stream + ".order.placed", {.body = body,
                                          .headers = {{"Nats-Msg-Id", "a"},
                                                      {"Content-Type", "application/x-thing"},
                                                      {"twinbox-source", "shop"},
                                                      {"twinbox-correlation-id", "story"},
                                                      {"color", "blue"}}});
  RunningNats source = run();
  ASSERT_TRUE(source.wait_for(1));
  source.stop();
  const MessageDetail found = detail({Source{"shop"}, MessageId{"a"}});
  EXPECT_EQ(found.payload, body);
  EXPECT_EQ(found.message.content_type, "application/x-thing");
  EXPECT_EQ(found.message.correlation_id.value().str(), "story");
  EXPECT_EQ(found.message.topic.value().str(), stream + ".order.placed");
  EXPECT_EQ(found.message.created_at, clock().now());
  const std::string headers = found.headers.value();
  EXPECT_TRUE(has(headers, R"("transport":"nats")")) << headers;
  EXPECT_TRUE(has(headers, R"("color":"blue")")) << headers;
  EXPECT_TRUE(has(headers, R"("sequence":1)")) << headers;
}

TEST_P(NatsSource, PHD_02_PHD_22_a_channel_over_a_consumer_writes_one_delivery_per_handler) {
  make_all();
  Channels channels{{}, environment()};
  const auto nothing = [](const Message&) {};
  channels.add("orders")
      .over("nats")
      .uses(inbox())
      .on(Topic{"order.placed"}, HandlerKey{"stock"}, nothing)
      .on(Topic{"order.placed"}, HandlerKey{"mail"}, nothing);
  channels.check();
  send("a");
  std::size_t deliveries_before_ack = 0;
  RunningNats source{connection(), source_options(), [&](std::span<const Arrival> arrivals) {
                       auto answers = accept_into(channels, "orders")(arrivals);
                       deliveries_before_ack = detail(key("a")).deliveries.size();
                       return answers;
                     }};
  ASSERT_TRUE(source.wait_for(1));
  source.stop();
  EXPECT_EQ(deliveries_before_ack, 2u);
  EXPECT_TRUE(acknowledged());
}

TEST_P(NatsSource, EVB_30_takes_cloudevents_binary_and_structured_with_and_without_a_content_type) {
  make_all();
  CloudEvent event{.id = "e-1", .source = "/shop", .type = "order.placed.v1"};
  event.set_data(R"({"total": 7})");
  nats.publish(stream + ".x",
               {.body = to_json(event),
                .headers = {{"Content-Type", "application/cloudevents+json; charset=utf-8"}}});
  event.id = "e-2";
  nats.publish(stream + ".x", {.body = to_json(event)});
  for (const char* type : {"Content-Type", "ce-datacontenttype"}) {
    nats.publish(stream + ".x", {.body = R"({"total": 7})",
                                 .headers = {{type, "application/json"},
                                             {"ce-specversion", "1.0"},
                                             {"ce-id", std::string{"e-"} + type},
                                             {"ce-source", "/shop"},
                                             {"ce-type", "order.placed.v1"},
                                             {"ce-subject", "gr%C3%B6%C3%9Fe 1%25"},
                                             {"ce-partitionkey", "customer"}}});
  }
  RunningNats source = run();
  ASSERT_TRUE(source.wait_for(4));
  source.stop();
  EXPECT_EQ(event_from_json(detail({Source{"/shop"}, MessageId{"e-2"}}).payload), event);
  EXPECT_TRUE(inbox().state({Source{"/shop"}, MessageId{"e-1"}}).has_value());
  for (const char* id : {"e-Content-Type", "e-ce-datacontenttype"}) {
    const MessageDetail binary = detail({Source{"/shop"}, MessageId{id}});
    EXPECT_EQ(event_from_json(binary.payload).subject, "größe 1%");
    EXPECT_EQ(event_from_json(binary.payload).datacontenttype, "application/json");
    EXPECT_EQ(binary.message.partition_key.value().str(), "customer");
    EXPECT_EQ(binary.message.topic.value().str(), "order.placed.v1");
  }
}

TEST_P(NatsSource, keeps_the_order_inside_a_partition_key_while_the_first_is_repeated) {
  make_all();
  std::vector<std::string> order;
  int failures = 0;
  RunningNats source{connection(), source_options(), [&](std::span<const Arrival> arrivals) {
                       for (const Arrival& one : arrivals) {
                         if (one.id.view() == "first" && failures < 2) {
                           ++failures;
                           throw std::runtime_error("not yet");
                         }
                       }
                       for (const Arrival& one : arrivals) order.push_back(one.id.str());
                       return inbox().accept(arrivals);
                     }};
  for (const char* id : {"first", "second", "third"}) {
    send(id, "order.placed", {{"twinbox-partition-key", "customer"}});
  }
  ASSERT_TRUE(source.wait_for(3));
  source.stop();
  EXPECT_EQ(order, (std::vector<std::string>{"first", "second", "third"}));
}

TEST_P(NatsSource, keeps_the_order_inside_a_partition_key_when_a_consumer_dies) {
  make_all();
  const std::map<std::string, std::string> keyed = {{"twinbox-partition-key", "customer"}};
  send("first", "order.placed", keyed);
  {
    Relay relay{port_of(Nats::url())};
    std::atomic<bool> cut = false;
    RunningNats source{connection(relay), source_options(),
                       [&](std::span<const Arrival>) -> std::vector<Accepted> {
                         relay.refuse_connections();
                         cut = true;
                         throw DatabaseError(DatabaseError::Kind::connection_lost, "gone");
                       }};
    ASSERT_TRUE(eventually([&] { return cut.load(); }));
  }
  // The server gives out the second at once, the first only when ack_wait is over.
  send("second", "order.placed", keyed);
  send("free");
  std::vector<std::string> order;
  NatsSourceOptions options = source_options();
  options.prefetch = 2;  // not even room for what is overdue
  RunningNats second{connection(), options, [&](std::span<const Arrival> arrivals) {
                       for (const Arrival& one : arrivals) order.push_back(one.id.str());
                       return inbox().accept(arrivals);
                     }};
  ASSERT_TRUE(second.wait_for(3));
  second.stop();
  std::erase(order, "free");  // waits for nobody
  EXPECT_EQ(order, (std::vector<std::string>{"first", "second"}));
}

TEST_P(NatsSource, declares_its_stream_its_consumer_and_the_place_of_dead_letters) {
  NatsSourceOptions options = source_options();
  options.filter = stream + ".order.>";
  RunningNats source = run(options);
  ASSERT_TRUE(eventually([&] { return source.status().connected; })) << source.status().error;
  nats.publish(stream + ".order.placed", {.body = payload("a"), .headers = {{"Nats-Msg-Id", "a"}}});
  nats.publish(stream + ".invoice.sent", {.body = payload("b"), .headers = {{"Nats-Msg-Id", "b"}}});
  nats.publish("dead." + stream + ".box", {.body = payload("c")});
  ASSERT_TRUE(source.wait_for(1));
  source.stop();
  EXPECT_TRUE(inbox().state(key("a")).has_value());
  EXPECT_EQ(count_messages(), "1");
}

TEST_P(NatsSource, says_what_is_missing_and_begins_once_it_is_there) {
  NatsSourceOptions options = source_options();
  options.topology = Topology::check;
  RunningNats source = run(options);
  ASSERT_TRUE(eventually([&] { return has(source.status().error, "no stream '" + stream); }));
  EXPECT_TRUE(has(source.status().error, "topology = declare")) << source.status().error;
  make_stream();
  ASSERT_TRUE(eventually([&] { return has(source.status().error, "no consumer 'box'"); }));
  nats.consumer(stream, "box");
  ASSERT_TRUE(eventually([&] { return has(source.status().error, "dead letters"); }));
  nats.stream(stream + "_dead", {"dead." + stream + ".*"});
  ASSERT_TRUE(eventually([&] { return source.status().connected; }));
}

TEST_P(NatsSource, says_that_a_consumer_cannot_serve) {
  make_stream();
  nats.consumer(stream, "box", [&](jsConsumerConfig& config) { config.DeliverSubject = "push"; });
  RunningNats source = run();
  ASSERT_TRUE(eventually([&] { return has(source.status().error, "push consumer"); }))
      << source.status().error;
}

TEST_P(NatsSource, begins_again_after_its_connection_was_cut) {
  make_all();
  Relay relay{port_of(Nats::url())};
  RunningNats source{connection(relay), source_options(), accept_into(inbox()), environment()};
  send("a");
  ASSERT_TRUE(source.wait_for(1));
  relay.cut();
  send("b");
  // The first may come again: the cut may have been faster than its acknowledgement.
  ASSERT_TRUE(eventually([&] { return inbox().state(key("b")).has_value(); }));
  ASSERT_TRUE(eventually([&] { return left() == 0; }));
  source.stop();
  EXPECT_EQ(count_messages(), "2");
}

TEST_P(NatsSource, a_deleted_consumer_is_noticed) {
  make_all();
  NatsSourceOptions options = source_options();
  options.topology = Topology::check;
  RunningNats source = run(options);
  ASSERT_TRUE(eventually([&] { return source.status().connected; }));
  send("a");
  ASSERT_TRUE(source.wait_for(1));
  nats.remove_consumer(stream, "box");
  ASSERT_TRUE(eventually([&] { return !source.status().connected; }));
  ASSERT_TRUE(eventually([&] { return has(source.status().error, "no consumer 'box'"); }))
      << source.status().error;
}

TEST_P(NatsSource, takes_no_more_at_once_than_prefetch_allows) {
  make_all();
  NatsSourceOptions options = source_options();
  options.prefetch = 3;
  for (int i = 0; i < 20; ++i) send("m" + std::to_string(i));
  std::size_t most = 0;
  RunningNats source{connection(), options, [&](std::span<const Arrival> arrivals) {
                       most = std::max(most, arrivals.size());
                       return inbox().accept(arrivals);
                     }};
  ASSERT_TRUE(source.wait_for(20));
  source.stop();
  EXPECT_LE(most, 3u);
}

TEST_P(NatsSource, asks_for_no_more_at_once_than_its_consumer_allows) {
  make_stream();
  nats.consumer(stream, "box", [](jsConsumerConfig& config) {
    config.MaxRequestBatch = 2;
    config.MaxRequestExpires = std::chrono::nanoseconds{1s}.count();
  });
  for (int i = 0; i < 5; ++i) send("m" + std::to_string(i));
  RunningNats source = run();
  ASSERT_TRUE(source.wait_for(5)) << source.status().error;
  source.stop();
  EXPECT_EQ(count_messages(), "5");
}

TEST_P(NatsSource, two_that_share_a_consumer_share_its_messages) {
  make_all();
  {
    RunningNats one = run();
    RunningNats other = run();
    for (int i = 0; i < 100; ++i) send("m" + std::to_string(i));
    ASSERT_TRUE(eventually([&] { return one.status().accepted + other.status().accepted == 100; }));
  }
  EXPECT_EQ(count_messages(), "100");
}

TWINBOX_ON_EVERY_BACKEND(NatsSource);

TEST(NatsSourceOptions, are_refused_with_the_name_of_the_option) {
  const auto refusal = [](NatsConnection connection, NatsSourceOptions options) {
    try {
      nats_source(std::move(connection), std::move(options),
                  [](auto) { return std::vector<Accepted>{}; });
    } catch (const std::invalid_argument& error) {
      return std::string{error.what()};
    }
    return std::string{};
  };
  const NatsConnection good{.url = "nats://localhost"};
  const NatsStream stream{.name = "s"};
  EXPECT_TRUE(has(refusal(good, {.stream = {}, .consumer = "c"}), "stream"));
  EXPECT_TRUE(has(refusal(good, {.stream = stream, .consumer = "a.b"}), "consumer"));
  EXPECT_TRUE(has(refusal(good, {.stream = stream, .consumer = "c", .filter = "a.**"}), "filter"));
  EXPECT_TRUE(has(refusal(good, {.stream = stream, .consumer = "c", .prefetch = 0}), "prefetch"));
  EXPECT_TRUE(has(refusal(good, {.stream = stream, .consumer = "c", .ack_wait = 0s}), "ack_wait"));
  EXPECT_TRUE(has(refusal(good, {.stream = stream, .consumer = "c", .topology = Topology::declare}),
                  "subjects"));
  EXPECT_TRUE(
      has(refusal({.url = "amqp://localhost"}, {.stream = stream, .consumer = "c"}), "nats://"));
  EXPECT_EQ(refusal(good, {.stream = stream, .consumer = "c", .filter = "a.*.>"}), "");
}

}  // namespace
}  // namespace twinbox::test
