#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "twinbox/environment.hpp"

namespace twinbox {
namespace {

std::string text_of(std::vector<LogField> fields) {
  return log_text({LogLevel::info, "claim", fields});
}

TEST(LogText, is_the_event_and_its_fields) {
  EXPECT_EQ(text_of({}), "claim");
  EXPECT_EQ(text_of({{"store", std::string_view{"main"}},
                     {"count", std::int64_t{-3}},
                     {"share", 0.25},
                     {"full", true},
                     {"topic", std::string_view{"größe/☃"}}}),
            "claim store=main count=-3 share=0.25 full=true topic=größe/☃");
}

TEST(LogText, quotes_what_could_be_taken_for_something_else) {
  EXPECT_EQ(text_of({{"a", std::string_view{}},
                     {"b", std::string_view{"two words"}},
                     {"c", std::string_view{"x=y"}},
                     {"d", std::string_view{"say \"no\"\\"}}}),
            R"(claim a="" b="two words" c="x=y" d="say \"no\"\\")");
}

TEST(LogText, shows_no_terminal_what_it_could_obey) {
  EXPECT_EQ(text_of({{"a", std::string_view{"\x1b[2J\n\r\x7f"}},
                     {"b", std::string_view{"\u202Egnp\u200B"}},
                     {"c", std::string_view{"\U000E0041"}},
                     {"d", std::string_view{"\xff"}}}),
            R"(claim a="\u001b[2J\n\r\u007f" b="\u202egnp\u200b" c="\udb40\udc41" d=")"
            "\uFFFD\"");
}

std::string on_stderr(const Environment& environment) {
  testing::internal::CaptureStderr();
  for (const LogLevel level : {LogLevel::debug, LogLevel::info, LogLevel::warning, LogLevel::error})
    environment.write(level, "claim", {{"count", std::int64_t{1}}});
  return testing::internal::GetCapturedStderr();
}

TEST(LogToStderr, is_what_an_environment_does_with_warnings_and_errors_by_itself) {
  EXPECT_EQ(on_stderr({}),
            "twinbox: warning claim count=1\n"
            "twinbox: error claim count=1\n");
  EXPECT_EQ(on_stderr({.log_level = LogLevel::error}), "twinbox: error claim count=1\n");
}

TEST(LogToStderr, is_silent_where_the_log_is_a_function_that_does_nothing) {
  EXPECT_EQ(on_stderr({.log = [](const LogEvent&) {}}), "");
}

TEST(LogToStderr, writes_every_level_that_the_environment_lets_through) {
  EXPECT_EQ(on_stderr({.log = log_to_stderr, .log_level = LogLevel::debug}),
            "twinbox: debug claim count=1\n"
            "twinbox: info claim count=1\n"
            "twinbox: warning claim count=1\n"
            "twinbox: error claim count=1\n");
}

}  // namespace
}  // namespace twinbox
