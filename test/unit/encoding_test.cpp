#include "core/encoding.hpp"

#include <gtest/gtest.h>

namespace twinbox {
namespace {

TEST(PercentEncoding, writes_what_is_no_visible_ascii_and_the_given_characters) {
  EXPECT_EQ(percent_encode("order.placed", "%"), "order.placed");
  EXPECT_EQ(percent_encode("a b%\"\x7F\n", "\"%"), "a%20b%25%22%7F%0A");
  EXPECT_EQ(percent_encode("\xC3\xBC", "%"), "%C3%BC");
  EXPECT_EQ(percent_encode("", "%"), "");
}

TEST(PercentEncoding, is_read_back) {
  EXPECT_EQ(percent_decode("a%20b%25%22%7f%0A"), "a b%\"\x7F\n");
  EXPECT_EQ(percent_decode("%C3%BC"), "\xC3\xBC");
  EXPECT_EQ(percent_decode(""), "");
}

TEST(PercentEncoding, refuses_a_percent_sign_without_two_digits) {
  for (const char* wrong : {"%", "100%", "%2", "%zz", "%2g", "a%4"}) {
    EXPECT_FALSE(percent_decode(wrong)) << wrong;
    EXPECT_EQ(percent_decode_lenient(wrong), wrong);
  }
  EXPECT_EQ(percent_decode_lenient("100% of %41"), "100% of A");
}

TEST(ToLower, changes_ascii_letters_only) {
  EXPECT_EQ(to_lower("Content-TYPE @[`{ \xC3\x9C"), "content-type @[`{ \xC3\x9C");
}

TEST(HexDigit, is_minus_one_for_other_characters) {
  EXPECT_EQ(hex_digit('0'), 0);
  EXPECT_EQ(hex_digit('f'), 15);
  EXPECT_EQ(hex_digit('A'), 10);
  for (const char other : {'g', 'G', '@', '`', '/', ':', '\0', '\xFF'})
    EXPECT_EQ(hex_digit(other), -1) << other;
}

}  // namespace
}  // namespace twinbox
