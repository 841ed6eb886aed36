#include "cli/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <utility>

#include <twinbox/environment.hpp>

namespace twinbox::cli {
namespace {

using namespace std::chrono_literals;

struct Decoded {
  char32_t code;
  std::size_t length;
  bool valid;
};

/// The character at the beginning of `text`, which is not empty.
Decoded decode(std::string_view text) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {first, 1, true};
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC2 ? 2 : 0;
  if (length == 0 || first > 0xF4 || text.size() < length) return {first, 1, false};
  char32_t code = first & (0x7Fu >> length);
  for (std::size_t at = 1; at < length; ++at) {
    if ((byte(at) & 0xC0) != 0x80) return {first, 1, false};
    code = (code << 6) | (byte(at) & 0x3F);
  }
  constexpr std::array<char32_t, 5> least = {0, 0, 0x80, 0x800, 0x10000};
  const bool valid =
      code >= least.at(length) && code <= 0x10FFFF && !(code >= 0xD800 && code < 0xE000);
  return valid ? Decoded{code, length, true} : Decoded{first, 1, false};
}

struct Range {
  char32_t first, last;
};

template <std::size_t n>
bool within(const std::array<Range, n>& ranges, char32_t code) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const Range& range) { return code >= range.first && code <= range.last; });
}

constexpr std::array<Range, 9> no_cells = {{{0x300, 0x36F},
                                            {0x483, 0x489},
                                            {0x591, 0x5BD},
                                            {0x610, 0x61A},
                                            {0x64B, 0x65F},
                                            {0x1AB0, 0x1AFF},
                                            {0x20D0, 0x20FF},
                                            {0xFE00, 0xFE0F},
                                            {0xFE20, 0xFE2F}}};
constexpr std::array<Range, 10> two_cells = {{{0x1100, 0x115F},
                                              {0x2E80, 0x303E},
                                              {0x3041, 0xA4CF},
                                              {0xAC00, 0xD7A3},
                                              {0xF900, 0xFAFF},
                                              {0xFE30, 0xFE6F},
                                              {0xFF00, 0xFF60},
                                              {0xFFE0, 0xFFE6},
                                              {0x1F300, 0x1FAFF},
                                              {0x20000, 0x3FFFD}}};
int cells(char32_t code) {
  if (within(no_cells, code)) return 0;
  return within(two_cells, code) ? 2 : 1;
}

std::string escaped(const Decoded& one) {
  std::array<char, 16> text{};
  const char* format = one.valid && one.code >= 0x80 ? "\\u{%x}" : "\\x%02x";
  std::snprintf(text.data(), text.size(), format, static_cast<unsigned>(one.code));
  return text.data();
}

std::string shown(std::string_view text, bool lines) {
  std::string result;
  while (!text.empty()) {
    const Decoded one = decode(text);
    if (one.code == '\n' || one.code == '\t') {
      result += lines ? std::string(1, text[0]) : one.code == '\n' ? "\\n" : "\\t";
    } else if (!one.valid || one.code < 0x20 || is_hidden(one.code)) {
      result += escaped(one);
    } else {
      result += text.substr(0, one.length);
    }
    text.remove_prefix(one.length);
  }
  return result;
}

std::string padded(int number, int digits) {
  std::string text = std::to_string(number);
  return std::string(static_cast<std::size_t>(std::max(0, digits - static_cast<int>(text.size()))),
                     '0') +
         text;
}

/// The range of RFC 3339: years of four digits.
constexpr Instant earliest = std::chrono::sys_days{std::chrono::January / 1 / 0};
constexpr Instant latest = std::chrono::sys_days{std::chrono::January / 1 / 10000} - 1us;

std::string day_text(Instant instant) {
  const auto day = std::chrono::floor<std::chrono::days>(instant);
  const std::chrono::year_month_day date{day};
  return padded(static_cast<int>(date.year()), 4) + "-" +
         padded(static_cast<int>(static_cast<unsigned>(date.month())), 2) + "-" +
         padded(static_cast<int>(static_cast<unsigned>(date.day())), 2);
}

std::string clock_text(Instant instant) {
  const auto since = instant - std::chrono::floor<std::chrono::days>(instant);
  const std::chrono::hh_mm_ss time{since};
  return padded(static_cast<int>(time.hours().count()), 2) + ":" +
         padded(static_cast<int>(time.minutes().count()), 2) + ":" +
         padded(static_cast<int>(time.seconds().count()), 2);
}

std::string in_units(std::int64_t large, std::string_view large_unit, std::int64_t small,
                     std::string_view small_unit) {
  std::string text = std::to_string(large) + " " + std::string{large_unit};
  if (small > 0) text += " " + std::to_string(small) + " " + std::string{small_unit};
  return text;
}

[[noreturn]] void refuse(std::string_view what, std::string_view text, std::string_view expected) {
  throw std::invalid_argument(std::string{what} + ": '" + printable(text) + "' is invalid; " +
                              std::string{expected});
}

std::optional<int> number(std::string_view text, std::size_t at, std::size_t digits) {
  int value = 0;
  if (text.size() < at + digits) return std::nullopt;
  const char* begin = text.data() + at;
  const auto [end, error] = std::from_chars(begin, begin + digits, value);
  if (error != std::errc{} || end != begin + digits || *begin == '-') return std::nullopt;
  return value;
}

std::optional<Instant> parse_day(std::string_view text) {
  const auto year = number(text, 0, 4);
  const auto month = number(text, 5, 2);
  const auto day = number(text, 8, 2);
  if (!year || !month || !day || text[4] != '-' || text[7] != '-') return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year{*year},
                                         std::chrono::month{static_cast<unsigned>(*month)},
                                         std::chrono::day{static_cast<unsigned>(*day)}};
  if (!date.ok()) return std::nullopt;
  return Instant{std::chrono::sys_days{date}};
}

/// `Z`, `+02:00`, or nothing, which means UTC.
std::optional<Duration> parse_offset(std::string_view text) {
  if (text.empty() || text == "Z" || text == "z") return Duration{0};
  const auto hours = number(text, 1, 2);
  const auto minutes = number(text, 4, 2);
  if (text.size() != 6 || !hours || !minutes || text[3] != ':') return std::nullopt;
  const Duration offset = std::chrono::hours{*hours} + std::chrono::minutes{*minutes};
  if (text[0] == '+') return offset;
  return text[0] == '-' ? std::optional{-offset} : std::nullopt;
}

std::optional<Instant> parse_date(std::string_view text) {
  if (text.size() < 10) return std::nullopt;
  auto instant = parse_day(text);
  if (!instant || text.size() == 10) return instant;
  const auto hour = number(text, 11, 2);
  const auto minute = number(text, 14, 2);
  if (!hour || !minute || *hour > 23 || *minute > 59 || text[13] != ':') return std::nullopt;
  if (text[10] != 'T' && text[10] != 't' && text[10] != ' ') return std::nullopt;
  *instant += std::chrono::hours{*hour} + std::chrono::minutes{*minute};
  std::string_view rest = text.substr(16);
  if (rest.starts_with(':')) {
    const auto second = number(rest, 1, 2);
    if (!second || *second > 60) return std::nullopt;
    *instant += std::chrono::seconds{*second};
    rest.remove_prefix(3);
  }
  if (rest.starts_with('.')) {
    std::int64_t unit = 100'000;
    for (rest.remove_prefix(1); !rest.empty() && rest[0] >= '0' && rest[0] <= '9';
         rest.remove_prefix(1), unit /= 10) {
      *instant += Duration{unit * (rest[0] - '0')};
    }
  }
  const auto offset = parse_offset(rest);
  if (!offset) return std::nullopt;
  return *instant - *offset;
}

std::optional<Duration> unit_of(std::string_view name) {
  if (name == "ms") return Duration{1ms};
  if (name == "s") return Duration{1s};
  if (name == "m" || name == "min") return Duration{1min};
  if (name == "h") return Duration{1h};
  if (name == "d") return Duration{24h};
  return std::nullopt;
}

std::optional<Duration> parse_span(std::string_view text) {
  Duration total{0};
  if (text.empty()) return std::nullopt;
  while (!text.empty()) {
    std::int64_t count = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    // Keeps the sums below from overflowing.
    if (error != std::errc{} || count < 0 || count > 1'000'000'000) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    const std::size_t letters = std::min(text.find_first_of("0123456789"), text.size());
    const auto unit = unit_of(text.substr(0, letters));
    if (!unit) return std::nullopt;
    if (count > Duration{std::chrono::hours{24 * 36500}} / *unit) return std::nullopt;
    total += count * *unit;
    if (total > std::chrono::hours{24 * 36500}) return std::nullopt;
    text.remove_prefix(letters);
  }
  return total;
}

}  // namespace

int display_width(std::string_view text) {
  int width = 0;
  while (!text.empty()) {
    const Decoded one = decode(text);
    width += one.valid ? cells(one.code) : 1;
    text.remove_prefix(one.length);
  }
  return width;
}

std::string printable(std::string_view text) { return shown(text, false); }
std::string printable_lines(std::string_view text) { return shown(text, true); }

std::string cut(std::string_view text, int width) {
  std::string whole = printable(text);
  if (display_width(whole) <= width) return whole;
  std::string result;
  int used = 0;
  for (std::string_view rest = whole; !rest.empty();) {
    const Decoded one = decode(rest);
    used += cells(one.code);
    if (used > width - 1) break;
    result += rest.substr(0, one.length);
    rest.remove_prefix(one.length);
  }
  return width > 0 ? result + "…" : std::string{};
}

std::string fit(std::string_view text, int width, bool right) {
  const std::string shortened = cut(text, width);
  const int missing = std::max(0, width - display_width(shortened));
  const std::string space(static_cast<std::size_t>(missing), ' ');
  return right ? space + shortened : shortened + space;
}

std::string rfc3339(Instant instant) {
  instant = std::clamp(instant, earliest, latest);
  const auto micros = (instant - std::chrono::floor<std::chrono::seconds>(instant)).count();
  return day_text(instant) + "T" + clock_text(instant) + "." + padded(static_cast<int>(micros), 6) +
         "Z";
}

bool is_end_of_time(Instant instant) { return instant <= earliest || instant >= latest; }

std::string date_text(Instant instant) {
  if (is_end_of_time(instant)) return instant < Instant{} ? "always" : "never";
  return day_text(instant) + " " + clock_text(instant);
}

std::string relative_text(Instant instant, Instant now) {
  if (is_end_of_time(instant)) return date_text(instant);
  return instant <= now ? age_text(now - instant) + " ago" : "in " + age_text(instant - now);
}

std::string age_text(Duration age) {
  if (age < Duration::zero()) return "-" + age_text(-age);
  if (age < 1ms) return "0 s";
  if (age < 1s) return std::to_string(age / 1ms) + " ms";
  if (age < 1min) return std::to_string(age / 1s) + " s";
  if (age < 1h) return std::to_string(age / 1min) + " min";
  if (age < 24h) return in_units(age / 1h, "h", age % 1h / 1min, "min");
  return in_units(age / 24h, "d", age % 24h / 1h, "h");
}

std::string size_text(std::int64_t bytes) {
  constexpr std::array<const char*, 4> units = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return std::to_string(bytes) + " B";
  double size = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; size >= 1024 && unit + 1 < units.size(); ++unit) size /= 1024;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f %s", size, units.at(unit));
  return text.data();
}

std::string counted(std::int64_t count, std::string_view one, std::string_view many) {
  std::string text = std::to_string(count) + " ";
  if (count == 1) return text += one;
  return many.empty() ? text + std::string{one} + "s" : text + std::string{many};
}

Duration parse_duration(std::string_view what, std::string_view text) {
  if (const auto span = parse_span(text)) return *span;
  refuse(what, text, "expected a duration such as 250ms, 30s, 5m, 2h, 7d or 1h30m");
}

Instant parse_instant(std::string_view what, std::string_view text, std::optional<Instant> now) {
  if (const auto date = parse_date(text)) return *date;
  if (!now) refuse(what, text, "expected a time such as 2026-11-15T20:31:07Z or a date");
  if (const auto span = parse_span(text)) return *now - *span;
  refuse(
      what, text,
      "expected a time such as 2026-11-15T20:31:07Z, a date, or a duration before now such as 2h");
}

std::string shell_word(std::string_view text) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=,@+%";
  if (!text.empty() && text.find_first_not_of(plain) == std::string_view::npos)
    return std::string{text};
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? "'\\''" : std::string{c};
  return word + "'";
}

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 2);
  for (const std::string& candidate : known) {
    std::vector<std::size_t> row(candidate.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= word.size(); ++i) {
      std::size_t diagonal = std::exchange(row[0], i);
      for (std::size_t j = 1; j <= candidate.size(); ++j) {
        const std::size_t replaced = diagonal + (word[i - 1] == candidate[j - 1] ? 0 : 1);
        diagonal = row[j];
        row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
      }
    }
    const bool begins = candidate.starts_with(word) && word.size() > 1;
    const std::size_t distance = begins ? 1 : row.back();
    if (distance < best_distance || (best.empty() && distance == best_distance)) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace twinbox::cli
