// Is a box well? In words and in a state that a probe can be answered with.
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

  std::int64_t pending =
      1000;                ///< more than so many deliveries that are due: degraded (0 to 1 000 000)
  std::int64_t dead = 10;  ///< more than so many dead letters: unhealthy (0 to 1 000 000)
  /// A delivery has been due for so long while no running dispatcher has finished or failed any:
  /// degraded. From 1 s on; 0: never. Switch it off for a box that is handled without a dispatcher.
  Duration stalled = std::chrono::minutes{5};
};

enum class HealthState { healthy, degraded, unhealthy };

std::string_view to_string(HealthState state) noexcept;

struct Health {
  HealthState state;
  std::vector<std::string> reasons;  ///< at least one, the worst first
  /// Counted only until the threshold is passed by one: the check costs the same however large the
  /// backlog and the history are.
  std::int64_t pending = 0;  ///< due and not finished: ready, held by a worker, or behind another
                             ///< of their partition key
  std::int64_t dead = 0;
  std::int64_t held = 0;  ///< partition keys that dead letters hold; any makes it degraded
  /// Partition keys that wait for a delivery that is due far in the future (BlockedKey); any makes
  /// it degraded. Of the deliveries that are due last, the first 10 000 are looked at.
  std::int64_t blocked = 0;
  bool stalled = false;  ///< see HealthThresholds::stalled
  /// The first reason is an error in the database's own words, which tell where it is and whose.
  bool broken = false;
};

/// Reads without stopping anybody. A store that cannot be asked is unhealthy, with the error as the
/// reason, and so is one that within the last minute has refused a write of this process (no space,
/// read only, damaged) and has stored no message for it since; nothing is thrown for it. Refusals
/// inside Database::in_transaction() count as well, except read only, which its caller may want,
/// but not what it stores; what happens on a caller's PGconn*, sqlite3* or pqxx cannot be seen.
/// Behind more than 10 000 partition keys whose heads are all scheduled for later, what waits may
/// be overlooked.
[[nodiscard]] Health check_health(WorkQueue& queue, const HealthThresholds& thresholds = {});

/// Why the database takes no writes of this process, as check_health() has it, in the database's
/// own words; empty: nothing is known against it. Asks nobody.
[[nodiscard]] std::optional<std::string> write_refusal(Database& database);

/// Inserts a row into the table of the workers and deletes it, in one transaction that is durable
/// when it returns: the database takes writes. Throws DatabaseError when it does not.
void probe_writes(WorkQueue& queue);

/// How long ago a call of this process proved that the database takes writes: it stored messages
/// outside of a caller's transaction, or probed. Empty: none has. Asks nobody.
[[nodiscard]] std::optional<std::chrono::steady_clock::duration> since_write(Database& database);

// Who works on a box: dispatchers that run tell of themselves.

/// A dispatcher, as it has told of itself. How many leases it holds: Counts::by_owner.
struct Worker {
  OwnerToken owner;
  std::string name;     ///< host:process
  std::string version;  ///< of the library
  Instant started_at;
  Instant seen_at;  ///< told again every 15 s; with more than 150 stores ten are told a second
  std::int64_t done = 0;    ///< messages finished since it started, as of `seen_at`
  std::int64_t failed = 0;  ///< attempts that failed, dead letters included
};

/// The workers of one box. A dispatcher's row comes with Dispatcher::run() and goes with its end;
/// one that died leaves it behind until the chore `reap` removes it after a day. Thread-safe.
/// Throws DatabaseError.
class Workers {
 public:
  /// `queue` must outlive it.
  explicit Workers(WorkQueue& queue) : queue_(queue) {}

  /// At most `limit`, seen last first.
  [[nodiscard]] std::vector<Worker> list(std::int64_t limit = 1000);
  /// Removes those that were not seen for so long. Returns how many.
  std::size_t forget(Duration unseen);

  /// What a dispatcher tells: here I am; and at its end: here I go. `handles` is its announcement
  /// of handler keys and topics, which counts for the time it `lives` after each call.
  void heartbeat(const OwnerToken& owner, std::string_view name, std::string_view version,
                 std::int64_t done = 0, std::int64_t failed = 0, std::string_view handles = {},
                 Duration lives = std::chrono::minutes{1});
  void leave(const OwnerToken& owner);

 private:
  WorkQueue& queue_;
};

// What is wrong with a store, and how to mend it: for a person who was called at night.

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
