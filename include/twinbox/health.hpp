// Health of a box: in words, and as a state for a probe.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "twinbox/operations.hpp"
#include "twinbox/schema.hpp"
#include "twinbox/work_queue.hpp"

namespace twinbox {

/// check_health throws std::out_of_range for a value that is out of its bounds.
struct HealthThresholds {
  static constexpr Duration max_stalled = std::chrono::days{365};

  std::int64_t pending = 1000;  ///< more due deliveries than this: degraded (0 to 1 000 000)
  std::int64_t dead = 10;       ///< more than so many dead letters: unhealthy (0 to 1 000 000)
  /// A delivery has been due for this long while no running dispatcher has finished or failed any:
  /// degraded. At least 1 s; 0: never. Switch it off for a box that is handled without a
  /// dispatcher.
  Duration stalled = std::chrono::minutes{5};
};

enum class HealthState { healthy, degraded, unhealthy };

std::string_view to_string(HealthState state) noexcept;

struct Health {
  HealthState state;
  std::vector<std::string> reasons;  ///< at least one, the worst first
  /// Counted up to one above the threshold: the check costs the same however large the backlog and
  /// the history are.
  std::int64_t pending = 0;  ///< due and not finished: ready, held by a worker, or behind another
                             ///< of their partition key
  std::int64_t dead = 0;
  std::int64_t held = 0;  ///< partition keys that dead letters hold; any makes it degraded
  /// Partition keys that wait for a delivery that is due far in the future (BlockedKey); any makes
  /// it degraded. Only the 10 000 deliveries with the latest due times are read.
  std::int64_t blocked = 0;
  bool stalled = false;  ///< see HealthThresholds::stalled
  /// The first reason is the database's own error text, which may show its address and its user.
  bool broken = false;
};

/// Reads without blocking any writer. A store that cannot be reached is unhealthy, with the error
/// as the reason, and so is a store that refused a write of this process within the last minute (no
/// space, read only, damaged) and has stored no message for it since; neither throws. Refusals
/// inside Database::in_transaction() count as well, except read only, which the caller may have
/// chosen; refusals on your own PGconn*, sqlite3* or pqxx connection cannot be seen. Behind more
/// than 10 000 partition keys whose first deliveries are all scheduled for later, waiting
/// deliveries may be overlooked.
[[nodiscard]] Health check_health(WorkQueue& queue, const HealthThresholds& thresholds = {});

/// Why the database takes no writes of this process, as in check_health(), in the database's own
/// words; empty: no refusal is known. Sends no query.
[[nodiscard]] std::optional<std::string> write_refusal(Database& database);

/// Inserts a row into the table of the workers and deletes it, in one durable transaction, which
/// proves that the database takes writes. Throws DatabaseError when it does not.
void probe_writes(WorkQueue& queue);

/// How long ago a call of this process proved that the database takes writes: it stored messages
/// outside of a caller's transaction, or probed. Empty: never. Sends no query.
[[nodiscard]] std::optional<std::chrono::steady_clock::duration> since_write(Database& database);

// The workers of a box: running dispatchers report themselves.

/// A dispatcher, as it last reported itself. Counts::by_owner has the number of its leases.
struct Worker {
  OwnerToken owner;
  std::string name;     ///< host:process
  std::string version;  ///< of the library
  Instant started_at;
  Instant seen_at;        ///< reported every 15 s; with more than 150 stores, ten stores per second
  std::int64_t done = 0;  ///< messages finished since it started, as of `seen_at`
  std::int64_t failed = 0;  ///< attempts that failed, dead letters included
};

/// The workers of one box. Dispatcher::run() inserts a row and deletes it at its end; the row of a
/// crashed dispatcher stays until the chore `reap` removes it after a day. Thread-safe. Throws
/// DatabaseError.
class Workers {
 public:
  /// `queue` must outlive it.
  explicit Workers(WorkQueue& queue) : queue_(queue) {}

  /// At most `limit`, latest `seen_at` first.
  [[nodiscard]] std::vector<Worker> list(std::int64_t limit = 1000);
  /// Removes workers that were not seen for this long. Returns how many.
  std::size_t forget(Duration unseen);

  /// A dispatcher's heartbeat, and its end. `handles` announces its handler keys and topics; the
  /// announcement is valid for `lives` after each call.
  void heartbeat(const OwnerToken& owner, std::string_view name, std::string_view version,
                 std::int64_t done = 0, std::int64_t failed = 0, std::string_view handles = {},
                 Duration lives = std::chrono::minutes{1});
  void leave(const OwnerToken& owner);

 private:
  WorkQueue& queue_;
};

// Diagnosis of a store: what is wrong, and how to fix it.

/// One finding.
struct Finding {
  enum class Level { ok, warning, error };

  std::string check;  ///< `schema`, `index`, `clock`, …
  Level level;
  std::string found;
  std::string fix = {};  ///< what to do or to run; empty when the check passed
};

std::string_view to_string(Finding::Level level) noexcept;

/// Thresholds for findings.
struct DoctorLimits {
  Duration clock_skew = std::chrono::seconds{2};  ///< between this process and the server
  Duration held = std::chrono::minutes{5};        ///< an open transaction's age
  double free_share = 0.1;                        ///< of the disk below a SQLite file
  std::int64_t log_bytes = 256 * 1024 * 1024;     ///< of a SQLite file's write-ahead log
};

/// The database's clock; on SQLite, which has none, this process's. Throws DatabaseError.
[[nodiscard]] Instant clock_of(Database& database);

/// Checks that the database can be reached, its clock, how durable a commit is, whether it waits
/// for a standby and which transactions hold back vacuum (PostgreSQL), the file, its rights and its
/// disk (SQLite). An unreachable database is a finding; nothing is thrown for it.
[[nodiscard]] std::vector<Finding> examine_database(Database& database,
                                                    const DoctorLimits& limits = {});

/// The commit durability of one connection: for a program that enqueues on its own.
[[nodiscard]] std::vector<Finding> examine_session(Session& session);

/// Checks the tables of a box: their version, functions, indexes, whether they are vacuumed,
/// sequences that lag behind the data (PostgreSQL), the partition keys that dead letters or due
/// times far in the future block, and whether commits wait for a standby where
/// BoxOptions::require_synchronous demands it.
[[nodiscard]] std::vector<Finding> examine_box(Database& database, BoxKind kind,
                                               BoxOptions options = {});

/// Compares two snapshots of Admin::counts, `between` apart: whether workers run, and keep up.
[[nodiscard]] Finding compare_backlog(const StateCounts& before, const StateCounts& after,
                                      Duration between);

}  // namespace twinbox
