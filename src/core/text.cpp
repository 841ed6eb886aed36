#include "core/text.hpp"

#include <algorithm>
#include <cstdint>
#include <stdexcept>

namespace twinbox {
namespace {

constexpr char32_t replacement = U'\uFFFD';
constexpr std::string_view cut_mark = "… (cut)";
constexpr std::size_t cut_mark_length = 7;

/// What the lead byte says: how many bytes follow, and what the first of them may be.
struct Lead {
  int followers;
  std::uint8_t low = 0x80;
  std::uint8_t high = 0xBF;
};

Lead lead_of(std::uint8_t byte) noexcept {
  if (byte < 0x80) return {0};
  if (byte < 0xC2) return {-1};
  if (byte < 0xE0) return {1};
  if (byte == 0xE0) return {2, 0xA0, 0xBF};
  if (byte == 0xED) return {2, 0x80, 0x9F};
  if (byte < 0xF0) return {2};
  if (byte == 0xF0) return {3, 0x90, 0xBF};
  if (byte < 0xF4) return {3};
  if (byte == 0xF4) return {3, 0x80, 0x8F};
  return {-1};
}

bool is_white_space(char32_t point) noexcept {
  return (point >= 0x09 && point <= 0x0D) || point == 0x20 || point == 0x85 || point == 0xA0 ||
         point == 0x1680 || (point >= 0x2000 && point <= 0x200A) || point == 0x2028 ||
         point == 0x2029 || point == 0x202F || point == 0x205F || point == 0x3000;
}

std::size_t units(char32_t point) noexcept { return point > 0xFFFF ? 2 : 1; }

std::string message(std::string_view noun, const std::string& rest) {
  return std::string{noun} + ": " + rest;
}

}  // namespace

CodePoint decode_utf8(std::string_view text, std::size_t at) noexcept {
  const auto byte_at = [&](std::size_t index) { return static_cast<std::uint8_t>(text[index]); };
  const std::uint8_t first = byte_at(at);
  const Lead lead = lead_of(first);
  if (lead.followers == 0) return {first, 1, true};
  if (lead.followers < 0) return {replacement, 1, false};

  const auto followers = static_cast<std::size_t>(lead.followers);
  char32_t value = first & (0x3Fu >> followers);
  for (std::size_t i = 1; i <= followers; ++i) {
    const std::uint8_t low = i == 1 ? lead.low : 0x80;
    const std::uint8_t high = i == 1 ? lead.high : 0xBF;
    if (at + i >= text.size() || byte_at(at + i) < low || byte_at(at + i) > high) {
      return {replacement, i, false};
    }
    value = (value << 6) | (byte_at(at + i) & 0x3Fu);
  }
  return {value, followers + 1, true};
}

void append_utf8(std::string& out, char32_t point) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (point < 0x80) {
    put(point);
  } else if (point < 0x800) {
    put(0xC0 | (point >> 6));
    put(0x80 | (point & 0x3F));
  } else if (point < 0x10000) {
    put(0xE0 | (point >> 12));
    put(0x80 | ((point >> 6) & 0x3F));
    put(0x80 | (point & 0x3F));
  } else {
    put(0xF0 | (point >> 18));
    put(0x80 | ((point >> 12) & 0x3F));
    put(0x80 | ((point >> 6) & 0x3F));
    put(0x80 | (point & 0x3F));
  }
}

std::optional<std::size_t> find_invalid_utf8(std::string_view text) noexcept {
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    if (!point.valid) return at;
    at += point.length;
  }
  return std::nullopt;
}

std::size_t utf16_length(std::string_view text) noexcept {
  std::size_t length = 0;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    length += units(point.value);
    at += point.length;
  }
  return length;
}

bool is_blank(std::string_view text) noexcept {
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    if (!is_white_space(point.value)) return false;
    at += point.length;
  }
  return true;
}

void check_text(std::string_view noun, std::string_view text, std::size_t limit) {
  // Almost every text is of this kind, and one look at it is enough.
  const auto is_visible_ascii = [](char c) { return c > ' ' && c < '\x7f'; };
  if (!text.empty() && text.size() <= limit && std::ranges::all_of(text, is_visible_ascii)) return;
  const auto refuse = [&](const std::string& why) {
    throw std::invalid_argument(
        message(noun, why + ", 1 to " + std::to_string(limit) + " characters are needed"));
  };
  if (text.empty()) refuse("empty");
  if (const auto at = find_invalid_utf8(text)) {
    throw std::invalid_argument(message(
        noun, "not UTF-8 (byte " + std::to_string(*at + 1) + "), only UTF-8 text is allowed"));
  }
  if (const auto at = text.find('\0'); at != std::string_view::npos) {
    throw std::invalid_argument(message(
        noun, "contains NUL (byte " + std::to_string(at + 1) + "), which no database keeps"));
  }
  if (const std::size_t length = utf16_length(text); length > limit) {
    throw std::invalid_argument(message(noun, std::to_string(length) + " characters, at most " +
                                                  std::to_string(limit) + " are allowed"));
  }
  if (is_blank(text)) refuse("only blanks");
}

std::string truncate_error(std::string_view text) {
  std::string kept;
  kept.reserve(text.size() < max_error_length ? text.size() : max_error_length);
  std::size_t length = 0;
  std::size_t room_for_mark = 0;  // where the text would end if the mark had to follow
  for (std::size_t at = 0; at < text.size();) {
    CodePoint point = decode_utf8(text, at);
    if (point.value == 0) point.value = replacement;
    length += units(point.value);
    if (length > max_error_length) {
      kept.resize(room_for_mark);
      kept += cut_mark;
      return kept;
    }
    append_utf8(kept, point.value);
    if (length + cut_mark_length <= max_error_length) room_for_mark = kept.size();
    at += point.length;
  }
  return kept;
}

}  // namespace twinbox
