#include "daemon/log.hpp"

#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "daemon/json.hpp"
#include "daemon/secrets.hpp"

namespace twinbox::app {
namespace {

std::string_view to_text(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return "debug";
    case LogLevel::info: return "info";
    case LogLevel::warning: return "warning";
    case LogLevel::error: return "error";
  }
  return "info";
}

std::string timestamp(Instant now) {
  const auto day = std::chrono::floor<std::chrono::days>(now);
  const std::chrono::year_month_day date{day};
  const std::chrono::hh_mm_ss time{std::chrono::floor<std::chrono::milliseconds>(now - day)};
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     time.hours().count(), time.minutes().count(), time.seconds().count(),
                     time.subseconds().count());
}

std::string json_text(std::string_view text) {
  if (!is_utf8(text)) {  // a log is text, whatever a client sends as its target
    std::string clean{text};
    for (char& c : clean) {
      if (static_cast<unsigned char>(c) >= 0x80) c = '?';
    }
    return json_text(clean);
  }
  return boost::json::serialize(boost::json::string_view{text.data(), text.size()});
}

bool plain(std::string_view text) {
  if (text.empty()) return false;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) <= 0x20 || c == '"' || c == '=' || c == 0x7f) return false;
  }
  return is_utf8(text);
}

struct Show {
  bool json;
  std::string operator()(std::string_view secret_or_not) const {
    const std::string text = without_secrets(secret_or_not);
    return !json && plain(text) ? text : json_text(text);
  }
  std::string operator()(std::int64_t number) const { return std::to_string(number); }
  std::string operator()(double number) const { return fmt::format("{}", number); }
  std::string operator()(bool truth) const { return truth ? "true" : "false"; }
};

}  // namespace

std::string log_line(const LogEvent& event, bool json, Instant now) {
  const std::string_view level = to_text(event.level);
  if (!json) {
    std::string line = fmt::format("{} {:<7} {}", timestamp(now), level, event.name);
    for (const LogField& field : event.fields) {
      line.append(" ").append(field.name).append("=");
      line += std::visit(Show{false}, field.value);
    }
    return line;
  }
  std::string line = R"({"time":")" + timestamp(now) + R"(","level":")";
  line.append(level).append(R"(","event":)").append(json_text(event.name));
  for (const LogField& field : event.fields) {
    line.append(",").append(json_text(field.name)).append(":");
    line += std::visit(Show{true}, field.value);
  }
  return line + "}";
}

struct Log::Sink {
  std::shared_ptr<spdlog::logger> logger;  // shared with spdlog's own registry, if anybody asks it
};

Log::Log(const LogConfig& config)
    : sink_(std::make_unique<Sink>()),
      json_(config.json),
      access_(config.access),
      messages_(config.messages),
      level_(config.level) {
  sink_->logger = std::make_shared<spdlog::logger>(
      "twinbox", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  sink_->logger->set_pattern("%v");
  sink_->logger->set_level(spdlog::level::trace);
}

Log::~Log() = default;

void Log::set(const LogConfig& config) {
  json_ = config.json;
  access_ = config.access;
  messages_ = config.messages;
  level_ = config.level;
}

void Log::write(const LogEvent& event) {
  if (event.level < level_) return;
  const auto now = std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now());
  sink_->logger->info("{}", log_line(event, json_, now));
}

void Log::write(LogLevel level, std::string_view name, std::initializer_list<LogField> fields) {
  write({level, name, {fields.begin(), fields.size()}});
}

Environment Log::environment() {
  Environment environment;
  environment.log = [this](const LogEvent& event) {
    const bool of_one_message =
        event.name == "enqueue" || event.name == "accept" || event.name == "handle";
    if (of_one_message && event.level == LogLevel::info && !messages_) return;
    write(event);
  };
  environment.log_level = LogLevel::debug;
  return environment;
}

}  // namespace twinbox::app
