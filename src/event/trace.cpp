#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "twinbox/event.hpp"

namespace twinbox {
namespace {

constexpr std::size_t parent_length = 55;
constexpr std::size_t max_state_members = 32;
constexpr std::size_t max_state_length = 512;
constexpr std::uint8_t known_flags = 0x03;

bool is_lower_hex(std::string_view text) noexcept {
  return std::ranges::all_of(
      text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

/// Of what is_lower_hex.
std::uint8_t byte_of(std::string_view digits) noexcept {
  const auto value = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  return static_cast<std::uint8_t>(value(digits[0]) << 4 | value(digits[1]));
}

/// False when they are not hexadecimal digits, or all zero.
bool read_id(std::string_view digits, std::span<std::uint8_t> id) noexcept {
  if (digits.size() != 2 * id.size() || !is_lower_hex(digits)) return false;
  for (std::size_t i = 0; i < id.size(); ++i) id[i] = byte_of(digits.substr(2 * i, 2));
  return std::ranges::any_of(id, [](std::uint8_t byte) { return byte != 0; });
}

void append_digits(std::string& out, std::span<const std::uint8_t> id) {
  constexpr std::string_view digits = "0123456789abcdef";
  for (const std::uint8_t byte : id) {
    out += digits[byte >> 4];
    out += digits[byte & 0xF];
  }
}

std::string digits_of(std::span<const std::uint8_t> id) {
  std::string out;
  append_digits(out, id);
  return out;
}

void draw(const Environment& environment, std::span<std::uint8_t> id) {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < id.size(); ++i) {
    if (i % 8 == 0) bits = environment.random_bits();
    id[i] = static_cast<std::uint8_t>(bits >> (i % 8 * 8));
  }
  // All zero means none, so the one draw in 2^64 that gives it is changed.
  if (std::ranges::all_of(id, [](std::uint8_t byte) { return byte == 0; })) id.back() = 1;
}

bool is_key_character(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '*' ||
         c == '/';
}

bool is_key_part(std::string_view part, std::size_t limit, bool digit_may_begin) noexcept {
  if (part.empty() || part.size() > limit || !std::ranges::all_of(part, is_key_character)) {
    return false;
  }
  const char first = part.front();
  return (first >= 'a' && first <= 'z') || (digit_may_begin && first >= '0' && first <= '9');
}

bool is_state_key(std::string_view key) noexcept {
  const std::size_t at = key.find('@');
  if (at == std::string_view::npos) return is_key_part(key, 256, false);
  return is_key_part(key.substr(0, at), 241, true) && is_key_part(key.substr(at + 1), 14, false);
}

bool is_state_value(std::string_view value) noexcept {
  return !value.empty() && value.size() <= 256 && value.back() != ' ' &&
         std::ranges::all_of(value,
                             [](char c) { return c >= ' ' && c <= '~' && c != ',' && c != '='; });
}

bool is_state(std::string_view text) {
  if (text.size() > max_state_length) return false;
  std::set<std::string_view> keys;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    std::string_view member = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const std::size_t begin = member.find_first_not_of(" \t");
    if (begin == std::string_view::npos) continue;  // W3C lets a member be empty
    member = member.substr(begin, member.find_last_not_of(" \t") - begin + 1);
    const std::size_t equals = member.find('=');
    if (equals == std::string_view::npos || !is_state_key(member.substr(0, equals)) ||
        !is_state_value(member.substr(equals + 1)) ||
        !keys.insert(member.substr(0, equals)).second || keys.size() > max_state_members) {
      return false;
    }
  }
  return !keys.empty();
}

thread_local std::optional<TraceContext> current;

}  // namespace

std::optional<TraceContext> TraceContext::parse(std::string_view parent, std::string_view state) {
  if (parent.size() < parent_length || parent[2] != '-' || parent[35] != '-' || parent[52] != '-') {
    return std::nullopt;
  }
  const std::string_view version = parent.substr(0, 2);
  const std::string_view flags = parent.substr(53, 2);
  if (!is_lower_hex(version) || version == "ff" || !is_lower_hex(flags)) return std::nullopt;
  // Later versions may add fields after the flags.
  const bool more = parent.size() > parent_length;
  if (more && (version == "00" || parent[parent_length] != '-')) return std::nullopt;
  TraceContext context;
  if (!read_id(parent.substr(3, 32), context.trace_id) ||
      !read_id(parent.substr(36, 16), context.span_id)) {
    return std::nullopt;
  }
  context.flags = byte_of(flags) & known_flags;
  if (is_state(state)) context.state = state;
  return context;
}

TraceContext TraceContext::start(const Environment& environment) {
  TraceContext context;
  context.flags = known_flags;
  draw(environment, context.trace_id);
  draw(environment, context.span_id);
  return context;
}

TraceContext TraceContext::child(const Environment& environment) const {
  TraceContext context = *this;
  draw(environment, context.span_id);
  return context;
}

std::string TraceContext::traceparent() const {
  const std::uint8_t shown = flags & known_flags;
  std::string out;
  out.reserve(parent_length);
  append_digits(out += "00-", trace_id);
  append_digits(out += '-', span_id);
  append_digits(out += '-', {&shown, 1});
  return out;
}

std::string TraceContext::trace_id_text() const { return digits_of(trace_id); }
std::string TraceContext::span_id_text() const { return digits_of(span_id); }

std::optional<TraceContext> current_trace() { return current; }

TraceScope::TraceScope(TraceContext context)
    : former_(std::exchange(current, std::move(context))) {}

TraceScope::~TraceScope() { current = std::move(former_); }

}  // namespace twinbox
