#include <string>

#include "driver/sqlserver/batch.hpp"
#include "driver/sqlserver/connect.hpp"
#include "driver/sqlserver/odbc.hpp"
#include "twinbox/session.hpp"

namespace twinbox {
namespace {

using namespace sqlserver;

std::string where(SQLHDBC connection) {
  const auto info = [&](SQLUSMALLINT type) {
    std::u16string text(256, u'\0');
    SQLSMALLINT size = 0;
    std::string result;
    const auto code = SQLGetInfoW(connection, type, wide(text),
                                  static_cast<SQLSMALLINT>(text.size() * sizeof(char16_t)), &size);
    if (succeeded(code)) append_utf8(result, text.substr(0, text.find(u'\0')));
    return result;
  };
  return "sqlserver://" + info(SQL_USER_NAME) + "@" + info(SQL_SERVER_NAME) + "/" +
         info(SQL_DATABASE_NAME);
}

bool begins_by_itself(SQLHDBC connection) {
  SQLULEN autocommit = SQL_AUTOCOMMIT_ON;
  SQLGetConnectAttr(connection, SQL_ATTR_AUTOCOMMIT, &autocommit, 0, nullptr);
  return autocommit == SQL_AUTOCOMMIT_OFF;
}

void check(const ExecutionContext& target) {
  switch (transaction_state(target)) {
    case TransactionState::open: return;
    case TransactionState::doomed:
      throw UsageError(
          "OdbcSession: the transaction can only be rolled back after an earlier error: roll it "
          "back and begin again");
    case TransactionState::none: break;
  }
  if (!begins_by_itself(target.connection)) {
    throw UsageError(
        "OdbcSession: no transaction is open on the connection: begin one, or switch off "
        "SQL_ATTR_AUTOCOMMIT first");
  }
  // A savepoint begins nothing, a select from a table does.
  run_text(target, "begin", "select top (0) name from sys.schemas");
}

}  // namespace

OdbcSession::OdbcSession(void* connection) : connection_(connection) {
  if (connection == nullptr) {
    throw UsageError("OdbcSession: the connection is null: pass a connected SQLHDBC");
  }
  where_ = where(connection);
}

Dialect OdbcSession::dialect() const noexcept { return Dialect::sqlserver; }

std::size_t OdbcSession::execute(const Statement& statement, std::span<const Arg> args,
                                 RowSink rows) {
  const ExecutionContext target{connection_, where_};
  check(target);
  Batch batch{statement, args};
  return run_for_caller(batch, target, rows);
}

std::size_t OdbcSession::execute_text(std::string_view sql, std::span<const Arg> args,
                                      RowSink rows) {
  const ExecutionContext target{connection_, where_};
  check(target);
  check_transaction_words(sql);
  const Answer answer = Batch{sql, args}.run(target);
  answer.deliver(rows);
  return answer.count();
}

bool OdbcSession::in_transaction() const {
  const auto state = transaction_state({connection_, where_});
  return state == TransactionState::open ||
         (state == TransactionState::none && begins_by_itself(connection_));
}

}  // namespace twinbox
