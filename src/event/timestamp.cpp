#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>

#include "twinbox/event.hpp"

namespace twinbox {
namespace {

using namespace std::chrono;

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

/// Reads a time from left to right; `ok` turns false at the first thing that does not fit.
class TimeReader {
 public:
  explicit TimeReader(std::string_view text) noexcept : text_(text) {}

  int number(std::size_t digits, int low, int high) noexcept {
    int value = 0;
    for (std::size_t i = 0; i < digits; ++i) {
      if (!is_digit(peek())) return fail();
      value = value * 10 + (text_[at_++] - '0');
    }
    return value < low || value > high ? fail() : value;
  }

  void one_of(std::string_view characters) noexcept {
    if (at_ == text_.size() || characters.find(text_[at_]) == std::string_view::npos) {
      fail();
    } else {
      ++at_;
    }
  }

  /// What follows a dot, in microseconds.
  int fraction() noexcept {
    if (peek() != '.') return 0;
    ++at_;
    if (!is_digit(peek())) return fail();
    int micros = 0;
    for (int unit = 100'000; is_digit(peek()); unit /= 10) micros += (text_[at_++] - '0') * unit;
    return micros;
  }

  minutes offset() noexcept {
    const char sign = peek();
    one_of("Zz+-");
    if (!ok() || sign == 'Z' || sign == 'z') return minutes{0};
    const int hour = number(2, 0, 23);
    one_of(":");
    const minutes size = hours{hour} + minutes{number(2, 0, 59)};
    return sign == '-' ? -size : size;
  }

  [[nodiscard]] bool ok() const noexcept { return ok_; }
  [[nodiscard]] bool at_end() const noexcept { return at_ == text_.size(); }

 private:
  int fail() noexcept {
    ok_ = false;
    return 0;
  }
  [[nodiscard]] char peek() const noexcept { return at_ < text_.size() ? text_[at_] : '\0'; }

  std::string_view text_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

std::string print(Instant instant) {
  const auto day = floor<days>(instant);
  const year_month_day date{day};
  const hh_mm_ss clock{instant - day};
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02d",
                static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                static_cast<unsigned>(date.day()), static_cast<int>(clock.hours().count()),
                static_cast<int>(clock.minutes().count()),
                static_cast<int>(clock.seconds().count()));
  std::string out = text.data();
  if (const auto micros = clock.subseconds().count(); micros != 0) {
    std::snprintf(text.data(), text.size(), ".%06d", static_cast<int>(micros));
    out += text.data();
    out.erase(out.find_last_not_of('0') + 1);
  }
  return out + 'Z';
}

/// What RFC 3339 can write: four digits of the year.
constexpr Instant earliest = sys_days{year{0} / January / 1};
constexpr Instant latest = sys_days{year{10000} / January / 1} - microseconds{1};

}  // namespace

Timestamp::Timestamp(Instant instant)
    : instant_(std::clamp(instant, earliest, latest)), text_(print(instant_)) {}

std::optional<Timestamp> Timestamp::parse(std::string_view text) {
  TimeReader reader{text};
  const int y = reader.number(4, 0, 9999);
  reader.one_of("-");
  const int m = reader.number(2, 1, 12);
  reader.one_of("-");
  const int d = reader.number(2, 1, 31);
  reader.one_of("Tt");
  const int hour = reader.number(2, 0, 23);
  reader.one_of(":");
  const int minute = reader.number(2, 0, 59);
  reader.one_of(":");
  const int second = reader.number(2, 0, 60);  // 60: a leap second, which is the next one's zero
  const int micros = reader.fraction();
  const minutes offset = reader.offset();
  if (!reader.ok() || !reader.at_end()) return std::nullopt;
  const year_month_day date{year{y}, month{static_cast<unsigned>(m)},
                            day{static_cast<unsigned>(d)}};
  if (!date.ok()) return std::nullopt;
  const Instant instant = sys_days{date} + hours{hour} + minutes{minute} + seconds{second} +
                          microseconds{micros} - offset;
  return Timestamp{instant, std::string{text}};
}

}  // namespace twinbox
