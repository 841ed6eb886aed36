// One SQLite connection as the code above it sees it, and its result codes as errors with a fix.
#pragma once

#include <atomic>
#include <string>
#include <string_view>
#include <utility>

#include <sqlite3.h>

#include "twinbox/error.hpp"

namespace twinbox {

/// Borrows the connection.
struct SqliteHandle {
  SqliteHandle(sqlite3* connection, std::string file_name, std::string busy_way_out)
      : db(connection), file(std::move(file_name)), when_busy(std::move(busy_way_out)) {}

  /// SQLite's latest error on this connection as ours: "<what>: <SQLite's text>; <fix> (<file>)".
  /// Marks the connection as broken when it cannot be trusted any more.
  [[nodiscard]] DatabaseError error(std::string_view what);
  /// Throws DatabaseError `cancelled` once `interrupted` is set.
  void check_interrupted(std::string_view what) const;
  [[nodiscard]] bool in_transaction() const noexcept { return sqlite3_get_autocommit(db) == 0; }

  sqlite3* db;
  std::string file;       ///< as messages show it
  std::string when_busy;  ///< the hint for a busy file
  std::atomic<bool> interrupted = false;
  bool broken = false;
};

}  // namespace twinbox
