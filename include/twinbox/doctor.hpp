// What is wrong with a store, and how to mend it: for a person who was called at night.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "twinbox/admin.hpp"
#include "twinbox/schema.hpp"

namespace twinbox {

/// One thing that was looked at.
struct Finding {
  enum class Level { ok, warning, error };

  std::string check;  ///< `schema`, `index`, `clock`, …
  Level level;
  std::string found;
  std::string fix = {};  ///< what to do or to run; empty when all is well
};

std::string_view to_string(Finding::Level level) noexcept;

/// From where on something is worth a finding.
struct DoctorLimits {
  Duration clock_skew = std::chrono::seconds{2};  ///< between this process and the server
  Duration held = std::chrono::minutes{5};        ///< an open transaction's age
  double free_share = 0.1;                        ///< of the disk below a SQLite file
  std::int64_t log_bytes = 256 * 1024 * 1024;     ///< of a SQLite file's write-ahead log
};

/// What the database's clock says; on SQLite, which has none, this process's. Throws DatabaseError.
[[nodiscard]] Instant clock_of(Database& database);

/// Whether the database can be reached, its clock, how durable a commit is, whether it waits for a
/// standby and which transactions hold back vacuum (PostgreSQL), the file, its rights and its disk
/// (SQLite). A database that cannot be asked is a finding; nothing is thrown for it.
[[nodiscard]] std::vector<Finding> examine_database(Database& database,
                                                    const DoctorLimits& limits = {});

/// How durable the commits of one connection are: for a program that enqueues on its own.
[[nodiscard]] std::vector<Finding> examine_session(Session& session);

/// The tables of a box: their version, functions, indexes, whether they are vacuumed, sequences
/// that lie behind the data (PostgreSQL), the partition keys that dead letters or due times far in
/// the future stop, and whether commits wait for a standby where BoxOptions::require_synchronous
/// asks for it.
[[nodiscard]] std::vector<Finding> examine_box(Database& database, BoxKind kind,
                                               BoxOptions options = {});

/// Two looks at Admin::counts, `between` apart: whether anybody works, and keeps up.
[[nodiscard]] Finding compare_backlog(const StateCounts& before, const StateCounts& after,
                                      Duration between);

}  // namespace twinbox
