#include "daemon/log.hpp"

#include <gtest/gtest.h>

namespace twinbox::app {
namespace {

using namespace std::chrono_literals;

constexpr Instant moment = std::chrono::sys_days{std::chrono::year{2026} / 1 / 31} + 13h + 7ms;

std::string line(bool json) {
  const LogField fields[] = {{"store", "main"}, {"error", "no such \"table\"\nhere"},
                             {"empty", ""},     {"count", std::int64_t{3}},
                             {"share", 0.5},    {"last", true}};
  return log_line({LogLevel::warning, "claim", fields}, json, moment);
}

TEST(LogLine, reads_well_as_text) {
  EXPECT_EQ(line(false),
            "2026-01-31T13:00:00.007Z warning claim store=main error=\"no such "
            "\\\"table\\\"\\nhere\" empty=\"\" count=3 share=0.5 last=true");
}

TEST(LogLine, is_one_object_as_json) {
  EXPECT_EQ(line(true), R"({"time":"2026-01-31T13:00:00.007Z","level":"warning","event":"claim",)"
                        R"("store":"main","error":"no such \"table\"\nhere","empty":"","count":3,)"
                        R"("share":0.5,"last":true})");
}

TEST(LogLine, stays_text_whatever_it_is_given) {
  const LogField fields[] = {{"target", "/\xff\xc3"}, {"good", "\xc3\xa9"}};
  const LogEvent event{LogLevel::info, "request", fields};
  EXPECT_EQ(log_line(event, false, moment),
            "2026-01-31T13:00:00.007Z info    request target=\"/??\" good=\xc3\xa9");
}

TEST(LogLine, escapes_what_a_terminal_would_obey) {
  // NEL, CSI, right-to-left override, isolate, Arabic letter mark, line separator, DEL, a tag.
  const LogField fields[] = {{"a", "x\xc2\x85y"},
                             {"b",
                              "\xc2\x9b"
                              "2J"},
                             {"c",
                              "\xe2\x80\xae"
                              "gpj"},
                             {"d", "\xe2\x81\xa6 \xd8\x9c"},
                             {"e", "\xe2\x80\xa8\x7f"},
                             {"f", "\xf3\xa0\x80\x81"}};
  const LogEvent event{LogLevel::info, "request", fields};
  EXPECT_EQ(log_line(event, false, moment),
            "2026-01-31T13:00:00.007Z info    request a=\"x\\u0085y\" b=\"\\u009b2J\" "
            "c=\"\\u202egpj\" d=\"\\u2066 \\u061c\" e=\"\\u2028\\u007f\" f=\"\\udb40\\udc01\"");
  EXPECT_NE(log_line(event, true, moment).find(R"("c":"\u202egpj")"), std::string::npos);
}

TEST(LoggedTarget, keeps_no_value_that_may_be_a_secret) {
  EXPECT_EQ(logged_target("/v1/messages?store=main&state=dead"),
            "/v1/messages?store=main&state=dead");
  EXPECT_EQ(logged_target("/v1/overview/stream?token=twb_secret"), "/v1/overview/stream?token=…");
  EXPECT_EQ(logged_target("/a?%74oken=s&store=b&twb_secret&=x"), "/a?%74oken=…&store=b&…&=…");
  EXPECT_EQ(logged_target("/a?"), "/a?");
}

TEST(LoggedTarget, is_cut) {
  EXPECT_EQ(logged_target("/" + std::string(255, 'a')), "/" + std::string(255, 'a'));
  EXPECT_EQ(logged_target("/" + std::string(256, 'a')), "/" + std::string(255, 'a') + "…");
  EXPECT_EQ(logged_target("/?token=" + std::string(9000, 'a')), "/?token=…");
}

}  // namespace
}  // namespace twinbox::app
