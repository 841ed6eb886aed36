// A session executes statements inside a transaction that its owner begins and ends: the session
// cannot commit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "twinbox/environment.hpp"
#include "twinbox/ids.hpp"

namespace twinbox {

enum class Dialect { sqlite, postgres, sqlserver };

std::string_view to_string(Dialect dialect) noexcept;

/// Bytes that are not text. Borrowed.
struct Bytes {
  std::string_view data;
};

/// One parameter value. Text and bytes are borrowed until the call returns.
using Value = std::variant<std::monostate, bool, std::int64_t, double, std::string_view, Bytes,
                           Instant, Uuid>;

enum class ValueType { boolean, integer, real, text, bytes, instant, uuid };

/// A named argument: one value, or a column of values when the call takes many rows at once.
struct Arg {
  Arg(std::string_view arg_name, Value arg_value) : name(arg_name), value(arg_value) {}
  template <std::integral Integer>
  requires(!std::same_as<Integer, bool>) Arg(std::string_view arg_name, Integer number)
      : name(arg_name), value(std::int64_t{number}) {}
  /// A null pointer is a null.
  Arg(std::string_view arg_name, const char* text)
      : name(arg_name), value(text != nullptr ? Value{std::string_view{text}} : Value{}) {}
  Arg(std::string_view arg_name, const std::string& text)
      : name(arg_name), value(std::string_view{text}) {}
  template <class T>
  Arg(std::string_view arg_name, const std::optional<T>& maybe)
      : name(arg_name), value(maybe ? Arg(arg_name, *maybe).value : Value{}) {}
  Arg(std::string_view arg_name, ValueType column_type, std::span<const Value> values)
      : name(arg_name), column(values), type(column_type), is_column(true) {}

  std::string_view name;  ///< without the `@`
  Value value = {};
  std::span<const Value> column = {};
  ValueType type = ValueType::text;  ///< of the column's elements
  bool is_column = false;
};

/// One row of a result, valid during the call that receives it. Columns are counted from 0; for a
/// missing one every call throws std::out_of_range. A null reads as 0, false, empty text, no bytes,
/// the first instant of 1970 and the zero UUID: use is_null() where it matters.
class Row {
 public:
  [[nodiscard]] virtual bool is_null(int column) const = 0;
  [[nodiscard]] virtual std::int64_t integer(int column) const = 0;
  [[nodiscard]] virtual double real(int column) const = 0;
  [[nodiscard]] virtual bool boolean(int column) const = 0;
  [[nodiscard]] virtual std::string_view text(int column) const = 0;
  [[nodiscard]] virtual std::string_view bytes(int column) const = 0;
  [[nodiscard]] virtual Instant instant(int column) const = 0;
  [[nodiscard]] virtual Uuid uuid(int column) const = 0;

 protected:
  ~Row() = default;
};

/// A borrowed callable that receives rows; it must not use the session it is called from.
class RowSink {
 public:
  RowSink() = default;
  template <class F>
  requires(!std::same_as<std::remove_cvref_t<F>, RowSink> && std::invocable<F&, const Row&>)
      RowSink(F&& sink)  // NOLINT(google-explicit-constructor): a lambda is written in place
      : object_(const_cast<void*>(static_cast<const void*>(&sink))),
        call_([](void* object, const Row& row) {
          (*static_cast<std::remove_reference_t<F>*>(object))(row);
        }) {}
  void operator()(const Row& row) const {
    if (call_ != nullptr) call_(object_, row);
  }

 private:
  void* object_ = nullptr;
  void (*call_)(void*, const Row&) = nullptr;
};

struct Statement;  // one of our own statements, rendered for a dialect and a table

/// Not thread-safe: one thread at a time.
class Session {
 public:
  Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  virtual ~Session() = default;

  [[nodiscard]] virtual Dialect dialect() const noexcept = 0;

  /// Executes one statement of yours; parameters are written `@name` in every dialect. Returns how
  /// many rows it changed or returned. Throws DatabaseError.
  std::size_t execute(std::string_view sql, std::initializer_list<Arg> args = {},
                      RowSink rows = {}) {
    return execute_text(sql, {args.begin(), args.size()}, rows);
  }

  /// Executes one of our own statements. Returns how many rows its last step changed or returned.
  virtual std::size_t execute(const Statement& statement, std::span<const Arg> args,
                              RowSink rows) = 0;

  /// True while a transaction is open and usable.
  [[nodiscard]] virtual bool in_transaction() const = 0;

  /// The database it is connected to: `host:port/name`, or the path of a file; empty: unknown.
  [[nodiscard]] virtual std::string_view database() const noexcept { return {}; }

 protected:
  virtual std::size_t execute_text(std::string_view sql, std::span<const Arg> args,
                                   RowSink rows) = 0;
};

}  // namespace twinbox

struct sqlite3;
struct pg_conn;

namespace twinbox {

// Sessions on your own connection: you begin and end the transaction.

/// Your own `sqlite3*`, borrowed: it must outlive the session. Keep it if you can, since it caches
/// its prepared statements. A call without an open transaction throws UsageError. A call with more
/// than one statement runs in a savepoint: after a failure nothing of it remains and your
/// transaction stays usable, unless SQLite itself has rolled it back, which the error then says.
/// Below SQLite 3.51.3 set `pragma wal_autocheckpoint = 0` on the connection: its own checkpoints
/// can damage the file (docs/explanation/guarantees.md#a-sqlite-file).
class SqliteSession final : public Session {
 public:
  explicit SqliteSession(sqlite3* connection);
  ~SqliteSession() override;

  using Session::execute;
  [[nodiscard]] Dialect dialect() const noexcept override;
  std::size_t execute(const Statement& statement, std::span<const Arg> args, RowSink rows) override;
  [[nodiscard]] bool in_transaction() const override;
  [[nodiscard]] std::string_view database() const noexcept override;

 private:
  std::size_t execute_text(std::string_view sql, std::span<const Arg> args, RowSink rows) override;

  class State;
  std::unique_ptr<State> state_;
};

/// Your own `PGconn*`, borrowed: it must outlive the session.
/// Begins, commits, sets and prepares nothing. A call without an open transaction, in pipeline mode
/// or on a nonblocking connection throws UsageError. After an error PostgreSQL refuses everything
/// but a rollback, which you must issue. Begin the transaction with READ COMMITTED: REPEATABLE READ
/// and SERIALIZABLE see one snapshot only, so partition keys and known messages are refused
/// (invalid_request).
class LibpqSession final : public Session {
 public:
  explicit LibpqSession(pg_conn* connection);

  using Session::execute;
  [[nodiscard]] Dialect dialect() const noexcept override;
  std::size_t execute(const Statement& statement, std::span<const Arg> args, RowSink rows) override;
  [[nodiscard]] bool in_transaction() const override;

 private:
  std::size_t execute_text(std::string_view sql, std::span<const Arg> args, RowSink rows) override;

  pg_conn* connection_;
};

/// Your own `SQLHDBC` to a SQL Server, connected and borrowed: it must outlive the session.
/// Begins and commits nothing. A call without an open transaction (yours, or SQL_ATTR_AUTOCOMMIT
/// off) throws UsageError. A call runs in a savepoint: after a failure nothing of it remains and
/// your transaction stays usable, unless the server has ended it (XACT_ABORT, a deadlock), which
/// the error then says. Read the results of your own statements first, since a connection can have
/// one open statement only.
class OdbcSession final : public Session {
 public:
  explicit OdbcSession(void* connection);

  using Session::execute;
  [[nodiscard]] Dialect dialect() const noexcept override;
  std::size_t execute(const Statement& statement, std::span<const Arg> args, RowSink rows) override;
  [[nodiscard]] bool in_transaction() const override;

 private:
  std::size_t execute_text(std::string_view sql, std::span<const Arg> args, RowSink rows) override;

  void* connection_;
  std::string where_;
};

}  // namespace twinbox
