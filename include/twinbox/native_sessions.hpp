// Sessions on a connection of the caller's own: the transaction is the caller's to begin and to
// end.
#pragma once

#include <memory>
#include <string>

#include "twinbox/session.hpp"

struct sqlite3;
struct pg_conn;

namespace twinbox {

/// Your own `sqlite3*`, borrowed: it must outlive the session. Cheap to keep, since it remembers
/// its prepared statements until it is destroyed. A call without an open transaction throws
/// UsageError. A call that takes more than one statement runs in a savepoint, so that a failure
/// leaves nothing of it behind and your transaction stays usable, unless SQLite itself has rolled
/// it back: the error then says so.
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
/// or on a connection that does not block throws UsageError. After an error PostgreSQL refuses
/// everything but a rollback, which is yours to make. Begin the transaction with READ COMMITTED: in
/// REPEATABLE READ and SERIALIZABLE, which see one snapshot only, partition keys and messages that
/// are already known are refused (invalid_request).
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
/// off) throws UsageError. A call runs behind a savepoint, so that a failure leaves nothing of it
/// behind and your transaction stays usable, unless the server has ended it (XACT_ABORT, a
/// deadlock): the error then says so. Read the results of your own statements first, since one
/// statement at a time can be open on a connection.
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
