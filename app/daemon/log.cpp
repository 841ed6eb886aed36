#include "daemon/log.hpp"

#include <algorithm>
#include <array>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "daemon/config/secrets.hpp"
#include "daemon/http/json.hpp"
#include "twinbox/environment.hpp"

namespace twinbox::app {
namespace {

std::string timestamp(Instant now) {
  const auto day = std::chrono::floor<std::chrono::days>(now);
  const std::chrono::year_month_day date{day};
  const std::chrono::hh_mm_ss time{std::chrono::floor<std::chrono::milliseconds>(now - day)};
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     time.hours().count(), time.minutes().count(), time.seconds().count(),
                     time.subseconds().count());
}

/// The first character of `text`, which is valid UTF-8, and its length in bytes.
std::pair<char32_t, std::size_t> first_code(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t length = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  char32_t code = length == 1 ? first : first & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    code = (code << 6) | (static_cast<unsigned char>(text[i]) & 0x3FU);
  }
  return {code, length};
}

bool holds_hidden(std::string_view text) {
  while (!text.empty()) {
    const auto [code, length] = first_code(text);
    if (is_hidden(code)) return true;
    text.remove_prefix(length);
  }
  return false;
}

/// JSON text with escaped control characters, so that client input cannot control a terminal.
std::string escape_hidden(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto [code, length] = first_code(text);
    if (!is_hidden(code)) {
      out += text.substr(0, length);
    } else if (code < 0x10000) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(code));
    } else {
      const unsigned above = static_cast<unsigned>(code) - 0x10000;
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (above >> 10), 0xDC00 + (above & 0x3FF));
    }
    text.remove_prefix(length);
  }
  return out;
}

std::string json_text(std::string_view text) {
  if (!is_utf8(text)) {  // the log stays valid text for any request target
    std::string clean{text};
    for (char& c : clean) {
      if (static_cast<unsigned char>(c) >= 0x80) c = '?';
    }
    return json_text(clean);
  }
  std::string quoted = boost::json::serialize(boost::json::string_view{text.data(), text.size()});
  return holds_hidden(quoted) ? escape_hidden(quoted) : quoted;
}

bool plain(std::string_view text) {
  if (text.empty()) return false;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) <= 0x20 || c == '"' || c == '=') return false;
  }
  return is_utf8(text) && !holds_hidden(text);
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
  const std::string_view level = to_string(event.level);
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

std::string logged_target(std::string_view target) {
  constexpr std::size_t most = 256;
  constexpr std::array<std::string_view, 7> harmless{"store", "box",   "state", "topic",
                                                     "limit", "after", "span"};
  const std::size_t mark = std::min(target.find('?'), target.size());
  std::string text{target.substr(0, std::min(mark + 1, target.size()))};
  std::string_view query = target.substr(text.size());
  while (!query.empty() && text.size() <= most) {
    const std::string_view pair = query.substr(0, query.find('&'));
    const std::size_t equals = pair.find('=');
    if (std::ranges::find(harmless, pair.substr(0, equals)) != harmless.end()) {
      text += pair;
    } else if (equals == std::string_view::npos) {
      text += "…";
    } else {
      text.append(pair.substr(0, equals + 1)).append("…");
    }
    query.remove_prefix(pair.size());
    if (query.empty()) break;
    text += '&';
    query.remove_prefix(1);
  }
  if (text.size() <= most) return text;
  std::size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end) + "…";
}

struct Log::Sink {
  std::shared_ptr<spdlog::logger> logger;  // shared with spdlog's registry
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
    if (event.name == "conflict") ++conflicts_;
    const bool of_one_message =
        event.name == "enqueue" || event.name == "accept" || event.name == "handle";
    if (of_one_message && event.level == LogLevel::info && !messages_) return;
    write(event);
  };
  environment.log_level = LogLevel::debug;
  return environment;
}

}  // namespace twinbox::app
