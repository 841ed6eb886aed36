#include "core/text.hpp"

#include <string>

#include <gtest/gtest.h>

namespace twinbox {
namespace {

TEST(Text, finds_the_first_byte_that_is_not_utf8) {
  EXPECT_EQ(find_invalid_utf8(""), std::nullopt);
  EXPECT_EQ(find_invalid_utf8("aé€😀"), std::nullopt);
  EXPECT_EQ(find_invalid_utf8("\xF4\x8F\xBF\xBF"), std::nullopt);
  EXPECT_EQ(find_invalid_utf8("ab\x80"), 2u);
  EXPECT_EQ(find_invalid_utf8("a\xC0\xAF"), 1u) << "overlong";
  EXPECT_EQ(find_invalid_utf8("\xE0\x80\x80"), 0u) << "overlong";
  EXPECT_EQ(find_invalid_utf8("\xF0\x80\x80\x80"), 0u) << "overlong";
  EXPECT_EQ(find_invalid_utf8("\xED\xA0\x80"), 0u) << "surrogate";
  EXPECT_EQ(find_invalid_utf8("\xF4\x90\x80\x80"), 0u) << "past U+10FFFF";
  EXPECT_EQ(find_invalid_utf8("\xFF"), 0u);
  EXPECT_EQ(find_invalid_utf8("abc\xE2\x82"), 3u) << "cut off";
}

TEST(Text, counts_utf16_code_units) {
  EXPECT_EQ(utf16_length(""), 0u);
  EXPECT_EQ(utf16_length("abc"), 3u);
  EXPECT_EQ(utf16_length("é€"), 2u);
  EXPECT_EQ(utf16_length("a😀"), 3u);
}

TEST(Text, knows_the_blanks_of_unicode) {
  EXPECT_TRUE(is_blank(""));
  EXPECT_TRUE(is_blank(" \t\n\v\f\r"));
  EXPECT_TRUE(is_blank("\u0085\u00A0\u1680\u2000\u200A\u2028\u2029\u202F\u205F\u3000"));
  EXPECT_FALSE(is_blank("\u200B")) << "a zero width space is no White_Space";
  EXPECT_FALSE(is_blank(" a "));
}

TEST(Text, code_points_survive_a_round_trip) {
  for (const char32_t point : {U'a', U'\u00E9', U'\u20AC', U'\U0001F600', U'\U0010FFFF'}) {
    std::string text;
    append_utf8(text, point);
    const CodePoint read = decode_utf8(text, 0);
    EXPECT_TRUE(read.valid);
    EXPECT_EQ(read.value, point);
    EXPECT_EQ(read.length, text.size());
  }
}

TEST(ErrorText, is_kept_as_it_is_up_to_the_bound) {
  EXPECT_EQ(truncate_error(""), "");
  EXPECT_EQ(truncate_error("no route to host"), "no route to host");
  EXPECT_EQ(truncate_error(std::string(4000, 'x')), std::string(4000, 'x'));
}

TEST(ErrorText, is_cut_with_a_visible_mark_inside_the_bound) {
  const std::string cut = truncate_error(std::string(4001, 'x'));
  EXPECT_EQ(cut, std::string(3993, 'x') + "… (cut)");
  EXPECT_EQ(utf16_length(cut), 4000u);
}

TEST(ErrorText, is_cut_between_code_points) {
  std::string text = "x";
  for (int i = 0; i < 2000; ++i) text += "😀";
  const std::string cut = truncate_error(text);
  EXPECT_EQ(find_invalid_utf8(cut), std::nullopt);
  EXPECT_TRUE(cut.ends_with("😀… (cut)"));
  EXPECT_EQ(utf16_length(cut), 4000u);
}

TEST(ErrorText, is_made_valid_instead_of_refused) {
  EXPECT_EQ(truncate_error(std::string("a\0b", 3)), "a\uFFFDb");
  EXPECT_EQ(truncate_error("a\xFF\xFE!"), "a\uFFFD\uFFFD!");
  EXPECT_EQ(truncate_error("cut off \xE2\x82"), "cut off \uFFFD");
  EXPECT_EQ(find_invalid_utf8(truncate_error(std::string(5000, '\xFF'))), std::nullopt);
}

}  // namespace
}  // namespace twinbox
