#include "driver/sqlserver/failure.hpp"

#include <algorithm>
#include <array>

namespace twinbox::sqlserver {
namespace {

using Kind = DatabaseError::Kind;

struct Known {
  std::int32_t native;
  Kind kind;
};

// The server's numbers, in their order.
constexpr std::array known{
    Known{64, Kind::connection_lost},     // the name on the network is gone
    Known{207, Kind::invalid_request},    // no such column
    Known{208, Kind::missing_schema},     // no such table or view
    Known{229, Kind::permission},         // on an object
    Known{230, Kind::permission},         // on a column
    Known{233, Kind::connection_lost},    // no process at the other end
    Known{262, Kind::permission},         // in the database
    Known{297, Kind::permission},         // to action
    Known{300, Kind::permission},         // on the server
    Known{515, Kind::invalid_request},    // null
    Known{547, Kind::invalid_request},    // a constraint
    Known{596, Kind::connection_lost},    // killed
    Known{823, Kind::corrupt},            // a page cannot be read
    Known{824, Kind::corrupt},            // a page is wrong
    Known{916, Kind::permission},         // in this database
    Known{1105, Kind::out_of_space},      // of a filegroup
    Known{1205, Kind::contention},        // deadlock victim
    Known{1222, Kind::contention},        // lock request timed out
    Known{2601, Kind::invalid_request},   // duplicate in a unique index
    Known{2627, Kind::invalid_request},   // duplicate key
    Known{2760, Kind::missing_schema},    // no such schema
    Known{2812, Kind::missing_schema},    // no such procedure
    Known{3902, Kind::invalid_request},   // commit without begin
    Known{3903, Kind::invalid_request},   // rollback without begin
    Known{3906, Kind::read_only},         // database
    Known{3930, Kind::invalid_request},   // a doomed transaction
    Known{3960, Kind::contention},        // snapshot conflict
    Known{3961, Kind::contention},        // the schema changed under a snapshot
    Known{4060, Kind::connection_lost},   // no such database
    Known{6005, Kind::connection_lost},   // shutting down
    Known{9002, Kind::out_of_space},      // of the log
    Known{10053, Kind::connection_lost},  // broken by the machine
    Known{10054, Kind::connection_lost},  // reset
    Known{10060, Kind::connection_lost},  // no answer
    Known{10928, Kind::connection_lost},  // Azure: too many
    Known{10929, Kind::connection_lost},  // Azure: too many
    Known{17142, Kind::connection_lost},  // paused
    Known{17143, Kind::connection_lost},  // paused
    Known{18452, Kind::permission},       // login, untrusted domain
    Known{18456, Kind::permission},       // login
    Known{18470, Kind::permission},       // login disabled
    Known{18487, Kind::permission},       // password expired
    Known{18488, Kind::permission},       // password must change
    Known{20004, Kind::connection_lost},  // FreeTDS: read
    Known{20006, Kind::connection_lost},  // FreeTDS: write
    Known{20009, Kind::connection_lost},  // FreeTDS: connect
    Known{20017, Kind::connection_lost},  // FreeTDS: end of file
    Known{20047, Kind::connection_lost},  // FreeTDS: dead
    Known{40197, Kind::connection_lost},  // Azure: moved
    Known{40501, Kind::connection_lost},  // Azure: busy
    Known{40613, Kind::connection_lost},  // Azure: not available
    Known{51205, Kind::contention},       // ours: the lock of a partition key was not to be had
};
static_assert(std::is_sorted(known.begin(), known.end(),
                             [](Known a, Known b) { return a.native < b.native; }));

std::string_view hint_for(const ServerError& server_error, Kind kind, bool ours) {
  if (server_error.native == 1222) {
    return "another open transaction locked the rows for longer than wait_timeout: end "
           "that transaction, or raise wait_timeout; inside it, pass its Session on";
  }
  if (server_error.native == 4060 || server_error.native == 911) {
    return "create the database, or correct its name in the address";
  }
  // unixODBC has no data source, or cannot load the driver.
  if (server_error.sqlstate == "IM002" ||
      (server_error.sqlstate == "01000" && server_error.native == 0)) {
    return "install an ODBC driver for SQL Server and name it in the address (driver=…, as in "
           "odbcinst -q -d)";
  }
  // FreeTDS has no more detail when a server listens and the handshake fails.
  if (server_error.sqlstate == "08001" && server_error.native == 0) {
    return "a server that listens there was not agreed with: check Encrypt, and that its "
           "certificate is vouched for by the ca file of freetds.conf and holds its name "
           "(TDSDUMP=/dev/stderr shows the talk)";
  }
  switch (kind) {
    case Kind::missing_schema:
      return ours ? "deploy the schema first, or correct the schema and table names in the options"
                  : "";
    case Kind::permission:
      return ours ? "check the login and its grants (schema print --grants)" : "";
    case Kind::out_of_space: return "free space on the server's disk, or enlarge the file";
    case Kind::read_only: return "connect to the primary";
    case Kind::commit_in_doubt:
      return "the answer was lost, so it may or may not have been committed: look before it is "
             "repeated";
    case Kind::corrupt: return "the server's files are damaged: restore them from a backup";
    default: return "";
  }
}

/// The server's text about a duplicate or invalid data contains the value itself.
std::string without_values(const ServerError& server_error) {
  if (server_error.native == 2601 || server_error.native == 2627) {
    return server_error.message.substr(0, server_error.message.find(" ("));
  }
  if (!server_error.sqlstate.starts_with("22") && server_error.native != 245 &&
      server_error.native != 2628) {
    return server_error.message;
  }
  std::string result;
  char inside = '\0';
  for (const char c : server_error.message) {
    if (inside == '\0') {
      result += c;
      if (c == '"' || c == '\'') inside = c;
    } else if (c == inside) {
      result.append("…") += c;
      inside = '\0';
    }
  }
  return result;
}

/// Babelfish has one number for all errors without a number of SQL Server's; only the text
/// distinguishes a missing table from a syntax error. This is the only place that reads it.
constexpr std::int32_t unnumbered = 33557097;

Kind kind_of_words(std::string_view message, Kind otherwise) noexcept {
  const auto begins = [&](std::string_view word) { return message.starts_with(word); };
  if (message.ends_with(" does not exist") &&
      (begins("relation ") || begins("procedure ") || begins("schema "))) {
    return Kind::missing_schema;
  }
  if (begins("permission denied for ")) return Kind::permission;
  if (message == "canceling statement due to lock timeout") return Kind::contention;
  return otherwise;
}

Kind kind_of_state(std::string_view state) noexcept {
  const auto is = [&](std::string_view code) { return state == code; };
  const auto begins = [&](std::string_view prefix) { return state.starts_with(prefix); };
  if (state.empty() || begins("08") || is("HYT01")) return Kind::connection_lost;
  if (is("HY008") || is("HYT00")) return Kind::cancelled;
  if (is("40001")) return Kind::contention;
  if (begins("28")) return Kind::permission;
  if (is("42S02")) return Kind::missing_schema;
  for (const std::string_view refused : {"07", "21", "22", "23", "25", "42", "44"}) {
    if (begins(refused)) return Kind::invalid_request;
  }
  return Kind::other;
}

}  // namespace

Kind kind_of(const ServerError& server_error) noexcept {
  // A state of the client side; its number is the driver's own.
  if (server_error.sqlstate.starts_with("08")) return Kind::connection_lost;
  const auto* found =
      std::lower_bound(known.begin(), known.end(), server_error.native,
                       [](Known one, std::int32_t native) { return one.native < native; });
  if (found != known.end() && found->native == server_error.native) return found->kind;
  // raiserror and throw
  if (server_error.native >= 50000 && server_error.native < 100000) return Kind::invalid_request;
  const Kind kind = kind_of_state(server_error.sqlstate);
  return server_error.native == unnumbered ? kind_of_words(server_error.message, kind) : kind;
}

DatabaseError failure(std::string_view statement, const ServerError& server_error,
                      std::string_view where, bool ours) {
  return failure(kind_of(server_error), statement, server_error, where, ours);
}

DatabaseError failure(Kind kind, std::string_view statement, const ServerError& server_error,
                      std::string_view where, bool ours) {
  std::string text{statement};
  text += ": ";
  text += without_values(server_error);
  if (const auto advice = hint_for(server_error, kind, ours); !advice.empty()) {
    if (!text.ends_with('.')) text += '.';
    text += ' ';
    text += advice;
  }
  if (!where.empty()) text.append(" (").append(where).append(")");
  return {kind, text,
          server_error.native != 0 ? std::to_string(server_error.native) : server_error.sqlstate};
}

}  // namespace twinbox::sqlserver
