#include "driver/sqlserver/parameters.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <optional>
#include <stdexcept>

#include "core/json.hpp"
#include "core/text.hpp"

namespace twinbox::sqlserver {
namespace {

using namespace std::chrono_literals;
using std::chrono::microseconds;

// SQL Server's own bounds for what is no `max` type.
constexpr std::size_t short_text = 4000;
constexpr std::size_t short_bytes = 8000;
constexpr std::size_t piece = 64U * 1024U;

// datetime2 covers the years 1 to 9999; values outside are clamped.
constexpr Instant earliest{std::chrono::sys_days{std::chrono::year{1} / 1 / 1}};
constexpr Instant latest =
    Instant{std::chrono::sys_days{std::chrono::year{9999} / 12 / 31}} + 24h - microseconds{1};

void append_number(std::string& out, std::int64_t number) {
  std::array<char, 24> digits{};
  out.append(digits.data(),
             std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr);
}

/// A JSON string without escapes: SQL Server reads them, compatible servers may not. The statements
/// turn the signs back (`{plain:…}`).
void append_text(std::string& out, std::string_view text) {
  std::string coded;
  coded.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '~': coded += "~t"; break;
      case '"': coded += "~q"; break;
      case '\\': coded += "~b"; break;
      case '\n': coded += "~n"; break;
      case '\r': coded += "~r"; break;
      case '\t': coded += "~i"; break;
      default: coded += c;
    }
  }
  append_json_string(out, coded);
}

struct AppendJson {
  std::string& out;

  void operator()(std::monostate) const { out += "null"; }
  void operator()(bool value) const { out += value ? "true" : "false"; }
  void operator()(std::int64_t value) const { append_number(out, value); }
  void operator()(double value) const {
    std::array<char, 40> digits{};
    out.append(digits.data(),
               std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr);
  }
  void operator()(std::string_view value) const { append_text(out, value); }
  void operator()(Bytes /*value*/) const {}
  void operator()(Instant value) const {
    out.append("\"").append(to_text(to_timestamp(value), 'T')) += '"';
  }
  void operator()(const Uuid& value) const { out.append("\"").append(value.str()) += '"'; }
};

std::size_t count_elements(std::span<const Arg> args, std::string_view statement) {
  std::optional<std::size_t> count;
  for (const auto& arg : args) {
    if (!arg.is_column) continue;
    if (count && *count != arg.column.size()) {
      throw std::logic_error(std::string{statement} + ": column @" + std::string{arg.name} +
                             " has " + std::to_string(arg.column.size()) +
                             " elements, the one before it " + std::to_string(*count) +
                             "; give columns of equal length");
    }
    count = arg.column.size();
  }
  return count.value_or(0);
}

}  // namespace

struct Parameters::Fill {
  Slot& slot;

  void operator()(std::monostate) const {
    set(SQL_C_WCHAR, SQL_WVARCHAR, 1);
    slot.length = SQL_NULL_DATA;
  }
  void operator()(bool value) const {
    set(SQL_C_BIT, SQL_BIT, 1);
    slot.fixed.bit = value ? 1 : 0;
  }
  void operator()(std::int64_t value) const {
    set(SQL_C_SBIGINT, SQL_BIGINT, 19);
    slot.fixed.integer = value;
  }
  void operator()(double value) const {
    set(SQL_C_DOUBLE, SQL_DOUBLE, 53);
    slot.fixed.real = value;
  }
  void operator()(std::string_view value) const {
    slot.text = to_utf16(value);
    const auto units = slot.text.size();
    set(SQL_C_WCHAR, units > short_text ? SQL_WLONGVARCHAR : SQL_WVARCHAR,
        std::max<std::size_t>(units, 1));
    slot.length = static_cast<SQLLEN>(units * sizeof(char16_t));
  }
  void operator()(Bytes value) const {
    slot.bytes = value.data;
    const bool is_long = value.data.size() > short_bytes;
    set(SQL_C_BINARY, is_long ? SQL_LONGVARBINARY : SQL_VARBINARY,
        std::max<std::size_t>(value.data.size(), 1));
    slot.length = static_cast<SQLLEN>(value.data.size());
    if (is_long) slot.length = SQL_LEN_DATA_AT_EXEC(slot.length);
  }
  void operator()(Instant value) const {
    set(SQL_C_TYPE_TIMESTAMP, SQL_TYPE_TIMESTAMP, 26, 6);
    slot.fixed.timestamp = to_timestamp(value);
  }
  void operator()(const Uuid& value) const {
    set(SQL_C_GUID, SQL_GUID, 16);
    const auto byte = [&](std::size_t at) { return static_cast<unsigned>(value.bytes.at(at)); };
    auto& guid = slot.fixed.guid;
    guid.Data1 = byte(0) << 24U | byte(1) << 16U | byte(2) << 8U | byte(3);
    guid.Data2 = static_cast<unsigned short>(byte(4) << 8U | byte(5));
    guid.Data3 = static_cast<unsigned short>(byte(6) << 8U | byte(7));
    for (std::size_t i = 0; i < 8; ++i) guid.Data4[i] = static_cast<unsigned char>(byte(8 + i));
  }

 private:
  void set(SQLSMALLINT c_type, SQLSMALLINT sql_type, SQLULEN size, SQLSMALLINT digits = 0) const {
    slot.c_type = c_type;
    slot.sql_type = sql_type;
    slot.size = size;
    slot.digits = digits;
  }
};

void* Parameters::Slot::data() noexcept {
  if (c_type == SQL_C_WCHAR) return text.data();
  if (c_type != SQL_C_BINARY) return &fixed;
  // The token that the driver returns when it asks for the bytes of this slot.
  if (length <= SQL_LEN_DATA_AT_EXEC_OFFSET) return this;
  static char nothing = '\0';
  return bytes.empty() ? &nothing : const_cast<char*>(bytes.data());
}

void Parameters::add(const Value& value) { std::visit(Fill{slots_.emplace_back()}, value); }

void Parameters::bind(SQLHSTMT statement, std::string_view action, std::string_view where) {
  SQLUSMALLINT number = 0;
  for (auto& slot : slots_) {
    const auto code = SQLBindParameter(statement, ++number, SQL_PARAM_INPUT, slot.c_type,
                                       slot.sql_type, slot.size, slot.digits, slot.data(),
                                       static_cast<SQLLEN>(slot.size), &slot.length);
    if (!succeeded(code))
      throw failure(action, server_error_of(SQL_HANDLE_STMT, statement), where, true);
  }
}

SQLRETURN Parameters::feed(SQLHSTMT statement, SQLRETURN code) {
  while (code == SQL_NEED_DATA) {
    SQLPOINTER wanted = nullptr;
    code = SQLParamData(statement, &wanted);
    if (code != SQL_NEED_DATA) break;
    const auto bytes = static_cast<Slot*>(wanted)->bytes;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      const auto part = bytes.substr(at, piece);
      const auto put =
          SQLPutData(statement, const_cast<char*>(part.data()), static_cast<SQLLEN>(part.size()));
      if (!succeeded(put)) return put;
    }
  }
  return code;
}

std::string_view declared_type(const Value& value) {
  constexpr std::array<std::string_view, 8> types{
      "nvarchar(4000)", "bit",          "bigint",          "float", "",
      "varbinary(max)", "datetime2(6)", "uniqueidentifier"};
  static_assert(std::variant_size_v<Value> == types.size());
  if (const auto* text = std::get_if<std::string_view>(&value)) {
    return utf16_length(*text) > short_text ? "nvarchar(max)" : "nvarchar(4000)";
  }
  return types.at(value.index());
}

Rows::Rows(std::span<const Arg> args, std::string_view statement)
    : count(count_elements(args, statement)) {
  json = '[';
  for (std::size_t element = 0; element < count; ++element) {
    json += element == 0 ? "{\"n\":" : ",{\"n\":";
    append_number(json, static_cast<std::int64_t>(element));
    for (const auto& arg : args) {
      if (arg.is_column) append(arg, arg.column[element]);
    }
    json += '}';
  }
  json += ']';
}

/// Nulls are written, too: every row has the same members.
void Rows::append(const Arg& arg, const Value& value) {
  json.append(",\"").append(arg.name);
  if (arg.type != ValueType::bytes) {
    json += "\":";
    std::visit(AppendJson{json}, value);
    return;
  }
  const auto* data = std::get_if<Bytes>(&value);
  json += "_at\":";
  if (data != nullptr) {
    append_number(json, static_cast<std::int64_t>(bytes.size()) + 1);
  } else {
    json += "null";
  }
  json.append(",\"").append(arg.name).append("_size\":");
  if (data != nullptr) {
    append_number(json, static_cast<std::int64_t>(data->data.size()));
    bytes += data->data;
  } else {
    json += "null";
  }
}

SQL_TIMESTAMP_STRUCT to_timestamp(Instant instant) noexcept {
  const auto moment = std::clamp(instant, earliest, latest);
  const auto day = std::chrono::floor<std::chrono::days>(moment);
  const std::chrono::year_month_day date{day};
  const std::chrono::hh_mm_ss time{moment - day};
  SQL_TIMESTAMP_STRUCT result{};
  result.year = static_cast<SQLSMALLINT>(static_cast<int>(date.year()));
  result.month = static_cast<SQLUSMALLINT>(static_cast<unsigned>(date.month()));
  result.day = static_cast<SQLUSMALLINT>(static_cast<unsigned>(date.day()));
  result.hour = static_cast<SQLUSMALLINT>(time.hours().count());
  result.minute = static_cast<SQLUSMALLINT>(time.minutes().count());
  result.second = static_cast<SQLUSMALLINT>(time.seconds().count());
  result.fraction = static_cast<SQLUINTEGER>(time.subseconds().count() * 1000);
  return result;
}

Instant from_timestamp(const SQL_TIMESTAMP_STRUCT& timestamp) noexcept {
  using namespace std::chrono;
  const year_month_day date{year{timestamp.year}, month{timestamp.month}, day{timestamp.day}};
  const Instant instant = Instant{sys_days{date}} + hours{timestamp.hour} +
                          minutes{timestamp.minute} + seconds{timestamp.second} +
                          microseconds{timestamp.fraction / 1000};
  if (instant >= latest) return Instant::max();
  if (instant <= earliest) return Instant::min();
  return instant;
}

std::string to_text(const SQL_TIMESTAMP_STRUCT& timestamp, char separator) {
  std::array<char, 40> text{};
  const int length = std::snprintf(text.data(), text.size(), "%04d-%02u-%02u%c%02u:%02u:%02u.%06u",
                                   static_cast<int>(timestamp.year), unsigned{timestamp.month},
                                   unsigned{timestamp.day}, separator, unsigned{timestamp.hour},
                                   unsigned{timestamp.minute}, unsigned{timestamp.second},
                                   static_cast<unsigned>(timestamp.fraction / 1000));
  return {text.data(), static_cast<std::size_t>(length)};
}

}  // namespace twinbox::sqlserver
