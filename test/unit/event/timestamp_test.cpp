#include <gtest/gtest.h>

#include <twinbox/event.hpp>

namespace twinbox {
namespace {

using namespace std::chrono;

constexpr Instant at(int y, unsigned m, unsigned d, microseconds rest = {}) {
  return sys_days{year{y} / month{m} / day{d}} + rest;
}

TEST(Timestamp, reads_rfc_3339_and_keeps_it_as_it_came) {
  const struct {
    const char* text;
    Instant instant;
  } examples[] = {
      {"1985-04-12T23:20:50.52Z", at(1985, 4, 12, 23h + 20min + 50s + 520ms)},
      {"1996-12-19T16:39:57-08:00", at(1996, 12, 20, 0h + 39min + 57s)},
      {"1990-12-31T23:59:60Z", at(1991, 1, 1)},
      {"1937-01-01T12:00:27.87+00:20", at(1937, 1, 1, 11h + 40min + 27s + 870ms)},
      {"2018-04-05t17:31:00z", at(2018, 4, 5, 17h + 31min)},
      {"2024-02-29T00:00:00.1234567890123Z", at(2024, 2, 29, 123'456us)},
      {"0000-01-01T00:00:00Z", at(0, 1, 1)},
      {"9999-12-31T23:59:59.999999Z", at(9999, 12, 31, 24h - 1us)},
      {"2018-04-05T17:31:00-00:00", at(2018, 4, 5, 17h + 31min)},
  };
  for (const auto& example : examples) {
    const auto time = Timestamp::parse(example.text);
    ASSERT_TRUE(time) << example.text;
    EXPECT_EQ(time->instant(), example.instant) << example.text;
    EXPECT_EQ(time->str(), example.text);
  }
}

TEST(Timestamp, refuses_what_is_no_date_and_time_with_an_offset) {
  for (const char* text : {"",
                           "2018-04-05",
                           "2018-04-05T17:31:00",
                           "2018-04-05 17:31:00Z",
                           "2018-04-05T17:31Z",
                           "2018-02-29T00:00:00Z",
                           "2018-13-01T00:00:00Z",
                           "2018-00-01T00:00:00Z",
                           "2018-04-31T00:00:00Z",
                           "2018-04-05T24:00:00Z",
                           "2018-04-05T17:60:00Z",
                           "2018-04-05T17:31:61Z",
                           "2018-04-05T17:31:00.Z",
                           "2018-04-05T17:31:00+24:00",
                           "2018-04-05T17:31:00+0100",
                           "2018-04-05T17:31:00+01",
                           "2018-04-05T17:31:00Z ",
                           " 2018-04-05T17:31:00Z",
                           "18-04-05T17:31:00Z",
                           "+2018-04-05T17:31:00Z",
                           "2018-4-5T17:31:00Z",
                           "2018-04-05T17:31:00ZZ",
                           "yesterday"}) {
    EXPECT_FALSE(Timestamp::parse(text)) << text;
  }
}

TEST(Timestamp, prints_as_many_digits_as_it_needs) {
  EXPECT_EQ(Timestamp{at(2018, 4, 5)}.str(), "2018-04-05T00:00:00Z");
  EXPECT_EQ(Timestamp{at(2018, 4, 5, 500ms)}.str(), "2018-04-05T00:00:00.5Z");
  EXPECT_EQ(Timestamp{at(1969, 12, 31, 23h + 1us)}.str(), "1969-12-31T23:00:00.000001Z");
  EXPECT_EQ(Timestamp{Instant::max()}.str(), "9999-12-31T23:59:59.999999Z");
  EXPECT_EQ(Timestamp{Instant::min()}.str(), "0000-01-01T00:00:00Z");
}

TEST(Timestamp, what_it_prints_it_reads) {
  for (std::int64_t micros = -62'135'596'800'000'000; micros < 200'000'000'000'000'000;
       micros += 98'765'432'101'234) {
    const Timestamp time{Instant{microseconds{micros}}};
    ASSERT_EQ(Timestamp::parse(time.str()), time) << time.str();
  }
}

}  // namespace
}  // namespace twinbox
