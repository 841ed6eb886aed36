// Prepared statements: one SQL statement, the values that go in, the rows that come out.
#pragma once

#include <memory>
#include <string_view>

#include <sqlite3.h>

#include "driver/sqlite/handle.hpp"
#include "twinbox/session.hpp"

namespace twinbox {

struct FinalizeStatement {
  void operator()(sqlite3_stmt* statement) const noexcept { sqlite3_finalize(statement); }
};

using PreparedStatement = std::unique_ptr<sqlite3_stmt, FinalizeStatement>;

/// Ends a run of the statement, whichever way the scope is left.
class ResetAtEnd {
 public:
  explicit ResetAtEnd(sqlite3_stmt* statement) noexcept : statement_(statement) {}
  ~ResetAtEnd() { sqlite3_reset(statement_); }
  ResetAtEnd(const ResetAtEnd&) = delete;
  ResetAtEnd& operator=(const ResetAtEnd&) = delete;

 private:
  sqlite3_stmt* statement_;
};

/// Throws DatabaseError, or UsageError unless `sql` is exactly one statement. `what` is named in
/// errors.
PreparedStatement prepare(SqliteHandle& handle, std::string_view what, std::string_view sql);

/// True for BEGIN, COMMIT, END and ROLLBACK (but not ROLLBACK TO a savepoint).
bool ends_or_begins_transaction(std::string_view sql);

/// Text and bytes are borrowed until the statement is bound again.
void bind_value(SqliteHandle& handle, std::string_view what, sqlite3_stmt* statement, int index,
                const Value& value);

/// Runs a statement that returns no rows of interest. Throws DatabaseError.
void run_to_end(SqliteHandle& handle, std::string_view what, sqlite3_stmt* statement);

/// The row a statement stands on.
class SqliteRow final : public Row {
 public:
  explicit SqliteRow(sqlite3_stmt* statement) noexcept : statement_(statement) {}

  [[nodiscard]] bool is_null(int column) const override;
  [[nodiscard]] std::int64_t integer(int column) const override;
  [[nodiscard]] double real(int column) const override;
  [[nodiscard]] bool boolean(int column) const override;
  [[nodiscard]] std::string_view text(int column) const override;
  [[nodiscard]] std::string_view bytes(int column) const override;
  [[nodiscard]] Instant instant(int column) const override;
  /// Throws UsageError unless the column holds 16 bytes, or null.
  [[nodiscard]] Uuid uuid(int column) const override;

 private:
  void check(int column) const;

  sqlite3_stmt* statement_;
};

}  // namespace twinbox
