#include "driver/postgres/failure.hpp"

namespace twinbox::postgres {
namespace {

using Kind = DatabaseError::Kind;

/// protocol_violation: the number of values does not match the statement. A pooler that ends a
/// connection with this code also closes it, which takes precedence.
constexpr std::string_view wrong_message = "08P01";

/// PostgreSQL quotes the offending value in messages of class 22 (data exception).
std::string without_quoted_values(std::string_view message) {
  std::string result;
  bool inside = false;
  for (const char c : message) {
    if (c == '"') {
      if (!inside) result += "\"…\"";
      inside = !inside;
    } else if (!inside) {
      result += c;
    }
  }
  return result;
}

std::string_view hint_for(std::string_view sqlstate, Kind kind, bool ours) {
  if (sqlstate == "25P02") {
    return "the transaction is already aborted by an earlier error: roll it back and begin again";
  }
  if (sqlstate == "53300") return "lower pool_size, or raise the server's max_connections";
  if (sqlstate == "3D000") return "create the database, or correct its name in the address";
  if (sqlstate == wrong_message) return "write parameters as @name, and give each of them a value";
  switch (kind) {
    case Kind::missing_schema:
      return ours ? "deploy the schema first, or correct the schema and table names in the options"
                  : "";
    case Kind::permission: return ours ? "check the role's login and its grants on the schema" : "";
    case Kind::out_of_space: return "free space on the server's disk";
    case Kind::read_only: return "connect to the primary (target_session_attrs=read-write)";
    case Kind::commit_in_doubt:
      return "the answer was lost, so it may or may not have been committed: look before it is "
             "repeated";
    case Kind::corrupt: return "the server's files are damaged: restore them from a backup";
    default: return "";
  }
}

}  // namespace

Kind kind_of(std::string_view sqlstate) noexcept {
  const auto is = [&](std::string_view code) { return sqlstate == code; };
  const auto begins = [&](std::string_view prefix) { return sqlstate.starts_with(prefix); };
  if (sqlstate.empty()) return Kind::connection_lost;
  if (is("40001") || is("40P01") || is("55P03")) return Kind::contention;
  // 3D000: no such database, as after a rename. It is reported at connect, so nothing was refused.
  if (ends_connection(sqlstate) || is("3D000")) return Kind::connection_lost;
  if (is("53100")) return Kind::out_of_space;
  if (is("25006")) return Kind::read_only;
  if (is("TB001")) return Kind::not_synchronous;
  if (is("42501") || begins("28")) return Kind::permission;
  if (is("42P01") || is("3F000") || is("42883")) return Kind::missing_schema;
  if (is("57014")) return Kind::cancelled;
  if (is(wrong_message)) return Kind::invalid_request;
  if (is("XX001") || is("XX002")) return Kind::corrupt;
  for (const std::string_view refused :
       {"0A", "21", "22", "23", "25", "26", "2B", "3B", "42", "44", "54", "P0"}) {
    if (begins(refused)) return Kind::invalid_request;
  }
  return Kind::other;
}

bool ends_connection(std::string_view sqlstate) noexcept {
  for (const std::string_view code :
       {"57P01", "57P02", "57P03", "57P04", "57P05", "25P03", "53300"}) {
    if (sqlstate == code) return true;
  }
  return sqlstate.starts_with("08") && sqlstate != wrong_message;
}

DatabaseError failure(std::string_view statement, const ServerError& server_error,
                      std::string_view where, bool ours) {
  return failure(kind_of(server_error.sqlstate), statement, server_error, where, ours);
}

DatabaseError failure(Kind kind, std::string_view statement, const ServerError& server_error,
                      std::string_view where, bool ours) {
  // Omit DETAIL: it contains key values, which may be personal data.
  std::string text{statement};
  text += ": ";
  text += server_error.sqlstate.starts_with("22") ? without_quoted_values(server_error.message)
                                                  : server_error.message;
  for (const std::string_view more :
       {std::string_view{server_error.hint}, hint_for(server_error.sqlstate, kind, ours)}) {
    if (more.empty()) continue;
    if (!text.ends_with('.')) text += '.';
    text += ' ';
    text += more;
  }
  if (!where.empty()) text.append(" (").append(where).append(")");
  return DatabaseError(kind, text, server_error.sqlstate);
}

std::string first_line(std::string_view message) {
  const auto begin = message.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  message = message.substr(begin);
  message = message.substr(0, message.find('\n'));
  return std::string{message.substr(0, message.find_last_not_of(" \t\r") + 1)};
}

}  // namespace twinbox::postgres
