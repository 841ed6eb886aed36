// From the outbox to NATS JetStream.
#include <set>

#include "nats_test.hpp"
#include <twinbox/dispatcher.hpp>
#include <twinbox/event.hpp>
#include <twinbox/event_bus.hpp>
#include <twinbox/sink.hpp>

namespace twinbox::test {
namespace {

using Kind = Outcome::Kind;

class NatsSink : public NatsTest {
 protected:
  std::shared_ptr<NatsPublisher> publisher(NatsSinkOptions options = {},
                                           const NatsConnection& to = connection()) {
    if (options.subject.empty()) options.subject_prefix = stream + ".";
    return std::make_shared<NatsPublisher>(to, std::move(options), environment());
  }
  void enqueue(const std::string& id, const std::string& topic = "order.placed",
               MessageExtras extras = {}) {
    outbox().enqueue({.topic = Topic{topic},
                      .payload = payload(id),
                      .id = MessageId{id},
                      .extras = std::move(extras)});
  }
  std::vector<Message> claim() { return outbox().claim(worker_a, 30s, 100); }
  std::vector<std::string> ids() {
    std::vector<std::string> found;
    for (const NatsMessage& one : nats.read(stream)) found.push_back(one.headers.at("Nats-Msg-Id"));
    return found;
  }
  /// Hands out what is due, on this thread.
  std::size_t drain(const std::shared_ptr<NatsPublisher>& to) {
    const Routes routes{{{.name = "nats", .pattern = TopicPattern{"#"}, .sink = nats_sink(to)}}};
    return Dispatcher{outbox(), routes.handlers(), {.workers = 1}}.drain();
  }
  DeliveryView delivery_of(const std::string& id) {
    return Admin{outbox()}.get(MessageKey{Source::none(), MessageId{id}}).value().deliveries.at(0);
  }
  /// Until nothing is left in the outbox.
  bool drained(const std::shared_ptr<NatsPublisher>& to) {
    return eventually([&] {
      drain(to);
      clock().advance(1min);
      return read("select count(*) from {schema}outbox_work") == "0";
    });
  }
};

TEST_P(NatsSink, a_message_travels_with_its_attributes) {
  make_stream();
  MessageExtras extras;
  extras.correlation_id = CorrelationId{"story"};
  extras.partition_key = PartitionKey{"customer"};
  extras.content_type = "application/x-order";
  extras.headers = R"({"color":"blue"})";
  enqueue("a", "order.placed", extras);
  EXPECT_EQ(publisher()->publish(claim()).at(0).kind(), Kind::done);
  const NatsMessage found = nats.read(stream).at(0);
  EXPECT_EQ(found.body, payload("a"));
  EXPECT_EQ(found.subject, stream + ".order.placed");
  EXPECT_EQ(found.headers.at("Nats-Msg-Id"), "a");
  EXPECT_EQ(found.headers.at("Content-Type"), "application/x-order");
  EXPECT_EQ(found.headers.at("twinbox-topic"), "order.placed");
  EXPECT_EQ(found.headers.at("twinbox-source"), "-");
  EXPECT_EQ(found.headers.at("twinbox-correlation-id"), "story");
  EXPECT_EQ(found.headers.at("twinbox-partition-key"), "customer");
  EXPECT_EQ(found.headers.at("twinbox-headers"), "{%22color%22:%22blue%22}");
  EXPECT_FALSE(found.headers.contains("twinbox-id"));  // Nats-Msg-Id says it
}

TEST_P(NatsSink, unusual_ids_and_topics_arrive_whole) {
  std::string id = "a b%\"";
  for (int i = 0; i < 100; ++i) id += "ä";
  outbox().enqueue({.topic = Topic{"größe.eins"},
                    .payload = std::string{"\0\xff", 2},
                    .id = MessageId{id},
                    .source = Source{"shop ä"}});
  make_stream();
  EXPECT_EQ(publisher()->publish(claim()).at(0).kind(), Kind::done);
  RunningNats source = run();
  ASSERT_TRUE(source.wait_for(1));
  source.stop();
  const MessageDetail found = detail({Source{"shop ä"}, MessageId{id}});
  EXPECT_EQ(found.message.topic.value().str(), "größe.eins");
  EXPECT_EQ(found.payload, (std::string{"\0\xff", 2}));
}

TEST_P(NatsSink, EVB_30_an_event_travels_binary_or_structured) {
  make_stream();
  CloudEvent event{.id = "e-1", .source = "/shop", .type = "order.placed.v1"};
  event.subject = "größe 1%";
  event.set_data(R"({"total": 7})");
  outbox().enqueue(to_message(event));
  const auto claimed = claim();
  EXPECT_EQ(publisher()->publish(claimed).at(0).kind(), Kind::done);
  const NatsMessage binary = nats.read(stream).at(0);
  EXPECT_EQ(binary.body, R"({"total": 7})");
  EXPECT_EQ(binary.headers.at("Content-Type"), "application/json");
  EXPECT_EQ(binary.headers.at("ce-datacontenttype"), "application/json");
  EXPECT_EQ(binary.headers.at("ce-id"), "e-1");
  EXPECT_EQ(binary.headers.at("ce-specversion"), "1.0");
  EXPECT_EQ(binary.headers.at("ce-subject"), "gr%C3%B6%C3%9Fe%201%25");
  nats.remove_stream(stream);
  make_stream();
  EXPECT_EQ(publisher({.form = BodyFormat::structured})->publish(claimed).at(0).kind(), Kind::done);
  const NatsMessage structured = nats.read(stream).at(0);
  EXPECT_EQ(event_from_json(structured.body), event);
  EXPECT_TRUE(has(structured.headers.at("Content-Type"), "application/cloudevents+json"));
}

TEST_P(NatsSink, what_no_stream_takes_is_a_failed_attempt_and_the_others_go) {
  nats.stream(stream, {stream + ".order.>"});
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

TEST_P(NatsSink, what_a_full_stream_refuses_is_a_failed_attempt) {
  make_stream([](jsStreamConfig& config) {
    config.MaxMsgs = 2;
    config.Discard = js_DiscardNew;
  });
  for (int i = 0; i < 10; ++i) enqueue("m" + std::to_string(i));
  const auto outcomes = publisher()->publish(claim());
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    EXPECT_EQ(outcomes[i].kind(), i < 2 ? Kind::done : Kind::retry);
    if (i >= 2) {
      EXPECT_TRUE(has(outcomes[i].reason(), "maximum messages")) << outcomes[i].reason();
    }
  }
  EXPECT_EQ(nats.count(stream), 2u);
}

TEST_P(NatsSink, what_the_server_or_the_stream_finds_too_large_is_dead_and_the_others_go) {
  make_stream([](jsStreamConfig& config) { config.MaxMsgSize = 100'000; });
  enqueue("a");
  for (const auto& [id, size] : {std::pair{"server", 2'000'000}, std::pair{"stream", 200'000}}) {
    outbox().enqueue({.topic = Topic{"order.placed"},
                      .payload = std::string(static_cast<std::size_t>(size), 'x'),
                      .id = MessageId{id}});
  }
  enqueue("b");
  const auto claimed = claim();
  ASSERT_EQ(claimed.size(), 4u);
  const auto to = publisher();
  const auto outcomes = to->publish(claimed);
  for (std::size_t i = 0; i < claimed.size(); ++i) {
    const bool large = claimed[i].payload.size() > 100'000;
    EXPECT_EQ(outcomes[i].kind(), large ? Kind::dead : Kind::done) << outcomes[i].reason();
    if (claimed[i].id.view() == "server") {
      EXPECT_TRUE(has(outcomes[i].reason(), "max_payload")) << outcomes[i].reason();
    }
    if (claimed[i].id.view() == "stream") {
      EXPECT_TRUE(has(outcomes[i].reason(), "10054")) << outcomes[i].reason();
    }
  }
  EXPECT_EQ(ids(), (std::vector<std::string>{"a", "b"}));
  enqueue("c");
  EXPECT_EQ(to->publish(claim()).at(0).kind(), Kind::done);
}

TEST_P(NatsSink, what_cannot_be_sent_is_malformed_without_asking_the_server) {
  make_stream();
  enqueue("a", "two words");
  EXPECT_EQ(publisher()->publish(claim()).at(0).cause(), "malformed");
  enqueue("b");
  EXPECT_EQ(publisher({.max_bytes = 3})->publish(claim()).at(0).cause(), "malformed");
  EXPECT_EQ(nats.count(stream), 0u);
}

TEST_P(NatsSink, EVB_27_a_key_waits_in_the_outbox_while_the_server_is_away_and_keeps_its_order) {
  make_stream();
  Relay relay{port_of(Nats::url())};
  const auto to = publisher({}, connection(relay));
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
  ASSERT_TRUE(drained(to));
  EXPECT_EQ(ids(), sent);
}

TEST_P(NatsSink, EVB_28_a_connection_cut_in_mid_publish_sends_again_and_the_stream_has_each_once) {
  make_stream();
  Relay relay{port_of(Nats::url())};
  const auto to = publisher({}, connection(relay));
  enqueue("first");
  drain(to);
  std::set<std::string> all = {"first"};
  for (int i = 0; i < 50; ++i) {
    all.insert("m" + std::to_string(i));
    enqueue("m" + std::to_string(i));
  }
  const int before = relay.connections();
  relay.cut_after(4'999);  // in the middle of a message
  ASSERT_TRUE(drained(to));
  EXPECT_GT(relay.connections(), before);
  const std::vector<std::string> found = ids();
  EXPECT_EQ(std::set<std::string>(found.begin(), found.end()), all);
  EXPECT_EQ(found.size(), all.size());
  for (const std::string& id : all) EXPECT_EQ(delivery_of(id).state, DeliveryState::done);
}

TEST_P(NatsSink, EVB_28_a_crash_after_sending_sends_again_under_the_same_id) {
  make_stream();
  enqueue("m");
  const auto to = publisher();
  EXPECT_EQ(to->publish(claim()).at(0).kind(), Kind::done);
  clock().advance(31s);  // the worker is gone before it could say so
  EXPECT_EQ(drain(to), 1u);
  EXPECT_EQ(delivery_of("m").state, DeliveryState::done);
  EXPECT_EQ(nats.count(stream), 1u);  // the stream knows it
}

TEST_P(NatsSink, EVB_28_an_inbox_drops_what_a_stream_no_longer_remembers) {
  make_stream([](jsStreamConfig& config) { config.Duplicates = 100'000'000; });  // 0.1 s
  enqueue("m");
  const auto to = publisher();
  const auto claimed = claim();
  EXPECT_EQ(to->publish(claimed).at(0).kind(), Kind::done);
  ASSERT_TRUE(eventually([&] {
    EXPECT_EQ(to->publish(claimed).at(0).kind(), Kind::done);
    return nats.count(stream) == 2;
  }));
  RunningNats source = run();
  ASSERT_TRUE(source.wait_for(2));
  source.stop();
  EXPECT_EQ(source.status().accepted, 1u);
  EXPECT_EQ(source.status().duplicates, 1u);
}

TEST_P(NatsSink, the_same_id_of_two_sources_is_two_messages) {
  make_stream();
  for (const char* from : {"shop", "bank"}) {
    outbox().enqueue({.topic = Topic{"order.placed"},
                      .payload = payload(),
                      .id = MessageId{"1"},
                      .source = Source{from}});
  }
  for (const Outcome& one : publisher()->publish(claim())) EXPECT_EQ(one.kind(), Kind::done);
  EXPECT_EQ(nats.count(stream), 2u);
}

/// A stream must not take it for a repetition of what it brought.
TEST_P(NatsSink, what_came_from_a_stream_can_go_on_to_another_subject_of_it) {
  make_stream();
  enqueue("a");
  CloudEvent event{.id = "e", .source = "/shop", .type = "order.placed"};
  outbox().enqueue(to_message(event));
  drain(publisher());
  RunningNats source = run();
  ASSERT_TRUE(source.wait_for(2));
  source.stop();
  const auto claimed = inbox().claim(worker_a, 30s, 100);
  ASSERT_EQ(claimed.size(), 2u);
  const auto onwards = publisher({.subject = stream + ".onwards"});
  for (int time = 1; time <= 2; ++time) {  // the second time it is one
    for (const Outcome& one : onwards->publish(claimed)) EXPECT_EQ(one.kind(), Kind::done);
    EXPECT_EQ(nats.count(stream), 4u);
  }
}

TEST_P(NatsSink, what_two_handlers_send_to_two_subjects_is_two_messages) {
  make_stream();
  const Arrival arrival{Source::none(), MessageId{"a"}, Topic{"order.placed"}, payload()};
  const HandlerName handlers[] = {{HandlerKey{"first"}}, {HandlerKey{"second"}}};
  inbox().accept(arrival, handlers);
  for (const Message& one : inbox().claim(worker_a, 30s, 100)) {
    const auto to = publisher({.subject = stream + "." + one.handler.str()});
    EXPECT_EQ(to->publish({&one, 1}).at(0).kind(), Kind::done);
  }
  EXPECT_EQ(nats.count(stream), 2u);
}

TEST_P(NatsSink, EVB_02_an_event_goes_through_the_outbox_or_at_once) {
  nats.stream(stream, {stream + ".order.>"});
  const auto to = publisher();
  EventBus bus{outbox(),
               {.source = "/shop", .transport = [&](const CloudEvent& event) { to->send(event); }}};
  CloudEvent event{.id = "direct", .source = {}, .type = "order.placed"};
  event.set_data("{}");
  bus.publish(event, {.use_outbox = false});
  EXPECT_EQ(read("select count(*) from {schema}outbox_work"), "0");
  EXPECT_EQ(nats.read(stream).at(0).headers.at("ce-id"), "direct");
  event.id = "stored";
  EXPECT_THROW(bus.in_transaction([&](UnitOfWork& work) {
    work.publish(event);
    throw std::runtime_error("rolled back");
  }),
               std::runtime_error);
  drain(to);
  EXPECT_EQ(nats.count(stream), 1u);
  bus.in_transaction([&](UnitOfWork& work) { work.publish(event); });
  EXPECT_EQ(nats.count(stream), 1u);  // not before the commit, and only by a dispatcher
  drain(to);
  EXPECT_EQ(nats.read(stream).at(1).headers.at("ce-id"), "stored");
  event.source = "/shop";
  event.type = "nobody.wants";
  EXPECT_THROW(to->send(event), BrokerError);
}

TEST_P(NatsSink, declares_its_stream_when_it_is_told_to) {
  enqueue("a");
  const auto claimed = claim();
  EXPECT_EQ(publisher({.stream = {.name = stream}})->publish(claimed).at(0).kind(), Kind::postpone);
  const auto lost = log().events("broker_lost");
  ASSERT_FALSE(lost.empty());
  EXPECT_TRUE(has(lost.back().field("error"), "topology = declare")) << lost.back().field("error");
  const NatsSinkOptions declared{.stream = own(), .topology = Topology::declare};
  EXPECT_EQ(publisher(declared)->publish(claimed).at(0).kind(), Kind::done);
  enqueue("b");
  EXPECT_EQ(publisher(declared)->publish(claim()).at(0).kind(), Kind::done);  // and is there
  EXPECT_EQ(nats.count(stream), 2u);
}

TEST_P(NatsSink, a_stream_other_than_the_one_that_was_named_is_a_failed_attempt) {
  make_stream();
  const std::string other = nats.stream(own_stream("other"), {own_stream("elsewhere")});
  enqueue("a");
  const Outcome outcome = publisher({.stream = {.name = other}})->publish(claim()).at(0);
  EXPECT_EQ(outcome.kind(), Kind::retry);
  EXPECT_TRUE(has(outcome.reason(), "stream")) << outcome.reason();
  EXPECT_EQ(nats.count(stream), 0u);
}

TEST_P(NatsSink, a_stop_request_ends_the_wait_at_once) {
  make_stream();
  Relay relay{port_of(Nats::url())};
  const auto to = publisher({.timeout = 1h}, connection(relay));
  enqueue("first");
  drain(to);
  relay.freeze();
  enqueue("a");
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(to->publish(claim(), stop.get_token()).at(0).kind(), Kind::retry);
}

TEST_P(NatsSink, what_is_not_acknowledged_in_time_is_a_failed_attempt_on_a_connection_left_behind) {
  make_stream();
  Relay relay{port_of(Nats::url())};
  const auto to = publisher({.timeout = 200ms}, connection(relay));
  enqueue("first");
  drain(to);
  relay.freeze();
  enqueue("a");
  const auto claimed = claim();
  const Outcome outcome = to->publish(claimed).at(0);
  EXPECT_EQ(outcome.kind(), Kind::retry);
  EXPECT_TRUE(has(outcome.reason(), "not acknowledged in time")) << outcome.reason();
  relay.thaw();
  EXPECT_TRUE(eventually([&] { return to->publish(claimed).at(0).kind() == Kind::done; }));
}

TEST_P(NatsSink, many_callers_share_one_connection) {
  make_stream();
  Relay relay{port_of(Nats::url())};
  const auto to = publisher({}, connection(relay));
  enqueue("first");
  drain(to);
  const int before = relay.connections();
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
  EXPECT_EQ(relay.connections(), before);
  EXPECT_EQ(ids().size(), 81u);
}

TEST_P(NatsSink, warns_once_of_a_server_that_acknowledges_before_the_disk_has_it) {
  make_stream();
  const auto to = publisher();
  enqueue("a");
  drain(to);
  const auto told = log().events("broker_unsynced");
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(has(told[0].field("reason"), "once a minute")) << told[0].field("reason");
}

TWINBOX_ON_EVERY_BACKEND(NatsSink);

TEST(NatsSinkOptions, are_refused_with_the_name_of_the_option) {
  const auto refusal = [](NatsConnection connection, NatsSinkOptions options) {
    try {
      const NatsPublisher made{std::move(connection), std::move(options)};
    } catch (const std::invalid_argument& error) {
      return std::string{error.what()};
    }
    return std::string{};
  };
  const NatsConnection good{.url = "nats://localhost"};
  EXPECT_TRUE(has(refusal({.url = "http://localhost"}, {}), "nats://"));
  EXPECT_TRUE(has(refusal({.url = "nats://a,tls://b"}, {}), "url"));
  EXPECT_TRUE(has(refusal({.url = "nats://a:port"}, {}), "url"));
  EXPECT_TRUE(has(refusal({.url = "nats://a", .ca_file = "x"}, {}), "tls://"));
  EXPECT_TRUE(has(refusal(good, {.stream = {.name = "a.b"}}), "stream 'a.b'"));
  EXPECT_TRUE(has(refusal(good, {.subject = "a..b"}), "subject 'a..b'"));
  EXPECT_TRUE(has(refusal(good, {.subject_prefix = "a b"}), "subject_prefix"));
  EXPECT_TRUE(has(refusal(good, {.topology = Topology::declare}), "needs stream"));
  EXPECT_TRUE(has(refusal(good, {.timeout = 0s}), "timeout"));
  EXPECT_EQ(refusal({.url = "nats://u:p@a:1,nats://[::1]:2"}, {}), "");
}

}  // namespace
}  // namespace twinbox::test
