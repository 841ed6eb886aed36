// The arguments of one batch in ODBC's form.
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "driver/sqlserver/odbc.hpp"
#include "twinbox/session.hpp"

namespace twinbox::sqlserver {

/// The values of the `?` of one text, in their order. Borrows text and bytes until the text has
/// been executed, and passes long bytes piece by piece meanwhile.
class Parameters {
 public:
  Parameters() = default;
  Parameters(const Parameters&) = delete;
  Parameters& operator=(const Parameters&) = delete;

  void add(const Value& value);
  [[nodiscard]] std::size_t count() const noexcept { return slots_.size(); }

  /// Binds the values to the statement. Throws DatabaseError.
  void bind(SQLHSTMT statement, std::string_view action, std::string_view where);
  /// Answers SQL_NEED_DATA until the driver has all data; returns the result of the execution.
  static SQLRETURN feed(SQLHSTMT statement, SQLRETURN code);

 private:
  struct Slot {
    SQLSMALLINT c_type = SQL_C_BINARY;
    SQLSMALLINT sql_type = SQL_VARBINARY;
    SQLULEN size = 0;
    SQLSMALLINT digits = 0;
    SQLLEN length = 0;  ///< or SQL_NULL_DATA, or SQL_LEN_DATA_AT_EXEC
    union {
      unsigned char bit;
      SQLBIGINT integer;
      double real;
      SQL_TIMESTAMP_STRUCT timestamp;
      SQLGUID guid;
    } fixed = {};
    std::u16string text = {};
    std::string_view bytes = {};

    [[nodiscard]] void* data() noexcept;
  };
  struct Fill;

  std::deque<Slot> slots_;  // ODBC keeps their addresses
};

/// The T-SQL type of a variable for `value`; null: any type but binary.
std::string_view declared_type(const Value& value);

/// The columns of a call as one JSON text, an array with an object per element, and the bytes in
/// them one behind the other: `x_at` (from 1) and `x_size` say where those of column `x` are.
struct Rows {
  explicit Rows(std::span<const Arg> args, std::string_view statement);

  std::size_t count = 0;
  std::string json = {};
  std::string bytes = {};

 private:
  void append(const Arg& arg, const Value& value);
};

SQL_TIMESTAMP_STRUCT to_timestamp(Instant instant) noexcept;
Instant from_timestamp(const SQL_TIMESTAMP_STRUCT& timestamp) noexcept;
/// `2026-11-16T02:50:00.123456`
std::string to_text(const SQL_TIMESTAMP_STRUCT& timestamp, char separator);

}  // namespace twinbox::sqlserver
