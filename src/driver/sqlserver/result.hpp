// The result of one batch: all its result sets, read to the end.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "driver/sqlserver/odbc.hpp"
#include "twinbox/session.hpp"

namespace twinbox::sqlserver {

/// A batch can fail with its last result set as well as with its first, and its connection is
/// blocked until all are read: so all are read before any row is passed on.
class Answer {
 public:
  /// Reads the result that the statement stands on. Throws DatabaseError.
  void take(SQLHSTMT statement, std::string_view action, std::string_view where, bool ours);

  /// Hands the rows to `sink`, one after the other.
  void deliver(RowSink sink) const;
  /// How many rows the last result has, or how many rows the last statement changed.
  [[nodiscard]] std::size_t count() const noexcept { return count_; }

  enum class Type { null, integer, real, text, bytes, instant, uuid };
  struct Cell {
    Type type = Type::null;
    std::int64_t integer = 0;  ///< also an instant's microseconds
    double real = 0;
    std::size_t offset = 0;  ///< of text and bytes, and of a uuid's 16
    std::size_t size = 0;
  };

 private:
  struct Set {
    std::size_t columns;
    std::size_t rows = 0;
    std::vector<Cell> cells = {};
  };
  class CellRow;
  class Fetch;

  std::deque<Set> sets_;
  std::string bytes_;
  std::size_t count_ = 0;
};

}  // namespace twinbox::sqlserver
