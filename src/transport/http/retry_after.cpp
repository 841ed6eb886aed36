#include "transport/http/retry_after.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>

namespace twinbox {
namespace {

using namespace std::chrono;

constexpr std::array<std::string_view, 12> months{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                  "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

constexpr std::array<std::string_view, 7> weekdays{"Monday", "Tuesday",  "Wednesday", "Thursday",
                                                   "Friday", "Saturday", "Sunday"};

/// In full, or its first three letters.
bool is_weekday(std::string_view text) noexcept {
  return std::ranges::any_of(
      weekdays, [&](std::string_view name) { return text == name || text == name.substr(0, 3); });
}

/// Reads a text of fixed columns from left to right; one mismatch invalidates it.
class Columns {
 public:
  explicit Columns(std::string_view text) noexcept : text_(text) {}

  void literal(std::string_view expected) noexcept {
    if (!text_.starts_with(expected)) {
      good_ = false;
      return;
    }
    text_.remove_prefix(expected.size());
  }
  void skip(std::size_t count) noexcept {
    if (text_.size() < count) good_ = false;
    text_.remove_prefix(std::min(count, text_.size()));
  }
  int number(std::size_t width, bool space_padded = false) noexcept {
    std::string_view digits = text_.substr(0, width);
    if (digits.size() < width) good_ = false;
    skip(width);
    if (space_padded && digits.starts_with(' ')) digits.remove_prefix(1);
    int value = 0;
    for (const char c : digits) {
      if (c < '0' || c > '9') {
        good_ = false;
        return 0;
      }
      value = value * 10 + (c - '0');
    }
    return value;
  }
  unsigned month_number() noexcept {
    const auto found = std::find(months.begin(), months.end(), text_.substr(0, 3));
    if (found == months.end()) good_ = false;
    skip(3);
    return static_cast<unsigned>(found - months.begin()) + 1;
  }
  [[nodiscard]] bool ended_well() const noexcept { return good_ && text_.empty(); }

 private:
  std::string_view text_;
  bool good_ = true;
};

struct Date {
  int year = 0;
  unsigned month = 0;
  int day = 0;
  int hour = 0;
  int minute = 0;
  int second = 0;

  void read_time(Columns& columns) noexcept {
    hour = columns.number(2);
    columns.literal(":");
    minute = columns.number(2);
    columns.literal(":");
    second = columns.number(2);
  }
  [[nodiscard]] std::optional<Instant> instant() const noexcept {
    const year_month_day date{std::chrono::year{year}, std::chrono::month{month},
                              std::chrono::day{static_cast<unsigned>(day)}};
    // A leap second is a second like any other here.
    if (!date.ok() || hour > 23 || minute > 59 || second > 60) return {};
    return sys_days{date} + hours{hour} + minutes{minute} + seconds{second};
  }
};

/// Two digits mean the year within fifty years of now.
int full_year(int two_digits, Instant now) noexcept {
  const int this_year = static_cast<int>(year_month_day{floor<days>(now)}.year());
  const int year = this_year - this_year % 100 + two_digits;
  return year > this_year + 50 ? year - 100 : year;
}

std::string_view trimmed(std::string_view text) noexcept {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

}  // namespace

std::optional<Instant> parse_http_date(std::string_view text, Instant now) noexcept {
  text = trimmed(text);
  const std::size_t comma = text.find(',');
  if (!is_weekday(text.substr(0, std::min(comma, text.find(' '))))) return {};
  Date date;
  Columns columns{comma == std::string_view::npos ? text : text.substr(comma)};
  if (comma == std::string_view::npos) {  // Sun Nov  6 08:49:37 1994
    columns.skip(4);
    date.month = columns.month_number();
    columns.literal(" ");
    date.day = columns.number(2, true);
    columns.literal(" ");
    date.read_time(columns);
    columns.literal(" ");
    date.year = columns.number(4);
  } else {  // Sun, 06 Nov 1994 08:49:37 GMT, or Sunday, 06-Nov-94 08:49:37 GMT
    const std::string_view between = comma == 3 ? " " : "-";
    columns.literal(", ");
    date.day = columns.number(2);
    columns.literal(between);
    date.month = columns.month_number();
    columns.literal(between);
    date.year = comma == 3 ? columns.number(4) : full_year(columns.number(2), now);
    columns.literal(" ");
    date.read_time(columns);
    columns.literal(" GMT");
  }
  if (!columns.ended_well()) return {};
  return date.instant();
}

std::optional<microseconds> parse_retry_after(std::string_view value, Instant now) noexcept {
  value = trimmed(value);
  if (!value.empty() && value.front() >= '0' && value.front() <= '9') {
    constexpr std::int64_t longest = 1000LL * 366 * 86'400;
    std::int64_t count = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), count);
    if (error != std::errc{} || end != value.data() + value.size() || count > longest) return {};
    return seconds{count};
  }
  const std::optional<Instant> date = parse_http_date(value, now);
  if (!date) return {};
  return std::max(microseconds::zero(), microseconds{*date - now});
}

}  // namespace twinbox
