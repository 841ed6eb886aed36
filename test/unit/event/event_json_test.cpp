#include <gtest/gtest.h>

#include <twinbox/event.hpp>

namespace twinbox {
namespace {

std::string with(const std::string& members) {
  return R"({"specversion":"1.0","id":"1","source":"/s","type":"t")" +
         (members.empty() ? "" : "," + members) + "}";
}

TEST(EventJson, reads_the_example_of_the_specification) {
  const CloudEvent event = event_from_json(R"({
    "specversion" : "1.0", "type" : "com.github.pull_request.opened",
    "source" : "https://github.com/cloudevents/spec/pull", "subject" : "123",
    "id" : "A234-1234-1234", "time" : "2018-04-05T17:31:00Z",
    "comexampleextension1" : "value", "comexampleothervalue" : 5, "comexampleflag" : false,
    "unsetextension" : null,
    "datacontenttype" : "text/xml", "data" : "<much wow=\"xml\"/>" })");
  EXPECT_EQ(event.type, "com.github.pull_request.opened");
  EXPECT_EQ(event.source, "https://github.com/cloudevents/spec/pull");
  EXPECT_EQ(event.subject, "123");
  EXPECT_EQ(event.id, "A234-1234-1234");
  EXPECT_EQ(event.time->str(), "2018-04-05T17:31:00Z");
  EXPECT_EQ(event.extensions.size(), 3u);
  EXPECT_EQ(event.extensions.at("comexampleextension1"), Extension{"value"});
  EXPECT_EQ(event.extensions.at("comexampleothervalue"), Extension{5});
  EXPECT_EQ(event.extensions.at("comexampleflag"), Extension{false});
  EXPECT_EQ(event.data_kind, DataKind::text);
  EXPECT_EQ(event.data, R"(<much wow="xml"/>)");
}

TEST(EventJson, keeps_json_data_byte_by_byte) {
  const std::string data =
      R"({ "big": 12345678901234567890123.4500, "z":1,"a":[ ], "u":"\u00e9\/", "n": null })";
  const CloudEvent event = event_from_json(with("\"data\": " + data));
  EXPECT_EQ(event.data_kind, DataKind::json);
  EXPECT_EQ(event.data, data);
  EXPECT_EQ(event_from_json(to_json(event)).data, data);
}

TEST(EventJson, takes_any_json_value_as_data) {
  for (const char* value : {"1", "\"text\"", "true", "null", "[1,2]", "-1.5e+3", "{}"}) {
    const CloudEvent event = event_from_json(with(std::string{"\"data\":"} + value));
    EXPECT_EQ(event.data_kind, DataKind::json) << value;
    EXPECT_EQ(event.data, value);
  }
  const CloudEvent vendor =
      event_from_json(with(R"("datacontenttype":"application/vnd.a+json; v=1","data":"x")"));
  EXPECT_EQ(vendor.data_kind, DataKind::json);
  EXPECT_EQ(vendor.data, "\"x\"");
}

TEST(EventJson, takes_bytes_from_data_base64) {
  const CloudEvent event = event_from_json(
      with(R"("datacontenttype":"application/octet-stream","data_base64":"AP8QIA==")"));
  EXPECT_EQ(event.data_kind, DataKind::binary);
  EXPECT_EQ(event.data, std::string("\x00\xFF\x10\x20", 4));
  EXPECT_NE(to_json(event).find(R"("data_base64":"AP8QIA==")"), std::string::npos);
}

TEST(EventJson, an_event_needs_no_data) {
  const CloudEvent event = event_from_json(with(""));
  EXPECT_EQ(event.data_kind, DataKind::none);
  EXPECT_EQ(to_json(event), with(""));
  EXPECT_EQ(event_from_json(with(R"("data_base64":null)")).data_kind, DataKind::none);
  EXPECT_EQ(event_from_json(with(R"("datacontenttype":"text/plain","data":null)")).data_kind,
            DataKind::none);
}

struct Malformed {
  std::string text;
  std::string attribute;
};

void PrintTo(const Malformed& malformed, std::ostream* out) {
  *out << malformed.text.substr(0, 90);
}

class MalformedEvent : public ::testing::TestWithParam<Malformed> {};

TEST_P(MalformedEvent, is_refused_with_the_attributes_name) {
  try {
    event_from_json(GetParam().text);
    FAIL() << "taken: " << GetParam().text;
  } catch (const EventError& error) {
    EXPECT_EQ(error.attribute(), GetParam().attribute) << error.what();
    EXPECT_EQ(std::string{error.what()}.rfind(GetParam().attribute + ": ", 0), 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(
    table, MalformedEvent,
    ::testing::Values(
        Malformed{"", "event"}, Malformed{"[]", "event"}, Malformed{"{", "event"},
        Malformed{"{} {}", "event"}, Malformed{"{}", "specversion"},
        Malformed{with("") + "x", "event"}, Malformed{"\xEF\xBB\xBF" + with(""), "event"},
        Malformed{R"({"id":"1","source":"/s","type":"t"})", "specversion"},
        Malformed{R"({"specversion":null,"id":"1","source":"/s","type":"t"})", "specversion"},
        Malformed{R"({"specversion":"0.3","id":"1","source":"/s","type":"t"})", "specversion"},
        Malformed{R"({"specversion":1.0,"id":"1","source":"/s","type":"t"})", "specversion"},
        Malformed{R"({"specversion":"1.0","source":"/s","type":"t"})", "id"},
        Malformed{R"({"specversion":"1.0","id":"","source":"/s","type":"t"})", "id"},
        Malformed{R"({"specversion":"1.0","id":7,"source":"/s","type":"t"})", "id"},
        Malformed{R"({"specversion":"1.0","id":"1","type":"t"})", "source"},
        Malformed{R"({"specversion":"1.0","id":"1","source":null,"type":"t"})", "source"},
        Malformed{R"({"specversion":"1.0","id":"1","source":"a b","type":"t"})", "source"},
        Malformed{R"({"specversion":"1.0","id":"1","source":"%zz","type":"t"})", "source"},
        Malformed{R"({"specversion":"1.0","id":"1","source":"/s"})", "type"},
        Malformed{R"({"specversion":"1.0","id":"1","source":"/s","type":" "})", "type"},
        Malformed{with(R"("id":"2")"), "id"}, Malformed{with(R"("\u0069d":"2")"), "id"},
        Malformed{with(R"("a":1,"a":1)"), "a"}, Malformed{with(R"("data":1,"data":2)"), "data"},
        Malformed{with(R"("subject":"")"), "subject"}, Malformed{with(R"("subject":5)"), "subject"},
        Malformed{with(R"("subject":"a\nb")"), "subject"},
        Malformed{with(R"("subject":"\uFFFE")"), "subject"},
        Malformed{with(R"("subject":"\ud800")"), "subject"},
        Malformed{with(R"("subject":"\u0080")"), "subject"},
        Malformed{with(R"("time":"now")"), "time"}, Malformed{with(R"("time":"")"), "time"},
        Malformed{with(R"("time":1522949460)"), "time"},
        Malformed{with(R"("dataschema":"/relative")"), "dataschema"},
        Malformed{with(R"("dataschema":"")"), "dataschema"},
        Malformed{with(R"("datacontenttype":"json")"), "datacontenttype"},
        Malformed{with(R"("datacontenttype":"")"), "datacontenttype"},
        Malformed{with(R"("datacontenttype":"text/plain; charset")"), "datacontenttype"},
        Malformed{with(R"("datacontenttype":"text/plain\r\nX: y")"), "datacontenttype"},
        Malformed{with(R"("data":1,"data_base64":"AA==")"), "data_base64"},
        Malformed{with(R"("data_base64":"AA=")"), "data_base64"},
        Malformed{with(R"("data_base64":"A B=")"), "data_base64"},
        Malformed{with(R"("data_base64":{})"), "data_base64"},
        Malformed{with(R"("datacontenttype":"text/plain","data":{"a":1})"), "data"},
        Malformed{with(R"("datacontenttype":"text/plain","data":"\udc00")"), "data"},
        Malformed{with(R"("Upper":"x")"), "Upper"},
        Malformed{with(R"("with_line":"x")"), "with_line"},
        Malformed{with(R"("Upper":null)"), "Upper"}, Malformed{with(R"("":"x")"), "attribute name"},
        Malformed{with(R"("a-b":"x")"), "a-b"}, Malformed{with(R"("ext":{})"), "ext"},
        Malformed{with(R"("ext":[1])"), "ext"}, Malformed{with(R"("ext":1.5)"), "ext"},
        Malformed{with(R"("ext":1e2)"), "ext"}, Malformed{with(R"("ext":2147483648)"), "ext"},
        Malformed{with(R"("ext":-2147483649)"), "ext"},
        Malformed{with("\"data\":" + std::string(64, '[') + std::string(64, ']')), "event"},
        Malformed{with("\"data\":" + std::string(100'000, '[')), "event"},
        Malformed{with("\"" + std::string(65, 'a') + "\":1"), std::string(64, 'a') + "…"},
        Malformed{R"({"specversion":"1.0","source":"/s","type":"t","id":")" +
                      std::string(257, 'x') + "\"}",
                  "id"},
        Malformed{R"({"specversion":"1.0","source":"/s","id":"1","type":")" +
                      std::string(501, 'x') + "\"}",
                  "type"}));

TEST(EventJson, EVB_22_takes_names_of_500_and_ids_of_256_characters) {
  CloudEvent event{.id = std::string(256, 'i'), .source = "/s", .type = std::string(500, 't')};
  EXPECT_EQ(event_from_json(to_json(event)), event);
}

TEST(EventJson, bounds_the_number_of_extensions) {
  CloudEvent event{.id = "1", .source = "/s", .type = "t"};
  for (int i = 0; i < 100; ++i) event.extensions.emplace("e" + std::to_string(i), i);
  EXPECT_EQ(event_from_json(to_json(event)), event);
  event.extensions.emplace("one", true);
  EXPECT_THROW(to_json(event), EventError);
}

TEST(EventJson, an_error_never_shows_data) {
  for (const std::string& text :
       {with(R"("data":~secret~)"), with(R"("datacontenttype":"text/plain","data":["~secret~"])"),
        with(R"("data_base64":"~secret~")")}) {
    try {
      event_from_json(text);
      FAIL();
    } catch (const EventError& error) {
      EXPECT_EQ(std::string{error.what()}.find("secret"), std::string::npos) << error.what();
    }
  }
}

TEST(EventJson, a_batch_is_an_array_of_events) {
  EXPECT_TRUE(events_from_json(" [ ] ").empty());
  const auto events = events_from_json("[" + with("") + " , " + with(R"("data":1)") + "]");
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].data, "1");
  EXPECT_EQ(events_from_json(to_json(std::span{events})), events);
}

TEST(EventJson, a_batch_names_the_event_that_is_wrong) {
  try {
    events_from_json("[" + with("") + "," + with(R"("time":"x")") + "]");
    FAIL();
  } catch (const EventError& error) {
    EXPECT_EQ(error.attribute(), "time");
    EXPECT_NE(std::string{error.what()}.find("event 2 of the batch"), std::string::npos);
  }
  EXPECT_THROW(events_from_json(with("")), EventError);
  EXPECT_THROW(events_from_json("[1]"), EventError);
  EXPECT_THROW(events_from_json("[" + with("") + "," + with("") + "]", 1), EventError);
}

TEST(EventJson, writes_nothing_that_it_would_not_read) {
  CloudEvent event{.id = "1", .source = "/s", .type = "t"};
  event.data_kind = DataKind::json;
  event.data = "{";
  EXPECT_THROW(to_json(event), EventError);
  event.data_kind = DataKind::text;
  EXPECT_THROW(to_json(event), EventError) << "text without a content type would be read as JSON";
  event.datacontenttype = "text/plain";
  EXPECT_EQ(event_from_json(to_json(event)), event);
  event.data = "\xFF";
  EXPECT_THROW(to_json(event), EventError);
  event.extensions.emplace("data", "x");
  event.data.clear();
  EXPECT_THROW(to_json(event), EventError);
}

}  // namespace
}  // namespace twinbox
