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

}  // namespace
}  // namespace twinbox::app
