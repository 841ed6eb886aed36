#include "transport/http/retry_after.hpp"

#include <gtest/gtest.h>

namespace twinbox {
namespace {

using namespace std::chrono_literals;

constexpr Instant now = std::chrono::sys_days{std::chrono::November / 6 / 1994} + 8h + 49min + 7s;

TEST(RetryAfter, takes_seconds) {
  EXPECT_EQ(parse_retry_after("120", now), 120s);
  EXPECT_EQ(parse_retry_after(" 7\t", now), 7s);
  EXPECT_EQ(parse_retry_after("0", now), 0s);
}

TEST(RetryAfter, takes_each_form_of_a_date) {
  EXPECT_EQ(parse_retry_after("Sun, 06 Nov 1994 08:49:37 GMT", now), 30s);
  EXPECT_EQ(parse_retry_after("Sunday, 06-Nov-94 08:49:37 GMT", now), 30s);
  EXPECT_EQ(parse_retry_after("Sun Nov  6 08:49:37 1994", now), 30s);
  EXPECT_EQ(parse_retry_after("Mon, 07 Nov 1994 08:49:07 GMT", now), 24h);
}

TEST(RetryAfter, is_now_for_a_date_in_the_past) {
  EXPECT_EQ(parse_retry_after("Sun, 06 Nov 1994 08:00:00 GMT", now), 0s);
}

TEST(RetryAfter, reads_two_digits_as_the_nearest_year) {
  const Instant later = std::chrono::sys_days{std::chrono::January / 1 / 2030};
  EXPECT_EQ(parse_http_date("Tuesday, 01-Jan-30 00:00:01 GMT", later), later + 1s);
  EXPECT_EQ(parse_http_date("Saturday, 01-Jan-94 00:00:00 GMT", later),
            Instant{std::chrono::sys_days{std::chrono::January / 1 / 1994}});
}

TEST(RetryAfter, is_empty_for_anything_else) {
  for (const char* text : {"",
                           " ",
                           "soon",
                           "-1",
                           "+1",
                           "1.5",
                           "12s",
                           "99999999999999999999",
                           "99999999999999",
                           "2un Nov  6 08:49:37 1994",
                           "Xyz, 06 Nov 1994 08:49:37 GMT",
                           "Sun, 31 Feb 1994 08:49:37 GMT",
                           "Sun, 06 Nov 1994 24:00:00 GMT",
                           "Sun, 06 Nov 1994 08:60:00 GMT",
                           "Sun, 06 Nov 1994 08:49:37",
                           "Sun, 06 Nov 1994 08:49:37 CET",
                           "Sun, 6 Nov 1994 08:49:37 GMT",
                           "Sun, 06 nov 1994 08:49:37 GMT",
                           "Sun Nov 6 08:49:37 1994",
                           "Sunday, 06-Nov-1994 08:49:37 GMT",
                           ",",
                           "Sun,",
                           "Sun, 06 Nov 1994 08:49:37 GMT x"}) {
    EXPECT_FALSE(parse_retry_after(text, now)) << text;
  }
}

}  // namespace
}  // namespace twinbox
