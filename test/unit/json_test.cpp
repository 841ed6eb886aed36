#include "core/json.hpp"

#include <string>

#include <gtest/gtest.h>

namespace twinbox {
namespace {

using namespace std::string_literals;

std::string nested(int depth) {
  std::string text = "{\"a\":";
  for (int i = 1; i < depth; ++i) text += '[';
  text += '1';
  for (int i = 1; i < depth; ++i) text += ']';
  return text + '}';
}

TEST(Json, accepts_one_object) {
  for (const char* text :
       {"{}", " \t\r\n{ } ", R"({"a":1})", R"({"a":-0.5e+10,"b":[true,false,null],"c":{"d":""}})",
        R"({"a":[],"b":{},"c":[[],{}]})", R"({"":0})", R"({"\"\\\/\b\f\n\r\t\u20ac":"é😀"})",
        R"({"a":0,"a":10.25E-3})", R"({"a" : [ 1 , 2 ] , "b" : 3})"}) {
    EXPECT_TRUE(is_json_object(text)) << text;
  }
}

TEST(Json, refuses_everything_else) {
  for (const char* text : {"",
                           " ",
                           "1",
                           "[]",
                           "null",
                           "\"a\"",
                           "{",
                           "}",
                           "{}{}",
                           "{} x",
                           "{,}",
                           R"({"a"})",
                           R"({"a":})",
                           R"({"a":1,})",
                           R"({,"a":1})",
                           R"({"a":1 "b":2})",
                           R"({a:1})",
                           R"({'a':1})",
                           R"({"a":01})",
                           R"({"a":+1})",
                           R"({"a":.5})",
                           R"({"a":1.})",
                           R"({"a":1e})",
                           R"({"a":-})",
                           R"({"a":0x10})",
                           R"({"a":NaN})",
                           R"({"a":tru})",
                           R"({"a":True})",
                           R"({"a":[1,]})",
                           R"({"a":[,1]})",
                           R"({"a":[1 2]})",
                           R"({"a":[1})",
                           R"({"a":1])",
                           R"({"a":"b)",
                           R"({"a":"\x"})",
                           R"({"a":"\u12g4"})",
                           R"({"a":"\u12)",
                           R"({"a":"\)",
                           "{\"a\":\"\n\"}",
                           "{\"a\":\"\x01\"}",
                           "{\"a\":\"\xFF\"}",
                           "{\"a\":\"\xC0\x80\"}",
                           "\xEF\xBB\xBF{}",
                           R"({"a":1}//)",
                           R"({1:2})",
                           R"({"a"::1})",
                           R"({"a":1,,"b":2})"}) {
    EXPECT_FALSE(is_json_object(text)) << text;
  }
  EXPECT_FALSE(is_json_object("{}\0"s));
  EXPECT_FALSE(is_json_object("{\"a\":\"\0\"}"s));
}

TEST(Json, bounds_the_depth) {
  EXPECT_TRUE(is_json_object(nested(max_json_depth)));
  EXPECT_FALSE(is_json_object(nested(max_json_depth + 1)));
  EXPECT_FALSE(is_json_object("{\"a\":" + std::string(10'000'000, '[')));
}

TEST(Json, finds_members_of_the_outermost_object_only) {
  EXPECT_TRUE(json_object_has(R"({"a":1,"b":2})", "b"));
  EXPECT_TRUE(json_object_has(R"( { "b" : {} } )", "b"));
  EXPECT_TRUE(json_object_has(R"({"":1})", ""));
  for (const char* text : {R"({})", R"({"a":"b"})", R"({"a":{"b":1}})", R"({"a":[{"b":1}]})",
                           R"({"bb":1})", R"({"b":1)", R"(["b"])"}) {
    EXPECT_FALSE(json_object_has(text, "b")) << text;
  }
}

TEST(Json, writes_strings_that_it_reads_itself) {
  std::string out = "{";
  append_json_string(out, "\"\\/\b\f\n\r\t\0\x1f é😀"s);
  out += ':';
  append_json_string(out, "bad \xFF byte");
  out += '}';
  EXPECT_EQ(out, "{\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001f é😀\":\"bad \uFFFD byte\"}");
  EXPECT_TRUE(is_json_object(out));
}

TEST(Json, splits_an_object_into_its_members_as_they_are_written) {
  const auto parts = split_json_object(R"( { "a" : [1, {"x":2}] ,"b\n":"\u0041", "c":-1.5e3 } )");
  ASSERT_TRUE(parts);
  ASSERT_EQ(parts->size(), 3u);
  EXPECT_EQ((*parts)[0].name, "a");
  EXPECT_EQ((*parts)[0].value, R"([1, {"x":2}])");
  EXPECT_EQ((*parts)[1].name, R"(b\n)");
  EXPECT_EQ((*parts)[1].value, R"("\u0041")");
  EXPECT_EQ((*parts)[2].value, "-1.5e3");
  EXPECT_TRUE(split_json_object("{}")->empty());
  EXPECT_FALSE(split_json_object("[]"));
  EXPECT_FALSE(split_json_object(R"({"a":1,})"));
}

TEST(Json, splits_an_array_into_its_elements) {
  const auto parts = split_json_array(R"([ {"a":[]} ,[[]], null])");
  ASSERT_TRUE(parts);
  ASSERT_EQ(parts->size(), 3u);
  EXPECT_EQ((*parts)[0].value, R"({"a":[]})");
  EXPECT_EQ((*parts)[1].value, "[[]]");
  EXPECT_EQ((*parts)[2].value, "null");
  EXPECT_FALSE(split_json_array("{}"));
  EXPECT_FALSE(split_json_array("[1 2]"));
}

TEST(Json, knows_values_of_every_kind) {
  for (const char* text : {"1", " -0 ", "\"\"", "true", "null", "[[1],{}]", "1E-5"}) {
    EXPECT_TRUE(is_json(text)) << text;
  }
  for (const char* text : {"", " ", "01", "1 2", "nul", "\"", "[1,]", "+1", "'a'"}) {
    EXPECT_FALSE(is_json(text)) << text;
  }
}

TEST(Json, unescapes_strings) {
  EXPECT_EQ(json_string(R"("a\"\\\/\b\f\n\r\t\u00e9\uD83D\ude00")"), "a\"\\/\b\f\n\r\té😀");
  EXPECT_EQ(json_string(R"("\u0000")"), std::string(1, '\0'));
  EXPECT_FALSE(json_string("1"));
  for (const char* text : {R"("\ud800")", R"("\udc00")", R"("\ud800\u0041")", R"("\ud800x")"}) {
    EXPECT_FALSE(json_string(text)) << text;
  }
}

}  // namespace
}  // namespace twinbox
