#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <twinbox/event.hpp>
#include <twinbox/event_bus.hpp>

namespace twinbox {
namespace {

struct Case {
  std::function<void()> call;
  std::string text;
};

void expect_texts(const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    try {
      one.call();
      ADD_FAILURE() << "nothing was refused; expected: " << one.text;
    } catch (const EventError& error) {
      EXPECT_EQ(std::string{error.what()}, one.text);
      EXPECT_EQ(error.attribute(), one.text.substr(0, one.text.find(": ")));
    }
  }
}

/// A valid event, changed.
std::function<void()> checking(const std::function<void(CloudEvent&)>& change) {
  return [change] {
    CloudEvent event{.id = "1", .source = "/s", .type = "t"};
    change(event);
    event.check();
  };
}

/// A JSON event with these members more.
std::function<void()> json(const std::string& members) {
  return [members] {
    event_from_json(R"({"specversion":"1.0","id":"1","source":"/s","type":"t")" + members + "}");
  };
}

/// A binary request with this header more.
std::function<void()> http(const std::string& name, const std::string& value,
                           const std::string& body = {}) {
  return [=] {
    HttpHeaders headers{
        {"ce-specversion", "1.0"}, {"ce-id", "1"}, {"ce-source", "/s"}, {"ce-type", "t"}};
    headers.add(name, value);
    events_from_http(headers, body);
  };
}

// Each says what failed, on which member, and what to do; none shows data.

TEST(EventErrorText, of_an_event_that_is_made_here) {
  expect_texts({
      {checking([](auto& e) { e.id = ""; }), "id: missing or empty; give it a value"},
      {checking([](auto& e) { e.id = "  "; }), "id: only blanks; give it a value"},
      {checking([](auto& e) { e.id.assign(257, 'x'); }),
       "id: 257 characters, at most 256 are allowed"},
      {checking([](auto& e) { e.type = "a\xFF"; }),
       "type: not UTF-8 (byte 2); encode the text as UTF-8"},
      {checking([](auto& e) { e.subject = "a\n"; }),
       "subject: contains a control character or noncharacter (byte 2); remove it"},
      {checking([](auto& e) { e.source = "a b"; }),
       "source: not a URI reference; encode other characters as %XX"},
      {checking([](auto& e) { e.datacontenttype = "json"; }),
       "datacontenttype: not a media type; write it like application/json"},
      {checking([](auto& e) { e.dataschema = "schema"; }),
       "dataschema: not an absolute URI; write it like https://example.com/schema"},
      {checking([](auto& e) { e.extensions.emplace("a_b", "1"); }),
       "a_b: not an attribute name; use only lower-case letters and digits"},
      {checking([](auto& e) { e.extensions.emplace("", "1"); }),
       "attribute name: empty; give the attribute a name"},
      {checking([](auto& e) { e.extensions.emplace(std::string(65, 'a'), "1"); }),
       std::string(64, 'a') + "…: 65 characters in the name, at most 64 are allowed"},
      {checking([](auto& e) { e.extensions.emplace("type", "1"); }),
       "type: an attribute of CloudEvents itself; set its member instead of an extension"},
      {checking([](auto& e) { e.extensions.emplace("ext", std::string(9'000, 'x')); }),
       "ext: 9000 bytes, at most 8192 are allowed; move long values into the data"},
      {checking([](auto& e) {
         for (int i = 0; i < 101; ++i) e.extensions.emplace("x" + std::to_string(i), "1");
       }),
       "extensions: 101 extensions, at most 100 are allowed; move the rest into the data"},
      {checking([](auto& e) { e.data = "x"; }),
       "data: not empty, although data_kind is none; call set_data, or clear it"},
      {checking([](auto& e) {
         e.set_data("{}");
         e.datacontenttype = "text/plain";
       }),
       "data: JSON, but datacontenttype announces something else; make it application/json"},
      {checking([](auto& e) { e.set_data("secret"); }),
       "data: not JSON of at most 64 levels, as datacontenttype announces; send JSON, or name "
       "another content type"},
      {checking([](auto& e) {
         e.set_data("x", "text/plain");
         e.datacontenttype.reset();
       }),
       "datacontenttype: announces JSON, but the data is text; make it a type such as text/plain"},
      {checking([](auto& e) { e.set_data("\xFF", "text/plain"); }),
       "data: not UTF-8, as datacontenttype announces; encode the text as UTF-8, or name its "
       "charset"},
      {[] {
         (void)EventName{"n", 0}.type();
       },
       "version: 0, 1 to 999999999 are allowed"},
  });
}

TEST(EventErrorText, of_an_event_in_json) {
  const std::string half = "\\ud800";
  expect_texts({
      {[] { event_from_json("[]"); },
       "event: not a JSON object of at most 64 levels in UTF-8; send each event as one object"},
      {[] { event_from_json("{}"); }, R"(specversion: missing; send "specversion": "1.0")"},
      {[] { event_from_json(R"({"specversion":"0.3"})"); },
       "specversion: not 1.0; send events of CloudEvents 1.0"},
      {json(R"(,"id":"2")"), "id: given twice; send it once"},
      {json(",\"" + half + "\":1"),
       "event: the name of a member contains half of a surrogate pair; send whole characters"},
      {json(R"(,"subject":1)"), "subject: not a JSON string; send it as a string"},
      {json(",\"subject\":\"" + half + "\""),
       "subject: contains half of a surrogate pair; send whole characters"},
      {json(R"(,"time":"soon")"), "time: not an RFC 3339 time; write it like 2018-04-05T17:31:00Z"},
      {json(R"(,"ext":{})"), "ext: an object or array; send a string, a boolean or an integer"},
      {json(R"(,"ext":1.5)"), "ext: not an integer of 32 bits; send other numbers as strings"},
      {json(R"(,"datacontenttype":"text/plain","data":1)"),
       "data: not a JSON string, although datacontenttype does not announce JSON; send text as a "
       "string, and bytes as data_base64"},
      {json(R"(,"data":1,"data_base64":"MQ==")"),
       "data_base64: given together with data; send one of them"},
      {json(R"(,"data_base64":"MQ")"),
       "data_base64: not base64 with padding; encode the bytes by RFC 4648, section 4"},
      {[] { events_from_json("{}", 10); },
       "batch: not a JSON array of at most 64 levels in UTF-8; send the events as one array"},
      {[] { events_from_json("[1,2]", 1); },
       "batch: 2 events, at most 1 are allowed; send smaller batches"},
      {[] { events_from_json("[{}]", 1); },
       R"(specversion: missing; send "specversion": "1.0" (event 1 of the batch))"},
  });
}

TEST(EventErrorText, of_a_request) {
  expect_texts({
      {[] { events_from_http({}, ""); },
       "specversion: missing; send ce- headers, or Content-Type application/cloudevents+json"},
      {[] {
         events_from_http({{"ce-id", "1"}}, "");
       },
       "specversion: missing; send the header ce-specversion: 1.0"},
      {http("CE-ID", "2"), "ce-id: given twice; send it once"},
      {http("ce-subject", "100%"),
       "subject: a % without two hexadecimal digits; write a percent sign as %25"},
      {http("ce-datacontenttype", "a/b"),
       "datacontenttype: sent as header ce-datacontenttype; send it as Content-Type"},
      {http("ce-data", "x"), "data: sent as header ce-data; send it as the body"},
      {[] {
         events_from_http(
             {{"Content-Type", "application/cloudevents+json"}, {"content-type", "a/b"}}, "");
       },
       "Content-Type: given twice; send it once"},
      {[] {
         events_from_http({{"Content-Type", "application/cloudevents+json; charset=utf-16"}}, "");
       },
       "Content-Type: its charset is neither utf-8 nor us-ascii; send the events in UTF-8"},
      {[] {
         events_from_http({{"Content-Type", "application/cloudevents+avro"}}, "");
       },
       "Content-Type: not a format that is supported; send application/cloudevents+json or "
       "application/cloudevents-batch+json"},
  });
}

TEST(EventErrorText, of_an_event_that_is_to_be_stored) {
  const auto storing = [](const std::string& extension, const std::string& value,
                          const std::string& properties = {}) {
    return [=] {
      CloudEvent event{.id = "1", .source = "/s", .type = "t"};
      if (!extension.empty()) event.extensions.emplace(extension, value);
      (void)to_message(event, properties);
    };
  };
  expect_texts({
      {storing("", "", "[]"), R"(properties: not a JSON object; pass one such as {"tenant":"a"})"},
      {storing("expirytime", "soon"),
       "expirytime: not an RFC 3339 time; write it like 2018-04-05T17:31:00Z"},
      {storing("partitionkey", std::string(256, 'x')),
       "partitionkey: 256 characters, at most 255 are allowed"},
      {[] { (void)to_message({.id = "1", .source = "/" + std::string(255, 's'), .type = "t"}); },
       "source: 256 characters, at most 255 are allowed"},
  });
}

}  // namespace
}  // namespace twinbox
