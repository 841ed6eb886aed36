#include "daemon/http/json.hpp"

#include <boost/json/array.hpp>

#include <gtest/gtest.h>

namespace twinbox::app {
namespace {

namespace json = boost::json;

TEST(JsonText, has_numbers_as_people_write_them) {
  EXPECT_EQ(json_text(6.0), "6");
  EXPECT_EQ(json_text(0.25), "0.25");
  EXPECT_EQ(json_text(-1.5), "-1.5");
  EXPECT_EQ(json_text(1e300), "1e+300");
  EXPECT_EQ(json_text(std::int64_t{-7}), "-7");
  EXPECT_EQ(json_text(std::uint64_t{18'446'744'073'709'551'615U}), "18446744073709551615");
}

TEST(JsonText, has_everything_else_as_the_library_writes_it) {
  const json::value value{{"a\"b", {1, 2.5, nullptr}},
                          {"empty", json::object{}},
                          {"none", json::array{}},
                          {"text", "\n\xC3\xA9"},
                          {"yes", true}};
  EXPECT_EQ(json_text(value), R"({"a\"b":[1,2.5,null],"empty":{},"none":[],"text":"\n)"
                              "\xC3\xA9"
                              R"(","yes":true})");
}

}  // namespace
}  // namespace twinbox::app
