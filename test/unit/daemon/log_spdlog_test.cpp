#include <spdlog/sinks/ostream_sink.h>
#include <sstream>

#include <gtest/gtest.h>

#include <twinbox/spdlog.hpp>

namespace twinbox {
namespace {

TEST(LogToSpdlog, gives_each_event_to_the_logger_at_its_level_and_as_it_is) {
  std::ostringstream out;
  const auto logger = std::make_shared<spdlog::logger>(
      "shop", std::make_shared<spdlog::sinks::ostream_sink_mt>(out));
  logger->set_pattern("%n %l %v");
  logger->set_level(spdlog::level::info);
  const Environment environment{.log = log_to_spdlog(logger), .log_level = LogLevel::debug};
  for (const LogLevel level : {LogLevel::debug, LogLevel::info, LogLevel::warning, LogLevel::error})
    environment.write(level, "claim", {{"topic", std::string_view{"{} %v\n"}}});
  EXPECT_EQ(out.str(),
            "shop info claim topic=\"{} %v\\n\"\n"
            "shop warning claim topic=\"{} %v\\n\"\n"
            "shop error claim topic=\"{} %v\\n\"\n");
}

}  // namespace
}  // namespace twinbox
