#include "driver/sqlite/prepared.hpp"

#include <algorithm>
#include <climits>
#include <cstring>
#include <stdexcept>
#include <string>

namespace twinbox {
namespace {

sqlite3_stmt* compile(SqliteHandle& handle, std::string_view what, std::string_view sql,
                      std::string_view& rest) {
  if (sql.size() > INT_MAX) {
    throw DatabaseError(
        DatabaseError::Kind::invalid_request,
        std::string{what} + ": the statement is longer than 2 GiB (" + handle.file + ")");
  }
  sqlite3_stmt* statement = nullptr;
  const char* tail = nullptr;
  if (sqlite3_prepare_v3(handle.db, sql.data(), static_cast<int>(sql.size()),
                         SQLITE_PREPARE_PERSISTENT, &statement, &tail) != SQLITE_OK) {
    throw handle.error(what);
  }
  rest = sql.substr(static_cast<std::size_t>(tail - sql.data()));
  return statement;
}

void skip_blanks_and_comments(std::string_view& sql) {
  for (;;) {
    sql.remove_prefix(std::min(sql.find_first_not_of(" \t\r\n\f;"), sql.size()));
    std::size_t end = 0;
    if (sql.starts_with("--")) {
      end = sql.find('\n');
    } else if (sql.starts_with("/*")) {
      end = sql.find("*/", 2);
      if (end != sql.npos) end += 2;
    } else {
      return;
    }
    sql.remove_prefix(std::min(end, sql.size()));
  }
}

std::string next_word(std::string_view& sql) {
  skip_blanks_and_comments(sql);
  std::string word;
  while (!sql.empty()) {
    const char letter = static_cast<char>(sql.front() | 0x20);
    if (letter < 'a' || letter > 'z') break;
    word.push_back(letter);
    sql.remove_prefix(1);
  }
  return word;
}

// A null pointer would be bound as NULL, and an empty view may have one.
const char* pointer(std::string_view data) { return data.data() != nullptr ? data.data() : ""; }

struct Binder {
  sqlite3_stmt* statement;
  int index;

  int operator()(std::monostate) const { return sqlite3_bind_null(statement, index); }
  int operator()(bool value) const { return sqlite3_bind_int(statement, index, value ? 1 : 0); }
  int operator()(std::int64_t value) const { return sqlite3_bind_int64(statement, index, value); }
  int operator()(double value) const { return sqlite3_bind_double(statement, index, value); }
  int operator()(std::string_view value) const {
    return sqlite3_bind_text64(statement, index, pointer(value), value.size(), SQLITE_STATIC,
                               SQLITE_UTF8);
  }
  int operator()(const Bytes& value) const {
    return sqlite3_bind_blob64(statement, index, pointer(value.data), value.data.size(),
                               SQLITE_STATIC);
  }
  int operator()(Instant value) const {
    return sqlite3_bind_int64(statement, index, value.time_since_epoch().count());
  }
  int operator()(const Uuid& value) const {
    return sqlite3_bind_blob64(statement, index, value.bytes.data(), value.bytes.size(),
                               SQLITE_STATIC);
  }
};

}  // namespace

PreparedStatement prepare(SqliteHandle& handle, std::string_view what, std::string_view sql) {
  std::string_view rest;
  PreparedStatement statement{compile(handle, what, sql, rest)};
  if (statement == nullptr)
    throw UsageError(std::string{what} + ": there is no SQL statement in this text");
  skip_blanks_and_comments(rest);
  if (!rest.empty()) {
    throw UsageError(std::string{what} +
                     ": the text holds more than one SQL statement; execute one at a time");
  }
  return statement;
}

bool ends_or_begins_transaction(std::string_view sql) {
  const auto word = next_word(sql);
  if (word != "rollback") return word == "begin" || word == "commit" || word == "end";
  auto next = next_word(sql);
  if (next == "transaction") next = next_word(sql);
  return next != "to";
}

void bind_value(SqliteHandle& handle, std::string_view what, sqlite3_stmt* statement, int index,
                const Value& value) {
  if (std::visit(Binder{statement, index}, value) != SQLITE_OK) throw handle.error(what);
}

void run_to_end(SqliteHandle& handle, std::string_view what, sqlite3_stmt* statement) {
  const ResetAtEnd reset{statement};
  int code = SQLITE_ROW;
  while (code == SQLITE_ROW) code = sqlite3_step(statement);
  if (code != SQLITE_DONE) throw handle.error(what);
}

void SqliteRow::check(int column) const {
  const int columns = sqlite3_column_count(statement_);
  if (column >= 0 && column < columns) return;
  throw std::out_of_range("column " + std::to_string(column) + " of a result with " +
                          std::to_string(columns) + " columns (they are counted from 0)");
}

bool SqliteRow::is_null(int column) const {
  check(column);
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}

std::int64_t SqliteRow::integer(int column) const {
  check(column);
  return sqlite3_column_int64(statement_, column);
}

double SqliteRow::real(int column) const {
  check(column);
  return sqlite3_column_double(statement_, column);
}

bool SqliteRow::boolean(int column) const { return integer(column) != 0; }

std::string_view SqliteRow::text(int column) const {
  check(column);
  // The pointer first: asking for it may convert the value and so change its length.
  const auto* data = sqlite3_column_text(statement_, column);
  if (data == nullptr) return {};
  return {reinterpret_cast<const char*>(data),
          static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
}

std::string_view SqliteRow::bytes(int column) const {
  check(column);
  const void* data = sqlite3_column_blob(statement_, column);
  if (data == nullptr) return {};
  return {static_cast<const char*>(data),
          static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
}

Instant SqliteRow::instant(int column) const {
  return Instant{std::chrono::microseconds{integer(column)}};
}

Uuid SqliteRow::uuid(int column) const {
  Uuid uuid;
  if (is_null(column)) return uuid;
  const auto data = bytes(column);
  if (data.size() != uuid.bytes.size()) {
    const char* name = sqlite3_column_name(statement_, column);
    throw UsageError("column " + std::string{name != nullptr ? name : "?"} + ": " +
                     std::to_string(data.size()) + " bytes are no UUID; read it as another type");
  }
  std::memcpy(uuid.bytes.data(), data.data(), data.size());
  return uuid;
}

}  // namespace twinbox
