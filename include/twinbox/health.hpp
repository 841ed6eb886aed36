// Is a box well? In words and in a state that a probe can be answered with.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "twinbox/work_queue.hpp"

namespace twinbox {

/// check_health throws std::out_of_range for a value that is out of its bounds.
struct HealthThresholds {
  static constexpr Duration longest_stall = std::chrono::days{365};

  std::int64_t pending =
      1000;                ///< more than so many duties that are due: degraded (0 to 1 000 000)
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

}  // namespace twinbox
