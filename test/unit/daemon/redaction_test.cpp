#include "daemon/operation/redaction.hpp"

#include <gtest/gtest.h>

#include "daemon/http/http_router.hpp"
#include "daemon/http/json.hpp"

namespace twinbox::app {
namespace {

std::string shown(std::vector<std::string> pointers, std::string payload,
                  std::size_t expected = 1) {
  EXPECT_EQ(Redaction{std::move(pointers)}.apply(payload).size(), expected);
  return payload;
}

TEST(Redaction, hides_what_its_pointers_lead_to) {
  EXPECT_EQ(shown({"/card/number"}, R"({"card":{"number":"4711","holder":"A"}})"),
            R"({"card":{"number":"[redacted]","holder":"A"}})");
  EXPECT_EQ(shown({"/card"}, R"({"card":{"number":"4711"}})"), R"({"card":"[redacted]"})");
  EXPECT_EQ(shown({"/a~1b/1"}, R"({"a/b":[1,2]})"), R"({"a/b":[1,"[redacted]"]})");
  EXPECT_EQ(shown({"/a", "/b"}, R"({"a":null,"b":[]})", 2),
            R"({"a":"[redacted]","b":"[redacted]"})");
}

TEST(Redaction, data_in_base64_is_no_way_around_it) {
  const std::string inner = base64(R"({"card":{"number":"4711"}})");
  const std::string event = R"({"id":"1","data_base64":")" + inner + R"("})";
  const std::string blanked = base64(R"({"card":{"number":"[redacted]"}})");
  EXPECT_EQ(shown({"/data/card/number"}, event),
            R"({"id":"1","data_base64":")" + blanked + R"("})");
  EXPECT_EQ(shown({"/data"}, event), R"({"id":"1","data_base64":"[redacted]"})");
  EXPECT_EQ(shown({"/data/card/holder"}, event, 0), event);
  EXPECT_EQ(shown({"/data/card"}, R"({"data_base64":"no base64"})", 0),
            R"({"data_base64":"no base64"})");
  const std::string deep = base64(std::string(5000, '['));
  EXPECT_EQ(shown({"/data/card"}, R"({"data_base64":")" + deep + R"("})"),
            R"({"data_base64":"[redacted]"})");
  const std::string twice = base64(R"({"card":"4711","card":1})");
  EXPECT_EQ(shown({"/data/card/number"}, R"({"data_base64":")" + twice + R"("})", 0),
            R"({"data_base64":")" + base64(R"({"card":1})") + R"("})");
  EXPECT_THROW(
      Redaction({"/data/card/number"}).refuse_mask(R"({"data_base64":")" + blanked + R"("})"),
      HttpProblem);
  EXPECT_THROW(Redaction({"/data"}).refuse_mask(R"({"data_base64":"[redacted]"})"), HttpProblem);
}

TEST(Redaction, data_as_json_in_a_string_is_no_way_around_it) {
  const std::string event = R"({"id":"1","data":"{\"card\":{\"number\":\"4711\"}}"})";
  const std::string blanked = R"({"id":"1","data":"{\"card\":{\"number\":\"[redacted]\"}}"})";
  EXPECT_EQ(shown({"/data/card/number"}, event), blanked);
  EXPECT_EQ(shown({"/data"}, event), R"({"id":"1","data":"[redacted]"})");
  EXPECT_EQ(shown({"/data/card/holder", "/id/x"}, event, 0), event);
  EXPECT_EQ(shown({"/data/card"}, R"({"data":"{\"card\":\"4711\""})"), R"({"data":"[redacted]"})");
  EXPECT_EQ(shown({"/data/card"}, R"({"data":"plain text"})", 0), R"({"data":"plain text"})");
  EXPECT_THROW(Redaction({"/data/card/number"}).refuse_mask(blanked), HttpProblem);
  EXPECT_THROW(Redaction({"/data/card"}).refuse_mask(R"({"data":"[redacted]"})"), HttpProblem);
  Redaction({"/data/card/number"}).refuse_mask(event);
}

TEST(Redaction, depth_marks_and_broken_text_are_no_way_around_it) {
  const auto around = [](std::size_t levels, const std::string& text) {
    return R"({"card":"4711","rest":)" + std::string(levels, '[') + text +
           std::string(levels, ']') + "}";
  };
  for (const std::string& payload : {around(40, "1"), "\xef\xbb\xbf" + around(0, "1"),
                                     around(1, "\"\xff\""), around(990, "{}")}) {
    EXPECT_EQ(shown({"/card"}, payload).find("4711"), std::string::npos) << payload;
  }
  EXPECT_EQ(shown({"/card"}, around(5000, "")), "[redacted]");
}

TEST(Redaction, a_name_that_comes_twice_is_no_way_around_it) {
  EXPECT_EQ(shown({"/card"}, R"({"card":"4711","card":"4712"})"), R"({"card":"[redacted]"})");
  EXPECT_EQ(shown({"/card/number"}, R"({"card":{"number":"4711"},"card":1})", 0), R"({"card":1})");
  EXPECT_EQ(shown({"/a/0/b"}, R"({"a":[{"b":{"c":"4711"},"b":2}],"x":"\":"})"),
            R"({"a":[{"b":"[redacted]"}],"x":"\":"})");
  EXPECT_EQ(shown({"/card/number"}, R"([{"card":{"number":"4711"}, "\u0063ard":[]}])", 0),
            R"([{"card":[]}])");
}

TEST(Redaction, near_json_is_hidden_whole) {
  for (const char* payload :
       {R"({"card":"4711","x":NaN})", "{\"card\":\"4711\"}\n{\"card\":\"4712\"}\n",
        R"([{"card":"4711"},])", " \r\n\t{\"card\":\"4711\"", "\xef\xbb\xbf{'card':'4711'}"}) {
    EXPECT_EQ(shown({"/card"}, payload), "[redacted]") << payload;
    EXPECT_EQ(shown({"/data/card"}, R"({"data_base64":")" + base64(payload) + R"("})"),
              R"({"data_base64":"[redacted]"})");
    EXPECT_EQ(shown({}, payload, 0), payload);
  }
}

TEST(Redaction, leaves_everything_else_as_it_came) {
  for (const char* payload :
       {R"({ "card" : {"number": 1.0} })", "no JSON", "", "[1,2]", "\xff\xfe", "null"}) {
    EXPECT_EQ(shown({"/card/holder", "/0/a", "/-"}, payload, 0), payload);
  }
}

TEST(Redaction, a_mask_cannot_be_stored_in_place_of_what_it_hides) {
  const Redaction redaction{{"/card/number"}};
  EXPECT_THROW(redaction.refuse_mask(R"({"card":{"number":"[redacted]"}})"), HttpProblem);
  redaction.refuse_mask(R"({"card":{"number":"4712"}})");
  EXPECT_THROW(redaction.refuse_mask("[redacted]"), HttpProblem);
  redaction.refuse_mask(R"({"note":"[redacted]"})");
}

TEST(Payload, is_cut_between_two_characters) {
  boost::json::object out;
  add_payload(out, "a\xc3\xa4\xe2\x82\xac", 5);
  EXPECT_EQ(out["payload"].as_string(), "a\xc3\xa4");
  EXPECT_TRUE(out["payload_truncated"].as_bool());
  add_payload(out, "a\xc3\xa4\xe2\x82\xac", 6);
  EXPECT_EQ(out["payload"].as_string(), "a\xc3\xa4\xe2\x82\xac");
  EXPECT_FALSE(out["payload_truncated"].as_bool());
  add_payload(out, "\xff\xfe\xfd", 1);
  EXPECT_EQ(out["payload"].as_string(), "/w==");
  EXPECT_EQ(out["payload_encoding"].as_string(), "base64");
}

TEST(Base64, is_read_back) {
  EXPECT_EQ(decode_base64("/w=="), "\xff");
  EXPECT_EQ(decode_base64("YWI="), "ab");
  EXPECT_EQ(decode_base64("YWJj"), "abc");
  EXPECT_EQ(decode_base64(""), "");
  for (const char* wrong : {"YWI", "Y", "*WI=", "YW=j"}) {
    EXPECT_EQ(decode_base64(wrong), std::nullopt) << wrong;
  }
}

}  // namespace
}  // namespace twinbox::app
