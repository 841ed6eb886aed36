#include "driver/sqlserver/connect.hpp"

#include <string>

#include "sql/lexer.hpp"

namespace twinbox::sqlserver {
namespace {

constexpr SQLULEN login_seconds = 10;

/// The next word in lower case; empty at the end, or before anything else.
std::string next_word(std::string_view& sql) {
  while (!sql.empty()) {
    const Token token = next_token(sql, 0, Dialect::sqlserver);
    const std::string_view text = sql.substr(0, token.end);
    const bool skip = token.kind == Lexeme::comment || is_sql_blank(text.front());
    if (!skip && token.kind != Lexeme::word) return {};
    sql.remove_prefix(token.end);
    if (skip) continue;
    std::string word{text};
    for (char& c : word) {
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    return word;
  }
  return {};
}

bool is_transaction_word(std::string_view word) noexcept {
  return word == "tran" || word == "transaction" || word == "work";
}

}  // namespace

ConnectionHandle connect_to(SQLHENV environment, const Address& address) {
  auto connection = new_connection(environment);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): ODBC passes numbers as pointers
  SQLSetConnectAttr(connection.get(), SQL_ATTR_LOGIN_TIMEOUT,
                    reinterpret_cast<SQLPOINTER>(login_seconds), 0);
  std::string text = address.connection_string;
  SQLSMALLINT length = 0;
  const auto code = SQLDriverConnect(
      connection.get(), nullptr, reinterpret_cast<SQLCHAR*>(text.data()),
      static_cast<SQLSMALLINT>(text.size()), nullptr, 0, &length, SQL_DRIVER_NOPROMPT);
  if (succeeded(code)) return connection;
  throw failure("connect", server_error_of(SQL_HANDLE_DBC, connection.get()), address.shown, true);
}

void check_transaction_words(std::string_view sql) {
  const auto first = next_word(sql);
  auto second = next_word(sql);
  bool refused = first == "commit" || (first == "begin" && second.starts_with("tran"));
  if (first == "rollback") {
    if (is_transaction_word(second)) second = next_word(sql);
    refused = second.empty();  // with a name it is about a savepoint
  }
  if (!refused) return;
  throw UsageError(
      "execute: a session can neither begin nor end a transaction; leave that to its "
      "owner, or use a savepoint (save transaction …)");
}

}  // namespace twinbox::sqlserver
