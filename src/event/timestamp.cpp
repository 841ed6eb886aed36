#include <algorithm>
#include <chrono>
#include <cstdint>

#include "twinbox/event.hpp"

namespace twinbox {
namespace {

using namespace std::chrono;

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

/// Reads a time from left to right; `ok` turns false at the first mismatch.
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

  /// The fraction after a dot, in microseconds.
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

/// `value`, which has no more, in that many digits.
void append(std::string& out, std::int64_t value, std::size_t digits) {
  out.append(digits, '0');
  for (auto at = out.rbegin(); value > 0; ++at, value /= 10) {
    *at = static_cast<char>('0' + value % 10);
  }
}

std::string print(Instant instant) {
  const auto day = floor<days>(instant);
  const year_month_day date{day};
  const hh_mm_ss clock{instant - day};
  std::string out;
  out.reserve(27);
  append(out, static_cast<int>(date.year()), 4);
  append(out += '-', static_cast<unsigned>(date.month()), 2);
  append(out += '-', static_cast<unsigned>(date.day()), 2);
  append(out += 'T', clock.hours().count(), 2);
  append(out += ':', clock.minutes().count(), 2);
  append(out += ':', clock.seconds().count(), 2);
  if (const auto micros = clock.subseconds().count(); micros != 0) {
    append(out += '.', micros, 6);
    out.erase(out.find_last_not_of('0') + 1);
  }
  return out + 'Z';
}

/// The range of RFC 3339: four digits of the year.
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
