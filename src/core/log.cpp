#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

#include "core/json.hpp"
#include "core/text.hpp"
#include "twinbox/environment.hpp"

namespace twinbox {
namespace {

bool is_plain(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    if (!point.valid || point.value <= U' ' || point.value == U'"' || point.value == U'=' ||
        is_hidden(point.value))
      return false;
    at += point.length;
  }
  return !text.empty();
}

void append_escape(std::string& out, char32_t unit) {
  constexpr std::string_view digits = "0123456789abcdef";
  out += "\\u";
  for (const int shift : {12, 8, 4, 0}) out += digits[(unit >> shift) & 0xFU];
}

void append_quoted(std::string& line, std::string_view text) {
  std::string json;
  append_json_string(json, text);
  for (std::size_t at = 0; at < json.size();) {
    const CodePoint point = decode_utf8(json, at);
    at += point.length;
    if (!is_hidden(point.value)) {
      append_utf8(line, point.value);
    } else if (point.value < 0x10000) {
      append_escape(line, point.value);
    } else {
      append_escape(line, 0xD800 + ((point.value - 0x10000) >> 10));
      append_escape(line, 0xDC00 + ((point.value - 0x10000) & 0x3FF));
    }
  }
}

struct AppendTo {
  std::string& line;

  void operator()(std::string_view text) const {
    if (is_plain(text)) {
      line += text;
    } else {
      append_quoted(line, text);
    }
  }
  void operator()(std::int64_t number) const { line += std::to_string(number); }
  void operator()(double number) const {
    std::array<char, 32> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    line.append(digits.data(), end);
  }
  void operator()(bool truth) const { line += truth ? "true" : "false"; }
};

}  // namespace

bool is_hidden(char32_t code) noexcept {
  struct Range {
    char32_t first, last;
  };
  constexpr std::array<Range, 7> hidden = {{{0x7F, 0x9F},
                                            {0x061C, 0x061C},
                                            {0x200B, 0x200F},
                                            {0x2028, 0x202E},
                                            {0x2060, 0x206F},
                                            {0xFEFF, 0xFEFF},
                                            {0xE0000, 0xE007F}}};
  return std::ranges::any_of(
      hidden, [&](const Range& range) { return code >= range.first && code <= range.last; });
}

std::string_view to_string(LogLevel level) noexcept {
  switch (level) {
    case LogLevel::debug: return "debug";
    case LogLevel::info: return "info";
    case LogLevel::warning: return "warning";
    case LogLevel::error: break;
  }
  return "error";
}

std::string log_text(const LogEvent& event) {
  std::string text{event.name};
  for (const LogField& field : event.fields) {
    text.append(" ").append(field.name).append("=");
    std::visit(AppendTo{text}, field.value);
  }
  return text;
}

void log_to_stderr(const LogEvent& event) {
  std::string line = "twinbox: ";
  line.append(to_string(event.level)).append(" ").append(log_text(event)).append("\n");
  // In one write: other programs write there, too.
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace twinbox
