// One text for the server, with its values: a call is one round trip.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "driver/sqlserver/parameters.hpp"
#include "driver/sqlserver/result.hpp"
#include "sql/statement.hpp"

namespace twinbox::sqlserver {

/// The running statement of a connection, for a thread that wants to cancel it.
class Running {
 public:
  /// Cancels the running statement, and blocks new ones until reset().
  void interrupt() noexcept;
  void reset() noexcept { wanted_ = false; }
  [[nodiscard]] bool interrupted() const noexcept { return wanted_; }

  /// While it lives, `statement` is what runs.
  class Mark {
   public:
    Mark(Running* running, SQLHSTMT statement);
    ~Mark();
    Mark(const Mark&) = delete;
    Mark& operator=(const Mark&) = delete;

   private:
    Running* running_;
  };

 private:
  std::mutex mutex_;
  SQLHSTMT statement_ = SQL_NULL_HSTMT;
  std::atomic<bool> wanted_ = false;
};

/// Where a text is executed.
struct ExecutionContext {
  SQLHDBC connection;
  std::string_view where;      ///< for errors
  Running* running = nullptr;  ///< null: it cannot be cancelled
  SQLULEN answer_seconds = 0;  ///< how long the server may take; 0: forever
};

/// T-SQL with `@name` stays as it is: a declaration before it gives each name its value,
/// `declare @limit bigint = ?, …;`. Borrows the arguments.
class Batch {
 public:
  /// One of our own: all its steps. Columns become `@rows` and `@bytes` (see Rows).
  /// Throws std::invalid_argument when an argument is missing.
  Batch(const Statement& statement, std::span<const Arg> args);
  /// A statement of the caller's own. Without arguments its text is sent unchanged: it may have to
  /// be the first of its batch, or have variables of its own.
  Batch(std::string_view sql, std::span<const Arg> args);

  /// True for columns without elements: there is nothing to do.
  [[nodiscard]] bool idle() const noexcept { return rows_ && rows_->count == 0; }
  /// Puts a statement without parameters before it.
  void begin_with(std::string_view sql) { text_.insert(0, std::string{sql} + ";\n"); }
  /// Throws DatabaseError.
  Answer run(const ExecutionContext& target);

 private:
  void declare(std::span<const std::string> names, std::span<const Arg> args);
  void declare_one(std::string& head, std::string_view name, std::span<const Arg> args);

  std::string_view action_;
  bool ours_;
  std::string text_;
  std::optional<Rows> rows_;
  Parameters parameters_;
};

/// The state of a transaction on the server. A doomed one can only be rolled back.
enum class TransactionState { none, open, doomed };
TransactionState transaction_state(const ExecutionContext& target);

/// Runs a batch in a caller's transaction, in a savepoint: after a failure, also one of the sink's,
/// nothing of it remains. Some errors end the whole transaction nevertheless (a deadlock,
/// XACT_ABORT): they then say so.
std::size_t run_for_caller(Batch& batch, const ExecutionContext& target, RowSink rows);

/// Executes a text of ours, such as `commit transaction`; its parameters are written `?`.
Answer run_text(const ExecutionContext& target, std::string_view action, std::string_view sql,
                Parameters* parameters = nullptr);

}  // namespace twinbox::sqlserver
