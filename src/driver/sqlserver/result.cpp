#include "driver/sqlserver/result.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <stdexcept>

#include "driver/sqlserver/parameters.hpp"

namespace twinbox::sqlserver {
namespace {

constexpr std::size_t first_piece = 4096;

Uuid to_uuid(const SQLGUID& guid) {
  Uuid uuid;
  const auto set = [&](std::size_t at, unsigned long value) {
    uuid.bytes.at(at) = static_cast<std::decay_t<decltype(uuid.bytes[0])>>(value & 0xffU);
  };
  for (std::size_t i = 0; i < 4; ++i)
    set(i, static_cast<unsigned long>(guid.Data1) >> (24 - 8 * i));
  for (std::size_t i = 0; i < 2; ++i)
    set(4 + i, static_cast<unsigned long>(guid.Data2) >> (8 - 8 * i));
  for (std::size_t i = 0; i < 2; ++i)
    set(6 + i, static_cast<unsigned long>(guid.Data3) >> (8 - 8 * i));
  for (std::size_t i = 0; i < 8; ++i) set(8 + i, guid.Data4[i]);
  return uuid;
}

template <class Number>
Number read_number(std::string_view text, int column) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc{} && end == text.data() + text.size()) return number;
  throw DatabaseError(DatabaseError::Kind::invalid_request,
                      "column " + std::to_string(column) + " of the result is not a number");
}

Answer::Type type_of(SQLSMALLINT sql_type) noexcept {
  using Type = Answer::Type;
  switch (sql_type) {
    case SQL_BIT:
    case SQL_TINYINT:
    case SQL_SMALLINT:
    case SQL_INTEGER:
    case SQL_BIGINT: return Type::integer;
    case SQL_REAL:
    case SQL_FLOAT:
    case SQL_DOUBLE: return Type::real;
    case SQL_BINARY:
    case SQL_VARBINARY:
    case SQL_LONGVARBINARY: return Type::bytes;
    case SQL_TIMESTAMP:
    case SQL_TYPE_TIMESTAMP: return Type::instant;
    case SQL_GUID: return Type::uuid;
    default: return Type::text;
  }
}

}  // namespace

/// Reads the rows of one result set.
class Answer::Fetch {
 public:
  Fetch(SQLHSTMT statement, std::string_view action, std::string_view where, bool ours,
        Answer& answer)
      : statement_(statement), action_(action), where_(where), ours_(ours), answer_(answer) {}

  void read(SQLSMALLINT columns) {
    std::vector<Type> types;
    for (SQLUSMALLINT column = 1; column <= columns; ++column) {
      std::array<SQLWCHAR, 2> name{};
      SQLSMALLINT length = 0;
      SQLSMALLINT type = 0;
      SQLULEN size = 0;
      SQLSMALLINT digits = 0;
      SQLSMALLINT nullable = 0;
      check(SQLDescribeColW(statement_, column, name.data(), 1, &length, &type, &size, &digits,
                            &nullable));
      types.push_back(type_of(type));
    }
    Set& set = answer_.sets_.emplace_back(Set{.columns = types.size()});
    for (;;) {
      const auto code = SQLFetch(statement_);
      if (code == SQL_NO_DATA) break;
      check(code);
      ++set.rows;
      SQLUSMALLINT column = 0;
      for (const Type type : types) set.cells.push_back(cell(++column, type));
    }
    answer_.count_ = set.rows;
  }

  void check(SQLRETURN code) const {
    if (!succeeded(code)) {
      throw failure(action_, server_error_of(SQL_HANDLE_STMT, statement_), where_, ours_);
    }
  }

 private:
  Cell cell(SQLUSMALLINT column, Type type) {
    Cell cell{.type = type};
    SQLLEN length = 0;
    const auto get = [&](SQLSMALLINT c_type, void* value, std::size_t size) {
      check(SQLGetData(statement_, column, c_type, value, static_cast<SQLLEN>(size), &length));
    };
    switch (type) {
      case Type::integer: get(SQL_C_SBIGINT, &cell.integer, sizeof cell.integer); break;
      case Type::real: get(SQL_C_DOUBLE, &cell.real, sizeof cell.real); break;
      case Type::instant: {
        SQL_TIMESTAMP_STRUCT timestamp{};
        get(SQL_C_TYPE_TIMESTAMP, &timestamp, sizeof timestamp);
        if (length != SQL_NULL_DATA) {
          cell.integer = from_timestamp(timestamp).time_since_epoch().count();
        }
        break;
      }
      case Type::uuid: {
        SQLGUID guid{};
        get(SQL_C_GUID, &guid, sizeof guid);
        const Uuid uuid = to_uuid(guid);
        keep(cell, {reinterpret_cast<const char*>(uuid.bytes.data()), uuid.bytes.size()});
        break;
      }
      case Type::bytes: length = read_bytes(column, cell); break;
      default: length = read_text(column, cell); break;
    }
    if (length == SQL_NULL_DATA) cell.type = Type::null;
    return cell;
  }

  void keep(Cell& cell, std::string_view data) {
    if (cell.size == 0) cell.offset = answer_.bytes_.size();
    answer_.bytes_ += data;
    cell.size += data.size();
  }

  /// Both return the first length, which may be SQL_NULL_DATA. A driver that does not know the
  /// remaining length returns SQL_NO_TOTAL.
  SQLLEN read_bytes(SQLUSMALLINT column, Cell& cell) {
    SQLLEN first = 0;
    buffer_.resize(first_piece);
    for (bool begun = false;; begun = true) {
      SQLLEN left = 0;
      const auto code = SQLGetData(statement_, column, SQL_C_BINARY, buffer_.data(),
                                   static_cast<SQLLEN>(buffer_.size()), &left);
      if (code == SQL_NO_DATA) return first;
      check(code);
      if (!begun) first = left;
      if (left == SQL_NULL_DATA) return first;
      const bool more = left == SQL_NO_TOTAL || static_cast<std::size_t>(left) > buffer_.size();
      keep(cell, std::string_view{buffer_}.substr(
                     0, more ? buffer_.size() : static_cast<std::size_t>(left)));
      if (!more) return first;
      grow(left, buffer_.size(), 1);
    }
  }

  SQLLEN read_text(SQLUSMALLINT column, Cell& cell) {
    SQLLEN first = 0;
    wide_.clear();
    buffer_.resize(first_piece);
    for (bool begun = false;; begun = true) {
      SQLLEN left = 0;
      const auto code = SQLGetData(statement_, column, SQL_C_WCHAR, buffer_.data(),
                                   static_cast<SQLLEN>(buffer_.size()), &left);
      if (code == SQL_NO_DATA) break;
      check(code);
      if (!begun) first = left;
      if (left == SQL_NULL_DATA) return first;
      // One unit of the buffer is the terminating zero.
      const auto room = buffer_.size() - sizeof(char16_t);
      const bool more = left == SQL_NO_TOTAL || static_cast<std::size_t>(left) > room;
      const auto size = more ? room : static_cast<std::size_t>(left);
      const auto units = size / sizeof(char16_t);
      wide_.resize(wide_.size() + units);
      std::memcpy(wide_.data() + wide_.size() - units, buffer_.data(), size);
      if (!more) break;
      grow(left, room, sizeof(char16_t));
    }
    text_.clear();
    append_utf8(text_, wide_);
    keep(cell, text_);
    return first;
  }

  /// Room for the whole rest, so that long values take two calls.
  void grow(SQLLEN left, std::size_t taken, std::size_t terminator) {
    if (left != SQL_NO_TOTAL) {
      buffer_.resize(std::max(buffer_.size(), static_cast<std::size_t>(left) - taken + terminator));
    }
  }

  SQLHSTMT statement_;
  std::string_view action_;
  std::string_view where_;
  bool ours_;
  Answer& answer_;
  std::string buffer_;
  std::u16string wide_;
  std::string text_;
};

void Answer::take(SQLHSTMT statement, std::string_view action, std::string_view where, bool ours) {
  Fetch fetch{statement, action, where, ours, *this};
  SQLSMALLINT columns = 0;
  fetch.check(SQLNumResultCols(statement, &columns));
  if (columns > 0) {
    fetch.read(columns);
    return;
  }
  SQLLEN changed = 0;
  fetch.check(SQLRowCount(statement, &changed));
  // -1: a statement that counts nothing, such as a declaration.
  if (changed >= 0) count_ = static_cast<std::size_t>(changed);
}

class Answer::CellRow final : public Row {
 public:
  CellRow(const Set& set, const std::string& bytes) : set_(set), bytes_(bytes) {}
  void move_to(std::size_t row) {
    row_ = row;
    made_.clear();
  }

  [[nodiscard]] bool is_null(int column) const override { return at(column).type == Type::null; }

  [[nodiscard]] std::int64_t integer(int column) const override {
    const Cell& cell = at(column);
    switch (cell.type) {
      case Type::real: return static_cast<std::int64_t>(cell.real);
      case Type::text: return read_number<std::int64_t>(data(cell), column);
      default: return cell.integer;
    }
  }

  [[nodiscard]] double real(int column) const override {
    const Cell& cell = at(column);
    switch (cell.type) {
      case Type::real: return cell.real;
      case Type::text: return read_number<double>(data(cell), column);
      default: return static_cast<double>(cell.integer);
    }
  }

  [[nodiscard]] bool boolean(int column) const override { return integer(column) != 0; }

  [[nodiscard]] std::string_view text(int column) const override {
    const Cell& cell = at(column);
    switch (cell.type) {
      case Type::null: return {};
      case Type::integer: return made_.emplace_back(std::to_string(cell.integer));
      case Type::real: return made_.emplace_back(shortest(cell.real));
      case Type::uuid: return made_.emplace_back(uuid(column).str());
      case Type::instant: return made_.emplace_back(to_text(to_timestamp(instant(column)), ' '));
      default: return data(cell);
    }
  }

  [[nodiscard]] std::string_view bytes(int column) const override { return data(at(column)); }

  [[nodiscard]] Instant instant(int column) const override {
    return Instant{std::chrono::microseconds{at(column).integer}};
  }

  [[nodiscard]] Uuid uuid(int column) const override {
    const Cell& cell = at(column);
    if (cell.type == Type::null) return {};
    if (cell.type == Type::text) return Uuid::parse(data(cell));
    Uuid uuid;
    if (cell.size != uuid.bytes.size()) {
      throw UsageError("column " + std::to_string(column) + ": " + std::to_string(cell.size) +
                       " bytes are no UUID; read it as another type");
    }
    std::memcpy(uuid.bytes.data(), data(cell).data(), uuid.bytes.size());
    return uuid;
  }

 private:
  [[nodiscard]] const Cell& at(int column) const {
    if (column < 0 || static_cast<std::size_t>(column) >= set_.columns) {
      throw std::out_of_range("column " + std::to_string(column) + " of a result with " +
                              std::to_string(set_.columns) + " columns (they are counted from 0)");
    }
    return set_.cells[row_ * set_.columns + static_cast<std::size_t>(column)];
  }
  [[nodiscard]] std::string_view data(const Cell& cell) const {
    return std::string_view{bytes_}.substr(cell.offset, cell.size);
  }
  static std::string shortest(double number) {
    std::array<char, 40> digits{};
    return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr};
  }

  const Set& set_;
  const std::string& bytes_;
  std::size_t row_ = 0;
  mutable std::deque<std::string> made_;  // values that had to be written as text
};

void Answer::deliver(RowSink sink) const {
  for (const Set& set : sets_) {
    CellRow row{set, bytes_};
    for (std::size_t i = 0; i < set.rows; ++i) {
      row.move_to(i);
      sink(row);
    }
  }
}

}  // namespace twinbox::sqlserver
