#include "driver/sqlite/handle.hpp"

#include <cerrno>
#include <system_error>

namespace twinbox {
namespace {

using Kind = DatabaseError::Kind;

constexpr int primary(int code) { return code & 0xff; }

// SQLite has one code, SQLITE_ERROR, for a missing table, a missing column and a syntax error; only
// its text distinguishes them. This is the only place that reads it.
bool names_missing_table(std::string_view message) {
  return message.starts_with("no such table") || message.starts_with("no such view");
}

bool is_out_of_space(int system_error) { return system_error == ENOSPC || system_error == EDQUOT; }

Kind kind_of_open_failure(int system_error) {
  switch (system_error) {
    case EACCES:
    case EPERM: return Kind::permission;
    case EROFS: return Kind::read_only;
    default: return is_out_of_space(system_error) ? Kind::out_of_space : Kind::connection_lost;
  }
}

Kind kind_of(int code, int system_error, std::string_view message) {
  switch (primary(code)) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
    case SQLITE_SCHEMA: return Kind::contention;
    case SQLITE_FULL: return Kind::out_of_space;
    case SQLITE_READONLY: return Kind::read_only;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return Kind::corrupt;
    case SQLITE_PERM:
    case SQLITE_AUTH: return Kind::permission;
    case SQLITE_CANTOPEN: return kind_of_open_failure(system_error);
    case SQLITE_INTERRUPT: return Kind::cancelled;
    case SQLITE_CONSTRAINT:
    case SQLITE_TOOBIG:
    case SQLITE_MISMATCH:
    case SQLITE_RANGE: return Kind::invalid_request;
    case SQLITE_ERROR:
      return names_missing_table(message) ? Kind::missing_schema : Kind::invalid_request;
    case SQLITE_IOERR:
      // The shared-memory file reports a full disk as an I/O error.
      return is_out_of_space(system_error) ? Kind::out_of_space : Kind::other;
    default: return Kind::other;
  }
}

std::string_view hint_for(int code, Kind kind, std::string_view when_busy) {
  if (code == SQLITE_BUSY_SNAPSHOT) {
    return "another connection has written since this transaction first read: roll back and begin "
           "it "
           "with BEGIN IMMEDIATE";
  }
  if (primary(code) == SQLITE_BUSY) return when_busy;
  if (primary(code) == SQLITE_NOTADB) return "check the path, or whether the file is encrypted";
  if (primary(code) == SQLITE_IOERR && kind == Kind::other) {
    return "check the disk and the system's log, then open the file again";
  }
  switch (kind) {
    case Kind::contention: return "try again";
    case Kind::out_of_space: return "free some space on this disk and try again";
    case Kind::read_only: return "give this user write permission for the file and its directory";
    case Kind::corrupt:
      return "stop all writers, then restore a backup or use the sqlite3 program's .recover";
    case Kind::permission:
    case Kind::connection_lost:
      return "check that the directory exists and that this user may read and write in it";
    case Kind::missing_schema: return "deploy the schema first";
    default: return {};
  }
}

// After these the connection's view of the file may be wrong; a fresh connection reads it again.
bool breaks_connection(int code) {
  switch (primary(code)) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN: return true;
    default: return code == SQLITE_READONLY_DBMOVED;
  }
}

}  // namespace

DatabaseError SqliteHandle::error(std::string_view what) {
  const int code = sqlite3_extended_errcode(db);
  const int system_error = sqlite3_system_errno(db);
  const std::string_view words = sqlite3_errmsg(db);
  auto kind = kind_of(code, system_error, words);
  // An interrupted wait for a busy file ends as "busy".
  if (kind == Kind::contention && interrupted) kind = Kind::cancelled;
  if (breaks_connection(code)) broken = true;

  std::string message{what};
  message.append(": ").append(words);
  if ((primary(code) == SQLITE_CANTOPEN || primary(code) == SQLITE_IOERR) && system_error != 0) {
    message.append(": ").append(std::generic_category().message(system_error));
  }
  if (kind == Kind::cancelled) {
    message.append("; stopped on request");
  } else if (const auto advice = hint_for(code, kind, when_busy); !advice.empty()) {
    message.append("; ").append(advice);
  }
  message.append(" (").append(file).append(")");
  return {kind, message, std::to_string(code)};
}

void SqliteHandle::check_interrupted(std::string_view what) const {
  if (!interrupted.load(std::memory_order_relaxed)) return;
  throw DatabaseError(Kind::cancelled, std::string{what} + ": stopped on request (" + file + ")",
                      std::to_string(SQLITE_INTERRUPT));
}

}  // namespace twinbox
