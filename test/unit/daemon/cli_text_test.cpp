// Text as a person reads and writes it.
#include <gtest/gtest.h>

#include "cli/text.hpp"

namespace twinbox::cli {
namespace {

using namespace std::chrono_literals;

const Instant now{std::chrono::sys_days{std::chrono::January / 15 / 2030} + 12h};

TEST(CliText, counts_the_cells_that_a_terminal_shows) {
  EXPECT_EQ(display_width("order"), 5);
  EXPECT_EQ(display_width("Größe"), 5);
  EXPECT_EQ(display_width("e\xCC\x81"), 1) << "an accent stands on its letter";
  EXPECT_EQ(display_width("注文"), 4);
  EXPECT_EQ(display_width("\xFF\xFE"), 2);
}

TEST(CliText, lets_nothing_through_that_steers_a_terminal) {
  EXPECT_EQ(printable("a\x1b[31mb"), "a\\x1b[31mb");
  EXPECT_EQ(printable("a\nb\tc"), "a\\nb\\tc");
  EXPECT_EQ(printable_lines("a\nb\x07"), "a\nb\\x07");
  EXPECT_EQ(printable("\xC2\x9B"), "\\u{9b}") << "a control sequence of one character";
  EXPECT_EQ(printable("abc\xE2\x80\xAE"), "abc\\u{202e}") << "turns the direction of writing";
  EXPECT_EQ(printable("\xC0\xAF"), "\\xc0\\xaf") << "no UTF-8";
  EXPECT_EQ(printable("Größe 注文"), "Größe 注文");
}

TEST(CliText, cuts_with_a_mark_and_never_through_a_character) {
  EXPECT_EQ(cut("order.placed", 12), "order.placed");
  EXPECT_EQ(cut("order.placed", 6), "order…");
  EXPECT_EQ(cut("注文注文", 4), "注…");
  EXPECT_EQ(cut("abc", 0), "");
  EXPECT_EQ(fit("ab", 4), "ab  ");
  EXPECT_EQ(fit("ab", 4, true), "  ab");
  EXPECT_EQ(display_width(fit("注文注文", 6)), 6);
}

TEST(CliText, tells_ages_and_sizes_in_two_units_at_most) {
  EXPECT_EQ(age_text(0us), "0 s");
  EXPECT_EQ(age_text(12ms), "12 ms");
  EXPECT_EQ(age_text(59s), "59 s");
  EXPECT_EQ(age_text(2h + 5min + 3s), "2 h 5 min");
  EXPECT_EQ(age_text(48h), "2 d");
  EXPECT_EQ(age_text(-90s), "-1 min");
  EXPECT_EQ(size_text(512), "512 B");
  EXPECT_EQ(size_text(1536), "1.5 KiB");
  EXPECT_EQ(size_text(3 * 1024 * 1024), "3.0 MiB");
  EXPECT_EQ(counted(1, "message"), "1 message");
  EXPECT_EQ(counted(2, "delivery", "deliveries"), "2 deliveries");
}

TEST(CliText, writes_instants_for_programs_and_for_people) {
  EXPECT_EQ(rfc3339(now + 7us), "2030-01-15T12:00:00.000007Z");
  EXPECT_EQ(date_text(now), "2030-01-15 12:00:00");
}

TEST(CliText, says_never_and_always_where_time_ends_and_begins) {
  EXPECT_EQ(date_text(Instant::max()), "never");
  EXPECT_EQ(date_text(Instant::min()), "always");
  EXPECT_EQ(relative_text(now - 90s, now), "1 min ago");
  EXPECT_EQ(relative_text(now, now), "0 s ago");
  EXPECT_EQ(relative_text(now + 2h, now), "in 2 h");
  EXPECT_EQ(relative_text(Instant::max(), now), "never");
  EXPECT_EQ(relative_text(Instant::min(), now), "always");
}

TEST(CliText, writes_the_ends_of_time_for_programs_as_far_as_rfc_3339_goes) {
  EXPECT_EQ(rfc3339(Instant::max()), "9999-12-31T23:59:59.999999Z");
  EXPECT_EQ(rfc3339(Instant::min()), "0000-01-01T00:00:00.000000Z");
  for (const Instant end : {Instant::max(), Instant::min()}) {
    const Instant written = parse_instant("--until", rfc3339(end), {});
    EXPECT_EQ(date_text(written), date_text(end)) << "read back, it means the same";
  }
}

TEST(CliText, reads_durations_and_names_what_was_wrong) {
  EXPECT_EQ(parse_duration("--delay", "250ms"), 250ms);
  EXPECT_EQ(parse_duration("--delay", "1h30m"), 90min);
  EXPECT_EQ(parse_duration("--delay", "7d"), 168h);
  for (const char* wrong : {"", "5", "s", "-5s", "5 parsecs", "99999999999d", "1000000000d"}) {
    EXPECT_THROW(parse_duration("--delay", wrong), std::invalid_argument) << wrong;
  }
  try {
    parse_duration("--delay", "soon");
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(
        error.what(),
        "--delay: 'soon' is invalid; expected a duration such as 250ms, 30s, 5m, 2h, 7d or "
        "1h30m");
  }
}

TEST(CliText, reads_instants_with_and_without_an_offset_and_as_time_before_now) {
  EXPECT_EQ(parse_instant("--since", "2030-01-15T12:00:00Z", {}), now);
  EXPECT_EQ(parse_instant("--since", "2030-01-15T14:00:00.5+02:00", {}), now + 500ms);
  EXPECT_EQ(parse_instant("--since", "2030-01-15 12:00", {}), now);
  EXPECT_EQ(parse_instant("--since", "2030-01-15", {}), now - 12h);
  EXPECT_EQ(parse_instant("--since", "2h", now), now - 2h);
  for (const char* wrong : {"2030-02-30", "2030-01-15T25:00", "2030-01-15T12:00:00+2", "x", ""}) {
    EXPECT_THROW(parse_instant("--since", wrong, now), std::invalid_argument) << wrong;
  }
}

TEST(CliText, finds_the_word_that_was_probably_meant) {
  const std::vector<std::string> verbs = {"list", "show", "requeue", "discard", "status"};
  EXPECT_EQ(nearest("lsit", verbs), "list");
  EXPECT_EQ(nearest("reque", verbs), "requeue");
  EXPECT_EQ(nearest("stat", verbs), "status");
  EXPECT_EQ(nearest("liste", verbs), "list");
  EXPECT_EQ(nearest("xyzzy", verbs), "");
}

}  // namespace
}  // namespace twinbox::cli
