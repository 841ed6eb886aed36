// Events as messages, and messages that are no envelopes as events.
#include <random>

#include <gtest/gtest.h>

#include <twinbox/event_bus.hpp>

namespace twinbox {
namespace {

Message a_message(std::string payload, std::optional<std::string> content_type = {}) {
  return {.delivery_id = DeliveryId{1},
          .epoch = 1,
          .handler = HandlerKey::by_topic(),
          .attempts = 0,
          .expiries = 0,
          .requeues = 0,
          .visible_at = {},
          .lease_until = {},
          .last_error = {},
          .source = Source{"/shop"},
          .id = MessageId{"evt-1"},
          .topic = Topic{"order.placed"},
          .payload = std::move(payload),
          .content_type = std::move(content_type),
          .headers = {},
          .correlation_id = {},
          .partition_key = {},
          .hash = {},
          .due_at = {},
          .expires_at = {},
          .created_at = Timestamp::parse("2030-01-15T00:00:00Z")->instant(),
          .last_seen_at = {},
          .seen_count = 1,
          .content_version = 1};
}

TEST(EventOfMessage, wraps_what_is_no_envelope) {
  Message message = a_message("[1]", "application/json");
  message.partition_key = PartitionKey{"k"};
  message.correlation_id = CorrelationId{"story"};
  message.headers = R"({"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"})";
  const CloudEvent event = event_of(message);
  EXPECT_EQ(event.id, "evt-1");
  EXPECT_EQ(event.source, "/shop");
  EXPECT_EQ(event.type, "order.placed");
  EXPECT_EQ(event.time->str(), "2030-01-15T00:00:00Z");
  EXPECT_EQ(event.data_kind, DataKind::json);
  EXPECT_EQ(event.extension("partitionkey"), "k");
  EXPECT_EQ(event.extension("correlationid"), "story");
  EXPECT_EQ(event.extension("traceparent"),
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
  EXPECT_EQ(event_from_json(to_json(event)), event);
}

TEST(EventOfMessage, what_is_not_as_it_was_announced_is_bytes) {
  EXPECT_EQ(event_of(a_message("{", "application/json")).data_kind, DataKind::binary);
  EXPECT_EQ(event_of(a_message("\xFF", "text/plain")).data_kind, DataKind::binary);
  EXPECT_EQ(event_of(a_message("x")).data_kind, DataKind::binary);
  EXPECT_EQ(event_of(a_message("")).data_kind, DataKind::none);
  EXPECT_FALSE(event_of(a_message("x", "text/plain\r\nX: y")).datacontenttype);
}

TEST(EventOfMessage, names_that_no_attribute_can_hold_are_encoded) {
  Message message = a_message("x");
  message.source = Source{"Müller & Söhne"};
  message.topic = Topic{"a\nb"};
  message.id = MessageId{"id\x7f"};
  const CloudEvent event = event_of(message);
  EXPECT_EQ(event.source, "M%C3%BCller%20&%20S%C3%B6hne");
  EXPECT_EQ(event.type, "a%0Ab");
  EXPECT_EQ(event.id, "id%7F");
  EXPECT_NO_THROW(event.check());
  message.source = Source::none();
  EXPECT_EQ(event_of(message).source, "-");
}

TEST(EventOfMessage, a_damaged_envelope_is_refused) {
  EXPECT_THROW(event_of(a_message("{", std::string{event_content_type})), EventError);
  EXPECT_FALSE(trace_of(a_message("{", std::string{event_content_type})));
}

TEST(MessageOfEvent, keeps_properties_and_trace_in_the_headers) {
  CloudEvent event{.id = "1", .source = "/s", .type = "t"};
  EXPECT_FALSE(to_message(event).extras.headers);
  EXPECT_EQ(to_message(event, R"({"a":1})").extras.headers, R"({"a":1})");
  event.extensions = {{"traceparent", "p"}, {"tracestate", "s"}};
  EXPECT_EQ(to_message(event).extras.headers, R"({"traceparent":"p","tracestate":"s"})");
  EXPECT_EQ(to_message(event, " { } ").extras.headers, R"({"traceparent":"p","tracestate":"s" } )");
  EXPECT_EQ(to_arrival(event, R"({"a":1})").extras.headers,
            R"({"traceparent":"p","tracestate":"s","a":1})");
  EXPECT_EQ(to_message(event, R"({"traceparent":"mine"})").extras.headers,
            R"({"traceparent":"mine"})");
}

TEST(EventName, is_a_type_with_its_version) {
  EXPECT_EQ((EventName{"order.placed", 2}.type()), "order.placed.v2");
  EXPECT_EQ(EventName::of("order.placed.v2"), (EventName{"order.placed", 2}));
  EXPECT_EQ(EventName::of("a.v1.v2"), (EventName{"a.v1", 2}));
  for (const char* type : {"", "order", "order.v", "order.v0", "order.v01", "order.v-1",
                           "order.v1x", ".v1", "order.v1234567890"}) {
    EXPECT_FALSE(EventName::of(type)) << type;
  }
}

/// Random events, always the same ones.
class Chance {
 public:
  std::size_t below(std::size_t bound) { return engine_() % bound; }
  bool coin() { return below(2) == 0; }
  std::string text(std::size_t longest) {
    static const std::string pieces[] = {"a",  "Z", "0", " x", "%", "\"",
                                         "\\", "é", "€", "😀",  "/", "=y"};
    std::string out = "t";
    for (std::size_t i = below(longest); i > 0; --i) out += pieces[below(std::size(pieces))];
    return out;
  }
  std::string bytes() {
    std::string out = "b";
    for (std::size_t i = below(40); i > 0; --i) out += static_cast<char>(below(256));
    return out;
  }

 private:
  std::mt19937 engine_{20'301'115};
};

CloudEvent random_event(Chance& chance) {
  CloudEvent event{.id = chance.text(20),
                   .source = "/s%20" + std::to_string(chance.below(99)),
                   .type = chance.text(20)};
  if (chance.coin()) event.subject = chance.text(30);
  if (chance.coin())
    event.time = Timestamp{Instant{std::chrono::microseconds{chance.below(1'000'000'000)}}};
  if (chance.coin()) event.dataschema = "urn:x:" + std::to_string(chance.below(99));
  if (chance.coin()) event.extensions.emplace("text", chance.text(30));
  if (chance.coin()) event.extensions.emplace("flag", chance.coin());
  if (chance.coin()) event.extensions.emplace("count", static_cast<std::int32_t>(chance.below(99)));
  switch (chance.below(4)) {
    case 0: break;
    case 1: event.set_data(R"({"a":[1.50,"é"]})", "application/json"); break;
    case 2: event.set_data(chance.text(50), "text/plain; charset=utf-8"); break;
    default: event.set_data(chance.bytes(), "application/octet-stream");
  }
  return event;
}

TEST(EventRoundTrip, binary_mode_keeps_the_bytes_of_json_data_when_they_are_stored) {
  const HttpHeaders headers{{"ce-specversion", "1.0"},
                            {"ce-id", "1"},
                            {"ce-source", "/s"},
                            {"ce-type", "t"},
                            {"Content-Type", "application/json"}};
  for (const std::string body :
       {"{ \"a\" : 1.50 }", "\r\n\t {\"a\":1}\n", " null ", "[1]\n", " \"x\"", "0 "}) {
    const Arrival stored = to_arrival(events_from_http(headers, body).at(0));
    const CloudEvent event = event_of(a_message(stored.payload, stored.extras.content_type));
    EXPECT_EQ(to_http(event).body, body);
    EXPECT_EQ(EventFormat::json().read(stored.payload).data, body);
  }
  // Structured mode carries the value alone.
  const std::string structured =
      "{\"specversion\":\"1.0\",\"id\":\"1\",\"source\":\"/s\",\"type\":\"t\",\"data\": 1 }";
  EXPECT_EQ(event_from_json(structured).data, "1");
}

TEST(EventRoundTrip, every_form_says_the_same) {
  Chance chance;
  std::vector<CloudEvent> batch;
  for (int i = 0; i < 2'000; ++i) {
    const CloudEvent event = random_event(chance);
    ASSERT_EQ(event_from_json(to_json(event)), event);
    const HttpContent structured = to_http(event, ContentMode::structured);
    ASSERT_EQ(events_from_http(structured.headers, structured.body).at(0), event);
    const NewMessage stored = to_message(event);
    ASSERT_EQ(event_of(a_message(stored.payload, stored.extras.content_type)), event);
    CloudEvent untyped = event;  // a header has no types
    for (auto& [name, value] : untyped.extensions) value = *event.extension(name);
    const HttpContent binary = to_http(event, ContentMode::binary);
    ASSERT_EQ(events_from_http(binary.headers, binary.body).at(0), untyped);
    batch.push_back(event);
  }
  const HttpContent all = to_http(std::span{batch});
  EXPECT_EQ(events_from_http(all.headers, all.body), batch);
}

}  // namespace
}  // namespace twinbox
