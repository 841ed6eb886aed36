#include "driver/postgres/text_format.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "twinbox/error.hpp"

namespace twinbox::postgres {
namespace {

constexpr std::int64_t second = 1'000'000;
constexpr std::int64_t day = 86'400 * second;
constexpr std::string_view hex_digits = "0123456789abcdef";

struct Date {
  std::int64_t year;
  unsigned month;
  unsigned day;
};

// std::chrono's calendar ends at the year 32767, PostgreSQL's and Instant's at about 294000: eras
// of 400 years, counted from 0000-03-01, so that the leap day is the last day of a year.
constexpr std::int64_t days_from_date(Date date) {
  const auto year = date.year - (date.month <= 2 ? 1 : 0);
  const auto era = (year >= 0 ? year : year - 399) / 400;
  const auto year_of_era = year - era * 400;
  const auto month = static_cast<std::int64_t>((date.month + 9) % 12);
  const auto day_of_year = (153 * month + 2) / 5 + static_cast<std::int64_t>(date.day) - 1;
  return era * 146'097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year -
         719'468;
}

constexpr Date date_from_days(std::int64_t days) {
  days += 719'468;
  const auto era = (days >= 0 ? days : days - 146'096) / 146'097;
  const auto day_of_era = days - era * 146'097;
  const auto year_of_era =
      (day_of_era - day_of_era / 1'460 + day_of_era / 36'524 - day_of_era / 146'096) / 365;
  const auto day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const auto shifted = (5 * day_of_year + 2) / 153;
  const auto month = static_cast<unsigned>(shifted < 10 ? shifted + 3 : shifted - 9);
  return {year_of_era + era * 400 + (month <= 2 ? 1 : 0), month,
          static_cast<unsigned>(day_of_year - (153 * shifted + 2) / 5 + 1)};
}

static_assert(days_from_date({1970, 1, 1}) == 0 && days_from_date({2000, 3, 1}) == 11'017);
static_assert(date_from_days(11'016).day == 29 && date_from_days(-1).year == 1969);

void append_number(std::string& out, std::int64_t number, std::size_t width) {
  std::array<char, 24> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  const auto length = static_cast<std::size_t>(end - digits.data());
  if (length < width) out.append(width - length, '0');
  out.append(digits.data(), length);
}

void append_instant(std::string& out, Instant instant) {
  if (instant == Instant::max()) {
    out += "infinity";
    return;
  }
  if (instant == Instant::min()) {
    out += "-infinity";
    return;
  }
  const auto micros = instant.time_since_epoch().count();
  const auto days = micros / day - (micros % day < 0 ? 1 : 0);
  const auto rest = micros - days * day;
  const auto date = date_from_days(days);
  append_number(out, date.year > 0 ? date.year : 1 - date.year, 4);
  for (const std::int64_t part : {std::int64_t{date.month}, std::int64_t{date.day}}) {
    out += '-';
    append_number(out, part, 2);
  }
  char separator = ' ';
  for (const auto part : {rest / (3600 * second), rest / (60 * second) % 60, rest / second % 60}) {
    out += separator;
    append_number(out, part, 2);
    separator = ':';
  }
  out += '.';
  append_number(out, rest % second, 6);
  out += date.year > 0 ? "+00" : "+00 BC";
}

void append_real(std::string& out, double number) {
  if (std::isnan(number)) {
    out += "NaN";
  } else if (std::isinf(number)) {
    out += number > 0 ? "Infinity" : "-Infinity";
  } else {
    std::array<char, 40> digits{};
    out.append(digits.data(),
               std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr);
  }
}

void append_hex(std::string& out, std::string_view bytes) {
  out.reserve(out.size() + 2 + bytes.size() * 2);
  out += "\\x";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += hex_digits[byte >> 4U];
    out += hex_digits[byte & 15U];
  }
}

struct AppendText {
  std::string& out;

  void operator()(std::monostate) const {}
  void operator()(bool value) const { out += value ? 't' : 'f'; }
  void operator()(std::int64_t value) const { append_number(out, value, 0); }
  void operator()(double value) const { append_real(out, value); }
  void operator()(std::string_view value) const {
    if (value.find('\0') != std::string_view::npos) {
      throw DatabaseError(
          DatabaseError::Kind::invalid_request,
          "a text parameter holds a NUL byte, which PostgreSQL cannot store: pass it as Bytes",
          "22021");
    }
    out += value;
  }
  void operator()(Bytes value) const { append_hex(out, value.data); }
  void operator()(Instant value) const { append_instant(out, value); }
  void operator()(const Uuid& value) const { out += value.str(); }
};

ValueType type_of(const Value& value) {
  constexpr std::array types{ValueType::boolean, ValueType::integer, ValueType::real,
                             ValueType::text,    ValueType::bytes,   ValueType::instant,
                             ValueType::uuid};
  static_assert(std::variant_size_v<Value> == types.size() + 1);
  return types.at(value.index() - 1);
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

template <class Number>
std::optional<Number> read_number(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return {};
  return number;
}

/// Reads a text from its beginning to its end.
class Reader {
 public:
  explicit Reader(std::string_view text) : left_(text) {}

  bool skip(std::string_view word) {
    if (!left_.starts_with(word)) return false;
    left_.remove_prefix(word.size());
    return true;
  }
  std::optional<std::int64_t> digits(std::size_t least, std::size_t most) {
    std::size_t count = 0;
    while (count < left_.size() && count < most && left_[count] >= '0' && left_[count] <= '9')
      ++count;
    if (count < least) return {};
    const auto number = read_number<std::int64_t>(left_.substr(0, count));
    left_.remove_prefix(count);
    last_count_ = count;
    return number;
  }
  [[nodiscard]] std::size_t last_count() const { return last_count_; }
  [[nodiscard]] bool at_end() const { return left_.empty(); }

 private:
  std::string_view left_;
  std::size_t last_count_ = 0;
};

std::optional<std::int64_t> read_time_of_day(Reader& reader) {
  const auto hours = reader.digits(2, 2);
  if (!hours || !reader.skip(":")) return {};
  const auto minutes = reader.digits(2, 2);
  if (!minutes || !reader.skip(":")) return {};
  const auto seconds = reader.digits(2, 2);
  if (!seconds) return {};
  auto micros = ((*hours * 60 + *minutes) * 60 + *seconds) * second;
  if (reader.skip(".")) {
    auto fraction = reader.digits(1, 6);
    if (!fraction) return {};
    for (auto count = reader.last_count(); count < 6; ++count) *fraction *= 10;
    micros += *fraction;
  }
  return micros;
}

/// `+02`, `-05:30`, `+05:53:28`, `Z` or nothing.
std::optional<std::int64_t> read_offset(Reader& reader) {
  if (reader.skip("Z")) return 0;
  const bool west = reader.skip("-");
  if (!west && !reader.skip("+")) return 0;
  std::int64_t seconds = 0;
  for (const std::int64_t unit : {3600, 60, 1}) {
    if (unit != 3600 && !reader.skip(":")) break;
    const auto part = reader.digits(2, 2);
    if (!part) return {};
    seconds += *part * unit;
  }
  return (west ? -seconds : seconds) * second;
}

std::optional<std::string> read_escaped_bytes(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      bytes += text[i];
    } else if (i + 1 < text.size() && text[i + 1] == '\\') {
      bytes += '\\';
      ++i;
    } else {
      if (i + 3 >= text.size()) return {};
      int byte = 0;
      for (std::size_t digit = i + 1; digit <= i + 3; ++digit) {
        if (text[digit] < '0' || text[digit] > '7') return {};
        byte = byte * 8 + (text[digit] - '0');
      }
      if (byte > 255) return {};
      bytes += static_cast<char>(byte);
      i += 3;
    }
  }
  return bytes;
}

template <class T>
T checked(std::optional<T> value, int column, std::string_view wanted) {
  if (value) return *std::move(value);
  throw DatabaseError(
      DatabaseError::Kind::invalid_request,
      "column " + std::to_string(column) + " of the result is not " + std::string{wanted});
}

}  // namespace

void append_text(std::string& out, const Value& value) { std::visit(AppendText{out}, value); }

const Arg& argument(std::span<const Arg> args, std::string_view name, std::string_view statement) {
  for (const auto& arg : args) {
    if (arg.name == name) return arg;
  }
  throw std::invalid_argument(std::string{statement} + ": the parameter @" + std::string{name} +
                              " has no argument: pass one with this name");
}

void check_column(const Arg& column) {
  for (const auto& value : column.column) {
    if (value.index() != 0 && type_of(value) != column.type) {
      throw std::logic_error("argument @" + std::string{column.name} +
                             ": a value of the column has another type than the column");
    }
  }
}

void append_array_literal(std::string& out, const Arg& column) {
  check_column(column);
  std::string element;
  char separator = '{';
  for (const auto& value : column.column) {
    out += separator;
    separator = ',';
    if (value.index() == 0) {
      out += "NULL";
      continue;
    }
    element.clear();
    append_text(element, value);
    out += '"';
    for (const char c : element) {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
    out += '"';
  }
  out += column.column.empty() ? "{}" : "}";
}

std::optional<std::int64_t> read_integer(std::string_view text) {
  if (text == "t" || text == "f") return text == "t" ? 1 : 0;
  return read_number<std::int64_t>(text);
}

std::optional<double> read_real(std::string_view text) {
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  return read_number<double>(text);
}

std::optional<bool> read_boolean(std::string_view text) {
  if (text == "t" || text == "true") return true;
  if (text == "f" || text == "false") return false;
  const auto number = read_number<std::int64_t>(text);
  return number ? std::optional{*number != 0} : std::nullopt;
}

std::optional<Instant> read_instant(std::string_view text) {
  if (text == "infinity") return Instant::max();
  if (text == "-infinity") return Instant::min();
  Reader reader{text};
  auto year = reader.digits(4, 6);
  if (!year || !reader.skip("-")) return {};
  const auto month = reader.digits(2, 2);
  if (!month || !reader.skip("-")) return {};
  const auto day_of_month = reader.digits(2, 2);
  if (!day_of_month || *month < 1 || *month > 12 || *day_of_month < 1 || *day_of_month > 31)
    return {};
  std::int64_t micros = 0;
  if (reader.skip(" ") && !reader.skip("BC")) {
    const auto time = read_time_of_day(reader);
    const auto offset = time ? read_offset(reader) : std::nullopt;
    if (!offset) return {};
    micros = *time - *offset;
    if (reader.skip(" BC")) year = 1 - *year;
  } else if (text.ends_with(" BC")) {
    year = 1 - *year;
  }
  if (!reader.at_end()) return {};
  std::int64_t result = 0;
  const auto days =
      days_from_date({*year, static_cast<unsigned>(*month), static_cast<unsigned>(*day_of_month)});
  if (__builtin_mul_overflow(days, day, &result) ||
      __builtin_add_overflow(result, micros, &result)) {
    return days > 0 ? Instant::max() : Instant::min();
  }
  return Instant{std::chrono::microseconds{result}};
}

std::optional<std::string> read_bytes(std::string_view text) {
  if (!text.starts_with("\\x")) return read_escaped_bytes(text);
  text.remove_prefix(2);
  if (text.size() % 2 != 0) return {};
  std::string bytes(text.size() / 2, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const int high = hex_value(text[2 * i]);
    const int low = hex_value(text[2 * i + 1]);
    if (high < 0 || low < 0) return {};
    bytes[i] = static_cast<char>(high * 16 + low);
  }
  return bytes;
}

std::optional<Uuid> read_uuid(std::string_view text) {
  try {
    return Uuid::parse(text);
  } catch (const std::invalid_argument&) {
    return {};
  }
}

std::int64_t TextRow::integer(int column) const {
  const auto value = cell(column);
  return value ? checked(read_integer(*value), column, "an integer") : 0;
}

double TextRow::real(int column) const {
  const auto value = cell(column);
  return value ? checked(read_real(*value), column, "a number") : 0;
}

bool TextRow::boolean(int column) const {
  const auto value = cell(column);
  return value && checked(read_boolean(*value), column, "a boolean");
}

std::string_view TextRow::text(int column) const {
  return cell(column).value_or(std::string_view{});
}

std::string_view TextRow::bytes(int column) const {
  const auto value = cell(column);
  if (!value) return {};
  return decoded_.emplace_back(
      checked(read_bytes(*value), column, "a bytea in hex or escape form"));
}

Instant TextRow::instant(int column) const {
  const auto value = cell(column);
  if (!value) return {};
  return checked(read_instant(*value), column,
                 "an ISO timestamp: the session's DateStyle must be ISO (set datestyle to iso)");
}

Uuid TextRow::uuid(int column) const {
  const auto value = cell(column);
  return value ? checked(read_uuid(*value), column, "a uuid") : Uuid{};
}

}  // namespace twinbox::postgres
