// What travels over a broker, without one.
#include "transport/wire_message.hpp"

#include <array>

#include <gtest/gtest.h>

#include "unit/transport/a_message.hpp"
#include <twinbox/event.hpp>

namespace twinbox::test {
namespace {

constexpr std::array<std::string_view, 1> prefixes = {"ce-"};
constexpr EventHeaderFormat plain{.written = "ce-", .read = prefixes, .percent = false};
constexpr EventHeaderFormat percent{.written = "ce-", .read = prefixes, .percent = true};

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

/// As a broker would bring it to the other side.
Arrival carried(const Message& message, BodyFormat form, const EventHeaderFormat& wire_headers) {
  WireMessage wire_message = to_wire_message(message, form, wire_headers);
  return arrival_of({.transport = "nats",
                     .properties = R"({"subject":"x"})",
                     .body = std::move(wire_message.body),
                     .content_type = std::move(wire_message.content_type),
                     .wire_headers = std::move(wire_message.wire_headers)},
                    wire_headers);
}

class WireMessageIn : public ::testing::TestWithParam<EventHeaderFormat> {};

TEST_P(WireMessageIn, its_way_a_message_keeps_what_it_is) {
  Message message = claimed("order.placed", std::string{"a\0b\xff", 4}, "größe\n1% \"x\"");
  message.content_type = "text/x-order";
  message.correlation_id = CorrelationId{"story"};
  message.partition_key = PartitionKey{"customer 7"};
  message.expires_at = message.created_at + std::chrono::hours{1};
  message.headers = R"({"transport":"http","http":{"secret":1},"color":{"name":"blue"},)"
                    R"("traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"})";
  const Arrival arrival = carried(message, BodyFormat::automatic, GetParam());
  EXPECT_EQ(arrival.id, message.id);
  EXPECT_EQ(arrival.source, message.source);
  EXPECT_EQ(arrival.topic, message.topic);
  EXPECT_EQ(arrival.payload, message.payload);
  EXPECT_EQ(arrival.extras.content_type, message.content_type);
  EXPECT_EQ(arrival.extras.correlation_id, message.correlation_id);
  EXPECT_EQ(arrival.extras.partition_key, message.partition_key);
  EXPECT_EQ(arrival.extras.expires_at, message.expires_at);
  const std::string headers = arrival.extras.headers.value();
  EXPECT_TRUE(has(headers, R"("transport":"nats","nats":{"subject":"x"})")) << headers;
  EXPECT_TRUE(has(headers, R"("color":{"name":"blue"})")) << headers;
  EXPECT_TRUE(has(headers, "0af7651916cd43dd8448eb211c80319c")) << headers;
  EXPECT_FALSE(has(headers, "secret")) << headers;
}

TEST_P(WireMessageIn, its_way_an_event_keeps_what_it_is) {
  CloudEvent event{.id = "e-1", .source = "/shop", .type = "order.placed"};
  event.subject = "größe 1% \"x\"";
  event.extensions["partitionkey"] = "customer";
  event.set_data(R"({"total": 12.50})");
  Message message = claimed("order.placed", to_json(event), "e-1");
  message.content_type = std::string{event_content_type};
  for (const BodyFormat form : {BodyFormat::automatic, BodyFormat::structured}) {
    const Arrival arrival = carried(message, form, GetParam());
    CloudEvent got = event_from_json(arrival.payload);
    got.datacontenttype = event.datacontenttype;
    EXPECT_EQ(got, event);
    EXPECT_EQ(arrival.id.view(), "e-1");
    EXPECT_EQ(arrival.source.view(), "/shop");
    EXPECT_EQ(arrival.extras.partition_key.value().view(), "customer");
  }
}

TEST_P(WireMessageIn, its_way_a_message_changes_no_known_one) {
  for (const BodyFormat form : {BodyFormat::raw, BodyFormat::binary}) {
    EXPECT_EQ(carried(claimed(), form, GetParam()).on_duplicate, OnDuplicate::keep_first);
  }
}

INSTANTIATE_TEST_SUITE_P(all, WireMessageIn, ::testing::Values(plain, percent),
                         [](const auto& test) { return test.param.percent ? "percent" : "plain"; });

TEST(WireMessage, without_an_id_is_refused_with_the_way_out) {
  try {
    arrival_of({.transport = "nats", .properties = {}, .body = "x", .source = "s", .topic = "t"},
               plain);
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_TRUE(has(error.what(), "message id")) << error.what();
  }
}

TEST(WireMessage, whose_body_is_compressed_is_refused_and_a_charset_is_not) {
  const auto received = [](std::string encoding, WireHeaders wire_headers) {
    return arrival_of({.transport = "rabbitmq",
                       .properties = {},
                       .body = "x",
                       .content_encoding = std::move(encoding),
                       .wire_headers = std::move(wire_headers),
                       .id = "1",
                       .source = "s",
                       .topic = "t"},
                      plain);
  };
  for (const char* encoding :
       {"gzip", "GZIP", "gzip:UTF-8", "identity, br", "x-gzip", "aes128gcm"}) {
    try {
      received(encoding, {});
      ADD_FAILURE() << encoding;
    } catch (const std::invalid_argument& error) {
      EXPECT_TRUE(has(error.what(), "content encoding")) << error.what();
    }
    EXPECT_THROW(received("", {{"Content-Encoding", encoding}}), std::invalid_argument) << encoding;
  }
  for (const char* encoding : {"", "identity", "utf-8", "UTF-8", "binary", "iso-8859-1"}) {
    EXPECT_EQ(received(encoding, {{"content-encoding", encoding}}).payload, "x") << encoding;
  }
  EXPECT_THROW(received("", {{"content-encoding", "gzip"}, {"ce-id", "1"}}), std::invalid_argument);
}

TEST(WireMessage, with_a_damaged_event_or_a_batch_is_refused) {
  ReceivedMessage damaged{.transport = "nats", .properties = {}, .body = "{}"};
  damaged.content_type = "application/cloudevents+json";
  EXPECT_THROW(arrival_of(damaged, plain), EventError);
  damaged.content_type = "application/cloudevents-batch+json";
  EXPECT_THROW(arrival_of(damaged, plain), EventError);
  damaged.content_type = "";
  damaged.wire_headers = {{"ce-id", "1"}};
  EXPECT_THROW(arrival_of(damaged, plain), EventError);
}

}  // namespace
}  // namespace twinbox::test
