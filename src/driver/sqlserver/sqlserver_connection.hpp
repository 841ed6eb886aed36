// A connection of our own to SQL Server.
#pragma once

#include <chrono>
#include <string>

#include "database/connection.hpp"
#include "driver/sqlserver/batch.hpp"
#include "driver/sqlserver/odbc.hpp"

namespace twinbox::sqlserver {

struct Address;

/// The statements that control a connection. On a server with other ones, a connection attribute of
/// the ODBC driver can end a transaction.
struct TransactionSql {
  std::string settings;
  std::string begin_own;
  std::string begin_callers;
  std::string commit;
  std::string rollback;  ///< also valid without a transaction
};

/// SQL Server's. A lock is waited for as long as `lock_wait_timeout`.
TransactionSql transaction_sql(std::chrono::milliseconds lock_wait_timeout);

/// An error ends a transaction of ours (XACT_ABORT), so that no partial work is ever committed. In
/// a caller's, the work before the call remains, and the transaction stays usable if the server
/// allows it.
class SqlServerConnection final : public Connection {
 public:
  /// Connects. The server may take as long as `answer_timeout`, in whole seconds, to answer; zero:
  /// forever. Throws DatabaseError.
  SqlServerConnection(const Address& address, TransactionSql words,
                      std::chrono::milliseconds answer_timeout = {});

  using Session::execute;
  [[nodiscard]] Dialect dialect() const noexcept override { return Dialect::sqlserver; }
  std::size_t execute(const Statement& statement, std::span<const Arg> args, RowSink rows) override;
  [[nodiscard]] bool in_transaction() const override { return active_ && !failed_ && usable(); }

  void begin(Access access, Scope scope) override;
  void commit() override;
  void rollback() noexcept override;
  [[nodiscard]] bool usable() const noexcept override { return !broken_; }
  void interrupt() noexcept override { running_.interrupt(); }

 private:
  std::size_t execute_text(std::string_view sql, std::span<const Arg> args, RowSink rows) override;
  template <class Work>
  std::size_t run(std::string_view action, const Work& work);
  /// The effect of an error on the connection, and of a stop on the error.
  [[noreturn]] void fail(const DatabaseError& error, std::string_view action);
  [[nodiscard]] bool is_open() noexcept;
  /// Throws DatabaseError when no further statement may be executed.
  void check(std::string_view action) const;
  [[nodiscard]] ExecutionContext target() noexcept {
    return {connection_.get(), where_, &running_, answer_seconds_};
  }

  std::string where_;
  TransactionSql transaction_sql_;
  const SQLULEN answer_timeout_;
  SQLULEN answer_seconds_;         // of the current call
  EnvironmentHandle environment_;  // one each: unixODBC may serialise the connections of one
  ConnectionHandle connection_;
  Running running_;
  Access access_ = Access::read;
  Scope scope_ = Scope::statement;
  bool active_ = false;  // between begin() and its commit() or rollback()
  bool open_ = false;    // a transaction may be, on the server
  bool failed_ = false;  // a statement in it has
  bool broken_ = false;  // to be thrown away
  bool lost_ = false;    // and the server cannot be reached any more
};

}  // namespace twinbox::sqlserver
