// From RabbitMQ into an inbox.
#include <limits>

#include "rabbit_test.hpp"
#include <twinbox/channel.hpp>
#include <twinbox/error.hpp>
#include <twinbox/event.hpp>

namespace twinbox::test {
namespace {

class RabbitSource : public RabbitTest {};

TEST_P(RabbitSource, PHD_29_a_delivery_is_acknowledged_after_the_accept_has_committed) {
  RabbitSourceOptions options = source_options();
  options.prefetch = 1;
  send("a");
  send("b");
  ASSERT_TRUE(eventually([&] { return rabbit.count(queue) == 2; }));
  std::optional<std::uint32_t> ready_during_accept;
  std::string state_when_acknowledged;
  {
    RunningRabbit source{connection(), options, [&](std::span<const Arrival> arrivals) {
                           auto answers = inbox().accept(arrivals);
                           // Committed, and not acknowledged yet: the next would have come.
                           if (!ready_during_accept) {
                             ready_during_accept = rabbit.count(queue);
                             state_when_acknowledged = to_string(inbox().state(key("a")).value());
                           }
                           return answers;
                         }};
    ASSERT_TRUE(source.wait_for(2));
  }
  EXPECT_EQ(ready_during_accept, 1u);
  EXPECT_EQ(state_when_acknowledged, "open");
  EXPECT_EQ(rabbit.count(queue), 0u);
  EXPECT_EQ(detail(key("a")).message.topic.value().str(), "order.placed");
}

TEST_P(RabbitSource,
       PHD_29_a_consumer_that_dies_before_the_commit_leaves_the_message_in_its_queue) {
  source_options();
  send("a");
  {
    Relay relay{port_of(Rabbit::url())};
    std::mutex mutex;
    std::condition_variable told;
    bool cut = false;
    RunningRabbit source{{.url = with_port(Rabbit::url(), relay.port())},
                         source_options(),
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
  ASSERT_TRUE(eventually([&] { return rabbit.count(queue) == 1; }));
  auto second = run();
  ASSERT_TRUE(second->wait_for(1));
  second->stop();
  EXPECT_EQ(second->status().accepted, 1u);
  EXPECT_EQ(rabbit.count(queue), 0u);
}

TEST_P(RabbitSource, PHD_03_a_consumer_that_dies_after_the_commit_gets_it_again_and_adds_nothing) {
  source_options();
  send("a");
  {
    Relay relay{port_of(Rabbit::url())};
    RunningRabbit source{{.url = with_port(Rabbit::url(), relay.port())},
                         source_options(),
                         [&](std::span<const Arrival> arrivals) {
                           auto answers = inbox().accept(arrivals);
                           relay.refuse_connections();
                           return answers;
                         }};
    ASSERT_TRUE(source.wait_for(1));
  }
  ASSERT_TRUE(eventually([&] { return rabbit.count(queue) == 1; }));
  auto second = run();
  ASSERT_TRUE(second->wait_for(1));
  second->stop();
  EXPECT_EQ(second->status().accepted, 0u);
  EXPECT_EQ(second->status().duplicates, 1u);
  EXPECT_EQ(detail(key("a")).deliveries.size(), 1u);
  EXPECT_EQ(count_messages(), "1");
}

TEST_P(RabbitSource, other_content_under_a_known_id_leaves_the_first) {
  source_options();
  const auto publish = [&](const std::string& body, const std::string& topic) {
    rabbit.publish("", queue, {.body = body, .message_id = "a", .type = topic});
  };
  publish("first", "order.placed");
  publish("second", "order.changed");
  auto source = run();
  ASSERT_TRUE(source->wait_for(2));
  source->stop();
  EXPECT_EQ(source->status().accepted, 1u);
  EXPECT_EQ(source->status().duplicates, 1u);
  EXPECT_EQ(source->status().dead, 0u);
  EXPECT_EQ(rabbit.count(queue), 0u);
  EXPECT_EQ(detail(key("a")).payload, "first");
  EXPECT_EQ(detail(key("a")).message.topic.value().str(), "order.placed");
  EXPECT_EQ(log().events("conflict").size(), 1u);
}

TEST_P(RabbitSource, PHD_29_a_handler_that_fails_changes_nothing_about_the_acknowledgement) {
  source_options();
  send("a");
  auto source = run();
  ASSERT_TRUE(source->wait_for(1));
  source->stop();
  const auto claimed = inbox().claim(worker_a, 30s, 1);
  ASSERT_EQ(claimed.size(), 1u);
  EXPECT_EQ(inbox().abandon(worker_a, claimed, "the handler failed"), 1u);
  EXPECT_EQ(rabbit.count(queue), 0u);
  EXPECT_EQ(rabbit.count(queue + ".dead"), 0u);
}

TEST_P(RabbitSource, PHD_30_a_store_that_is_away_is_waited_for_without_giving_anything_up) {
  source_options();
  send("a");
  RunningRabbit source{connection(), source_options(), unavailable_at_first(accept_into(inbox()))};
  ASSERT_TRUE(source.wait_for(1));
  source.stop();
  EXPECT_EQ(source.status().dead, 0u);
  EXPECT_EQ(source.status().retried, 0u);
  EXPECT_EQ(source.status().accepted, 1u);
  EXPECT_EQ(rabbit.count(queue + ".dead"), 0u);
}

TEST_P(RabbitSource, tells_no_more_of_an_error_that_is_over) {
  source_options();
  send("a");
  std::atomic<bool> away = true;
  RunningRabbit source{connection(), source_options(), [&](std::span<const Arrival> arrivals) {
                         if (away)
                           throw DatabaseError(DatabaseError::Kind::connection_lost, "away");
                         return inbox().accept(arrivals);
                       }};
  ASSERT_TRUE(eventually([&] { return has(source.status().error, "away"); }));
  away = false;
  ASSERT_TRUE(source.wait_for(1));
  EXPECT_TRUE(eventually([&] { return source.status().error.empty(); })) << source.status().error;
}

TEST_P(RabbitSource, PHD_31_the_stored_message_keeps_transport_body_properties_and_first_receipt) {
  source_options();
  const std::string body = payload(std::string{"binary \0\xff", 9});
  rabbit.publish("", queue,
                 {.body = body,
                  .content_type = "application/x-thing",
                  .message_id = "a",
                  .type = "order.placed",
                  .app_id = "shop",
                  .correlation_id = "story",
                  .headers = {{"color", "blue"}, {"size", "7"}}});
  auto source = run();
  ASSERT_TRUE(source->wait_for(1));
  source->stop();
  const MessageDetail found = detail({Source{"shop"}, MessageId{"a"}});
  EXPECT_EQ(found.payload, body);
  EXPECT_EQ(found.message.content_type, "application/x-thing");
  EXPECT_EQ(found.message.correlation_id.value().str(), "story");
  EXPECT_EQ(found.message.created_at, clock().now());
  const std::string headers = found.headers.value();
  EXPECT_TRUE(has(headers, R"("transport":"rabbitmq")")) << headers;
  EXPECT_TRUE(has(headers, R"("color":"blue")")) << headers;
  EXPECT_TRUE(has(headers, R"("size":7)")) << headers;
  EXPECT_TRUE(has(headers, R"("app_id":"shop")")) << headers;
}

amqp_table_entry_t field(const char* name, std::uint8_t kind) {
  amqp_table_entry_t entry{};
  entry.key = amqp_cstring_bytes(name);
  entry.value.kind = kind;
  return entry;
}

TEST_P(RabbitSource, PHD_31_the_stored_message_keeps_numbers_of_every_kind_and_how_it_was_sent) {
  source_options();
  auto ratio = field("ratio", AMQP_FIELD_KIND_F64);
  ratio.value.value.f64 = 0.1;
  auto half = field("half", AMQP_FIELD_KIND_F32);
  half.value.value.f32 = -0.5F;
  auto price = field("price", AMQP_FIELD_KIND_DECIMAL);
  price.value.value.decimal = {2, 1999};
  auto cent = field("cent", AMQP_FIELD_KIND_DECIMAL);
  cent.value.value.decimal = {2, 1};
  rabbit.publish("", queue,
                 {.body = payload(),
                  .message_id = "a",
                  .type = "order.placed",
                  .expiration = "600000",
                  .delivery_mode = 2,
                  .priority = 7,
                  .fields = {ratio, half, price, cent}});
  auto source = run();
  ASSERT_TRUE(source->wait_for(1));
  source->stop();
  const std::string headers = detail(key("a")).headers.value();
  for (const char* part : {R"("ratio":0.1)", R"("half":-0.5)", R"("price":19.99)", R"("cent":0.01)",
                           R"("expiration":"600000")", R"("delivery_mode":2)", R"("priority":7)"}) {
    EXPECT_TRUE(has(headers, part)) << part << " in " << headers;
  }
}

TEST_P(RabbitSource,
       PHD_02_PHD_22_a_channel_that_is_bound_to_a_queue_writes_one_delivery_per_handler) {
  source_options();
  Channels channels{{}, environment()};
  const auto nothing = [](const Message&) {};
  channels.add("orders")
      .over("rabbitmq")
      .uses(inbox())
      .on(Topic{"order.placed"}, HandlerKey{"stock"}, nothing)
      .on(Topic{"order.placed"}, HandlerKey{"mail"}, nothing);
  channels.check();
  send("a");
  std::size_t deliveries_before_ack = 0;
  RunningRabbit source{connection(), source_options(), [&](std::span<const Arrival> arrivals) {
                         auto answers = accept_into(channels, "orders")(arrivals);
                         deliveries_before_ack = detail(key("a")).deliveries.size();
                         return answers;
                       }};
  ASSERT_TRUE(source.wait_for(1));
  source.stop();
  EXPECT_EQ(deliveries_before_ack, 2u);
  EXPECT_EQ(rabbit.count(queue), 0u);
}

TEST_P(RabbitSource, EVB_30_takes_cloudevents_binary_and_structured) {
  source_options();
  CloudEvent event{.id = "e-1", .source = "/shop", .type = "order.placed.v1"};
  event.set_data(R"({"total": 7})");
  rabbit.publish(
      "", queue,
      {.body = to_json(event), .content_type = "application/cloudevents+json; charset=utf-8"});
  for (const char* prefix : {"cloudEvents:", "cloudEvents_", "ce-"}) {
    const std::string p = prefix;
    rabbit.publish("", queue,
                   {.body = R"({"total": 7})",
                    .content_type = "application/json",
                    .headers = {{p + "specversion", "1.0"},
                                {p + "id", "e-" + p},
                                {p + "source", "/shop"},
                                {p + "type", "order.placed.v1"},
                                {p + "subject", "größe 1%"},
                                {p + "partitionkey", "customer"}}});
  }
  auto source = run();
  ASSERT_TRUE(source->wait_for(4));
  source->stop();
  EXPECT_EQ(event_from_json(detail({Source{"/shop"}, MessageId{"e-1"}}).payload), event);
  const MessageDetail binary = detail({Source{"/shop"}, MessageId{"e-cloudEvents_"}});
  EXPECT_EQ(event_from_json(binary.payload).subject, "größe 1%");
  EXPECT_EQ(binary.message.partition_key.value().str(), "customer");
  EXPECT_EQ(binary.message.topic.value().str(), "order.placed.v1");
  EXPECT_TRUE(inbox().state({Source{"/shop"}, MessageId{"e-cloudEvents:"}}).has_value());
  EXPECT_TRUE(inbox().state({Source{"/shop"}, MessageId{"e-ce-"}}).has_value());
}

TEST_P(RabbitSource, attributes_of_an_event_may_have_native_types) {
  source_options();
  auto time = field("cloudEvents:time", AMQP_FIELD_KIND_TIMESTAMP);
  time.value.value.u64 = 1'795'000'000;
  auto late = field("cloudEvents:late", AMQP_FIELD_KIND_TIMESTAMP);
  late.value.value.u64 = std::numeric_limits<std::uint64_t>::max();
  auto small = field("cloudEvents:small", AMQP_FIELD_KIND_I8);
  small.value.value.i8 = -7;
  auto large = field("cloudEvents:large", AMQP_FIELD_KIND_I32);
  large.value.value.i32 = std::numeric_limits<std::int32_t>::min();
  auto count = field("cloudEvents:count", AMQP_FIELD_KIND_U16);
  count.value.value.u16 = 65'535;
  auto yes = field("cloudEvents:yes", AMQP_FIELD_KIND_BOOLEAN);
  yes.value.value.boolean = 1;
  auto no = field("cloudEvents:no", AMQP_FIELD_KIND_BOOLEAN);
  no.value.value.boolean = 0;
  const auto nothing = field("cloudEvents:nothing", AMQP_FIELD_KIND_VOID);
  rabbit.publish("", queue,
                 {.body = "{}",
                  .content_type = "application/json",
                  .headers = {{"cloudEvents:specversion", "1.0"},
                              {"cloudEvents:id", "e-1"},
                              {"cloudEvents:source", "/shop"},
                              {"cloudEvents:type", "order.placed"}},
                  .fields = {time, late, small, large, count, yes, no, nothing}});
  auto source = run();
  ASSERT_TRUE(source->wait_for(1));
  source->stop();
  const MessageDetail found = detail({Source{"/shop"}, MessageId{"e-1"}});
  const CloudEvent event = event_from_json(found.payload);
  ASSERT_TRUE(event.time.has_value());
  EXPECT_EQ(event.time->str(), "2026-11-18T11:06:40Z");
  EXPECT_EQ(event.extension("late"), "18446744073709551615");
  EXPECT_EQ(event.extension("small"), "-7");
  EXPECT_EQ(event.extension("large"), "-2147483648");
  EXPECT_EQ(event.extension("count"), "65535");
  EXPECT_EQ(event.extension("yes"), "true");
  EXPECT_EQ(event.extension("no"), "false");
  EXPECT_FALSE(event.extension("nothing").has_value());
  // How it came stays as it came.
  EXPECT_TRUE(has(found.headers.value(), R"("cloudEvents:time":1795000000)"));
}

TEST_P(RabbitSource, keeps_the_order_inside_a_partition_key_while_the_first_is_repeated) {
  source_options();
  std::vector<std::string> order;
  int failures = 0;
  RunningRabbit source{connection(), source_options(), [&](std::span<const Arrival> arrivals) {
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
    rabbit.publish("", queue,
                   {.body = payload(id),
                    .message_id = id,
                    .type = "order.placed",
                    .headers = {{"twinbox-partition-key", "customer"}}});
  }
  ASSERT_TRUE(source.wait_for(3));
  source.stop();
  EXPECT_EQ(order, (std::vector<std::string>{"first", "second", "third"}));
}

TEST_P(RabbitSource, declares_its_queue_its_bindings_and_the_place_of_dead_letters) {
  const std::string name = own_name("declared"), from = own_name("events");
  rabbit.forget_queue(name);
  rabbit.forget_queue(name + ".dead");
  rabbit.forget_exchange(from);
  rabbit.forget_exchange(name + ".dlx");
  RunningRabbit source = run({.queue = name,
                              .bindings = {{.exchange = from, .routing_key = "order.#"}},
                              .topology = Topology::declare,
                              .dead_letter_exchange = name + ".dlx"});
  ASSERT_TRUE(eventually([&] { return source.status().connected; })) << source.status().error;
  rabbit.publish(from, "order.placed.today", {.body = payload("a"), .message_id = "a"});
  rabbit.publish(from, "invoice.sent", {.body = payload("b"), .message_id = "b"});
  rabbit.publish(name + ".dlx", "anything", {.body = payload("c")});
  ASSERT_TRUE(source.wait_for(1));
  source.stop();
  EXPECT_EQ(detail(key("a")).message.topic.value().str(), "order.placed.today");
  EXPECT_TRUE(eventually([&] { return rabbit.count(name + ".dead") == 1; }));
  EXPECT_EQ(count_messages(), "1");
}

TEST_P(RabbitSource, says_what_is_missing_and_begins_once_it_is_there) {
  const std::string name = own_name("late");
  RunningRabbit source = run({.queue = name, .queue_type = "classic"});
  ASSERT_TRUE(eventually([&] { return has(source.status().error, name); }));
  EXPECT_TRUE(has(source.status().error, "topology = declare")) << source.status().error;
  rabbit.queue(name);
  rabbit.queue(name + ".dead");
  ASSERT_TRUE(eventually([&] { return source.status().connected; }));
}

TEST_P(RabbitSource, begins_again_after_its_connection_was_cut) {
  source_options();
  Relay relay{port_of(Rabbit::url())};
  RunningRabbit source{{.url = with_port(Rabbit::url(), relay.port())},
                       source_options(),
                       accept_into(inbox()),
                       environment()};
  send("a");
  ASSERT_TRUE(source.wait_for(1));
  relay.cut();
  send("b");
  // The first may come again: the cut may have been faster than its acknowledgement.
  ASSERT_TRUE(eventually([&] { return inbox().state(key("b")).has_value(); }));
  source.stop();
  EXPECT_TRUE(eventually([&] { return rabbit.count(queue) == 0; }));
  EXPECT_EQ(count_messages(), "2");
}

TEST_P(RabbitSource, heartbeats_tell_that_a_silent_connection_is_lost) {
  source_options();
  Relay relay{port_of(Rabbit::url())};
  RunningRabbit source{{.url = with_port(Rabbit::url(), relay.port()),
                        .connect_timeout = 1s,
                        .heartbeat = 1s,
                        .max_reconnect_delay = 100ms},
                       source_options(),
                       accept_into(inbox()),
                       environment()};
  ASSERT_TRUE(eventually([&] { return source.status().connected; }));
  relay.freeze();
  ASSERT_TRUE(eventually([&] { return !source.status().connected; }));
  EXPECT_TRUE(has(log().events("broker_lost").at(0).field("error"), "eartbeat"))
      << log().events("broker_lost").at(0).field("error");
  relay.thaw();
  send("a");
  EXPECT_TRUE(source.wait_for(1));
}

TEST_P(RabbitSource, a_deleted_queue_is_noticed) {
  source_options();
  auto source = run();
  ASSERT_TRUE(eventually([&] { return source->status().connected; }));
  rabbit.remove_queue(queue);
  ASSERT_TRUE(eventually([&] { return has(source->status().error, queue); }));
}

TEST_P(RabbitSource, takes_no_more_at_once_than_prefetch_allows) {
  RabbitSourceOptions options = source_options();
  options.prefetch = 3;
  for (int i = 0; i < 20; ++i) send("m" + std::to_string(i));
  std::size_t most = 0;
  RunningRabbit source{connection(), options, [&](std::span<const Arrival> arrivals) {
                         most = std::max(most, arrivals.size());
                         return inbox().accept(arrivals);
                       }};
  ASSERT_TRUE(source.wait_for(20));
  source.stop();
  EXPECT_LE(most, 3u);
}

TWINBOX_ON_EVERY_BACKEND(RabbitSource);

TEST(RabbitSourceOptions, are_refused_with_the_name_of_the_option) {
  const auto refusal = [](RabbitConnection connection, RabbitSourceOptions options) {
    try {
      rabbitmq_source(std::move(connection), std::move(options),
                      [](auto) { return std::vector<Accepted>{}; });
    } catch (const std::invalid_argument& error) {
      return std::string{error.what()};
    }
    return std::string{};
  };
  const RabbitConnection good{.url = "amqp://localhost"};
  EXPECT_TRUE(has(refusal(good, {.queue = ""}), "queue"));
  EXPECT_TRUE(has(refusal(good, {.queue = "q", .queue_type = "stack"}), "queue_type"));
  EXPECT_TRUE(has(refusal(good, {.queue = "q", .prefetch = 0}), "prefetch"));
  EXPECT_TRUE(
      has(refusal(good, {.queue = "q", .bindings = {{"events"}}, .dead_letter_exchange = "events"}),
          "would come back"));
  EXPECT_TRUE(has(refusal({.url = "http://localhost"}, {.queue = "q"}), "amqp://"));
  EXPECT_TRUE(has(refusal({.url = "amqp://localhost", .ca_file = "x"}, {.queue = "q"}), "amqps"));
  EXPECT_EQ(refusal(good, {.queue = "q"}), "");
}

}  // namespace
}  // namespace twinbox::test
