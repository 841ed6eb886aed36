#include "driver/sqlserver/sqlserver_connection.hpp"

#include <utility>

#include "database/answer_timeout.hpp"
#include "driver/sqlserver/address.hpp"
#include "driver/sqlserver/connect.hpp"

namespace twinbox::sqlserver {
namespace {

using Kind = DatabaseError::Kind;

constexpr std::string_view user_statement = "execute";

// Overrides the defaults of the login, the database and the driver.
constexpr std::string_view settings =
    "set implicit_transactions off; set nocount off; "
    "set transaction isolation level read committed; set quoted_identifier on; set ansi_nulls on; "
    "set ansi_padding on; set ansi_warnings on; set arithabort on; set concat_null_yields_null on; "
    "set numeric_roundabort off";

// In a caller's transaction an error need not end it, and the caller's lock timeout applies.
constexpr std::string_view begin_callers =
    "set xact_abort off; set lock_timeout -1; begin transaction";

}  // namespace

TransactionSql transaction_sql(std::chrono::milliseconds lock_wait_timeout) {
  return {.settings = std::string{settings},
          .begin_own = "set xact_abort on; set lock_timeout " +
                       std::to_string(lock_wait_timeout.count()) + "; begin transaction",
          .begin_callers = std::string{begin_callers},
          .commit = "commit transaction",
          .rollback = "if @@trancount > 0 rollback transaction"};
}

SqlServerConnection::SqlServerConnection(const Address& address, TransactionSql words,
                                         std::chrono::milliseconds answer_timeout)
    : where_(address.shown),
      transaction_sql_(std::move(words)),
      answer_timeout_(
          static_cast<SQLULEN>(std::chrono::ceil<std::chrono::seconds>(answer_timeout).count())),
      answer_seconds_(answer_timeout_),
      environment_(new_environment()),
      connection_(connect_to(environment_.get(), address)) {
  run_text(target(), "connect", transaction_sql_.settings);
}

void SqlServerConnection::check(std::string_view action) const {
  if (running_.interrupted()) {
    throw failure(Kind::cancelled, action, {.message = "stopped on request"}, where_, true);
  }
  // A statement now would be a transaction of its own.
  if (failed_) {
    throw failure(Kind::invalid_request, action,
                  {.message = "an earlier error has ended the transaction: roll it back and begin "
                              "again"},
                  where_, true);
  }
}

void SqlServerConnection::fail(const DatabaseError& error, std::string_view action) {
  // After a cancelled or timed out statement the state of the server's work is unknown.
  lost_ = lost_ || error.kind() == Kind::connection_lost;
  broken_ = broken_ || lost_ || error.kind() == Kind::cancelled;
  failed_ = failed_ || broken_ || scope_ != Scope::caller || !is_open();
  if (!running_.interrupted()) {
    // Without a request: the server has not answered in time, and nothing was committed.
    if (error.kind() != Kind::cancelled || answer_seconds_ == 0) throw error;
    throw failure(Kind::connection_lost, action, {.message = error.what()}, {}, true);
  }
  broken_ = true;
  throw failure(Kind::cancelled, action, {.message = "stopped on request"}, where_, true);
}

bool SqlServerConnection::is_open() noexcept {
  try {
    return transaction_state(target()) == TransactionState::open;
  } catch (...) {
    return false;
  }
}

void SqlServerConnection::begin(Access access, Scope scope) {
  failed_ = false;
  answer_seconds_ = WithoutAnswerTimeout::active() ? 0 : answer_timeout_;
  check("begin");
  access_ = access;
  scope_ = scope;
  active_ = true;
  // One statement that only reads is its own transaction. For a write the begin is a separate round
  // trip: a connection that the server has closed long ago is detected before anything is in doubt.
  if (access == Access::read && scope == Scope::statement) return;
  open_ = true;  // uncertain when the call is interrupted
  try {
    run_text(target(), "begin",
             scope == Scope::caller ? transaction_sql_.begin_callers : transaction_sql_.begin_own);
  } catch (const DatabaseError& error) {
    fail(error, "begin");
  }
}

std::size_t SqlServerConnection::execute(const Statement& statement, std::span<const Arg> args,
                                         RowSink rows) {
  check(statement.name);
  Batch batch{statement, args};
  if (batch.idle()) return 0;
  return run(statement.name, [&] {
    if (scope_ == Scope::caller) return run_for_caller(batch, target(), rows);
    const Answer answer = batch.run(target());
    answer.deliver(rows);
    return answer.count();
  });
}

std::size_t SqlServerConnection::execute_text(std::string_view sql, std::span<const Arg> args,
                                              RowSink rows) {
  check(user_statement);
  check_transaction_words(sql);
  return run(user_statement, [&] {
    const Answer answer = Batch{sql, args}.run(target());
    answer.deliver(rows);
    return answer.count();
  });
}

template <class Work>
std::size_t SqlServerConnection::run(std::string_view action, const Work& work) {
  try {
    return work();
  } catch (const DatabaseError& error) {
    fail(error, action);
  }
}

void SqlServerConnection::commit() {
  running_.reset();
  const bool open = std::exchange(open_, false);
  active_ = false;
  if (!open) return;
  if (failed_) {
    open_ = true;
    rollback();
    throw failure(Kind::invalid_request, "commit",
                  {.message = "nothing was committed: a statement in the transaction had failed, "
                              "so that it was rolled back"},
                  where_, true);
  }
  try {
    run_text(target(), "commit", transaction_sql_.commit);
  } catch (const DatabaseError& error) {
    lost_ = error.kind() == Kind::connection_lost;
    broken_ = true;
    open_ = true;  // if it is: the caller rolls back
    const bool answered = !lost_ && error.kind() != Kind::cancelled;
    if (answered || access_ == Access::read) throw;
    throw failure(Kind::commit_in_doubt, "commit", {.message = error.what()}, {}, true);
  }
}

void SqlServerConnection::rollback() noexcept {
  running_.reset();
  active_ = false;
  failed_ = false;
  // Do not leave it to the end of the connection: a pooling driver manager would keep it open, with
  // its locks.
  if (!std::exchange(open_, false) || lost_) return;
  try {
    run_text(target(), "rollback", transaction_sql_.rollback);
  } catch (...) {
    broken_ = true;
  }
}

}  // namespace twinbox::sqlserver
