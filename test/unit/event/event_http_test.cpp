#include <gtest/gtest.h>

#include <twinbox/event.hpp>

namespace twinbox {
namespace {

HttpHeaders required() {
  return {{"ce-specversion", "1.0"}, {"ce-id", "1"}, {"ce-source", "/s"}, {"ce-type", "t"}};
}

HttpHeaders required_and(const std::string& name, const std::string& value) {
  HttpHeaders headers = required();
  headers.add(name, value);
  return headers;
}

CloudEvent read(const HttpHeaders& headers, std::string_view body = {}) {
  const auto events = events_from_http(headers, body);
  EXPECT_EQ(events.size(), 1u);
  return events.at(0);
}

std::string wrong_attribute(const HttpHeaders& headers, std::string_view body = {}) {
  try {
    events_from_http(headers, body);
    return "(taken)";
  } catch (const EventError& error) {
    return error.attribute();
  }
}

TEST(EventHttp, EVB_30_reads_the_binary_mode) {
  const CloudEvent event = read({{"CE-SpecVersion", "1.0"},
                                 {"ce-type", "com.example.someevent"},
                                 {"ce-time", "2018-04-05T03:56:24Z"},
                                 {"ce-id", "1234-1234-1234"},
                                 {"ce-source", "/mycontext/subcontext"},
                                 {"ce-subject", "Euro%20%E2%82%AC%20%F0%9F%98%80"},
                                 {"ce-traceparent", "x"},
                                 {"Content-Type", "application/json; charset=utf-8"},
                                 {"User-Agent", "test"}},
                                R"({ "a" : 1 })");
  EXPECT_EQ(event.type, "com.example.someevent");
  EXPECT_EQ(event.subject, "Euro € 😀");
  EXPECT_EQ(event.time->str(), "2018-04-05T03:56:24Z");
  EXPECT_EQ(event.datacontenttype, "application/json; charset=utf-8");
  EXPECT_EQ(event.extensions.size(), 1u);
  EXPECT_EQ(event.data_kind, DataKind::json);
  EXPECT_EQ(event.data, R"({ "a" : 1 })");
}

TEST(EventHttp, EVB_30_reads_the_structured_mode_and_batches) {
  const std::string json = R"({"specversion":"1.0","id":"1","source":"/s","type":"t"})";
  EXPECT_EQ(read({{"content-type", "Application/CloudEvents+JSON; charset=\"UTF-8\""}}, json).id,
            "1");
  const HttpHeaders batch{{"Content-Type", "application/cloudevents-batch+json"}};
  EXPECT_EQ(events_from_http(batch, "[" + json + "," + json + "]").size(), 2u);
  EXPECT_TRUE(events_from_http(batch, "[]").empty());
}

TEST(EventHttp, decodes_header_values_once) {
  EXPECT_EQ(read(required_and("ce-subject", "a%2520b")).subject, "a%20b");
  EXPECT_EQ(read(required_and("ce-subject", "\"quoted \\\"text\\\"\"")).subject, "quoted \"text\"");
  EXPECT_EQ(read(required_and("ce-subject", "a+b c")).subject, "a+b c");
  EXPECT_EQ(read(required_and("ce-ext", "")).extension("ext"), "");
}

TEST(EventHttp, encodes_what_a_header_cannot_hold) {
  CloudEvent event{.id = "1", .source = "/s%20x", .type = "t"};
  event.subject = "a \"b\" 100% €";
  const HttpContent content = to_http(event);
  EXPECT_EQ(content.headers.find("ce-subject"), "a%20%22b%22%20100%25%20%E2%82%AC");
  EXPECT_EQ(content.headers.find("ce-source"), "/s%2520x");
  EXPECT_EQ(read(content.headers, content.body), event);
}

TEST(EventHttp, a_body_is_of_the_kind_that_its_content_type_says) {
  const auto kind = [](const std::string& type, std::string_view body) {
    return read(required_and("Content-Type", type), body).data_kind;
  };
  EXPECT_EQ(kind("application/json", "1"), DataKind::json);
  EXPECT_EQ(kind("text/plain", "x"), DataKind::text);
  EXPECT_EQ(kind("text/plain; charset=us-ascii", "x"), DataKind::text);
  EXPECT_EQ(kind("application/json; charset=\"US-ASCII\"", "1"), DataKind::json);
  EXPECT_EQ(kind("text/plain; charset=latin1", "\xE9"), DataKind::binary);
  EXPECT_EQ(kind("application/xml", "<a/>"), DataKind::text);
  EXPECT_EQ(kind("application/protobuf", "\xFF"), DataKind::binary);
  EXPECT_EQ(kind("application/json", ""), DataKind::none);
  EXPECT_EQ(read(required(), "x").data_kind, DataKind::binary);
}

TEST(EventHttp, malformed_requests_name_the_attribute) {
  EXPECT_EQ(wrong_attribute({}), "specversion");
  EXPECT_EQ(wrong_attribute({{"Content-Type", "application/json"}}, "{}"), "specversion");
  EXPECT_EQ(wrong_attribute({{"ce-id", "1"}}), "specversion");
  EXPECT_EQ(wrong_attribute({{"ce-specversion", "1.0"}, {"ce-id", "1"}, {"ce-type", "t"}}),
            "source");
  EXPECT_EQ(wrong_attribute({{"ce-specversion", "0.3"}}), "specversion");
  EXPECT_EQ(wrong_attribute(required_and("CE-ID", "2")), "ce-id");
  EXPECT_EQ(wrong_attribute(required_and("ce-a-b", "2")), "a-b");
  EXPECT_EQ(wrong_attribute(required_and("ce-", "2")), "attribute name");
  EXPECT_EQ(wrong_attribute(required_and("ce-datacontenttype", "a/b")), "datacontenttype");
  EXPECT_EQ(wrong_attribute(required_and("ce-data", "x")), "data");
  EXPECT_EQ(wrong_attribute(required_and("ce-subject", "100%")), "subject");
  EXPECT_EQ(wrong_attribute(required_and("ce-subject", "%4")), "subject");
  EXPECT_EQ(wrong_attribute(required_and("ce-subject", "%GG")), "subject");
  EXPECT_EQ(wrong_attribute(required_and("ce-subject", "%FF")), "subject");
  EXPECT_EQ(wrong_attribute(required_and("ce-subject", "%0A")), "subject");
  EXPECT_EQ(wrong_attribute(required_and("ce-time", "soon")), "time");
  EXPECT_EQ(wrong_attribute(required_and("Content-Type", "application/json"), "{"), "data");
  EXPECT_EQ(wrong_attribute(required_and("Content-Type", "text/plain"), "\xFF"), "data");
  EXPECT_EQ(wrong_attribute({{"Content-Type", "application/cloudevents+avro"}}), "Content-Type");
  EXPECT_EQ(wrong_attribute({{"Content-Type", "application/cloudevents+json; charset=utf-16"}}),
            "Content-Type");
  HttpHeaders twice = required_and("Content-Type", "text/plain");
  twice.add("content-type", "text/html");
  EXPECT_EQ(wrong_attribute(twice), "Content-Type");
}

TEST(EventHttp, json_without_a_content_type_gets_one_in_binary_mode) {
  CloudEvent event{.id = "1", .source = "/s", .type = "t"};
  event.set_data("[1]");
  EXPECT_EQ(to_http(event).headers.find("Content-Type"), "application/json");
  event.data_kind = DataKind::none;
  event.data.clear();
  EXPECT_FALSE(to_http(event).headers.find("Content-Type"));
}

TEST(EventHttp, tells_how_a_request_carries_events) {
  EXPECT_EQ(content_mode(required()), ContentMode::binary);
  EXPECT_EQ(content_mode({{"Content-Type", "application/cloudevents+json"}}),
            ContentMode::structured);
  EXPECT_EQ(content_mode({{"Content-Type", "application/cloudevents-batch+json;a=b"}}),
            ContentMode::batch);
  EXPECT_FALSE(content_mode({{"Content-Type", "application/json"}, {"cedar", "x"}}));
}

}  // namespace
}  // namespace twinbox
