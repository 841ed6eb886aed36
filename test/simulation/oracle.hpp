// Looks at a store from outside, where nothing goes wrong, and judges what has changed since.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "simulation/ledger.hpp"
#include <twinbox/database.hpp>
#include <twinbox/ids.hpp>

namespace twinbox::simulation {

struct DeliveryRow {
  DeliveryName delivery;
  std::int64_t epoch;
  std::int64_t attempts;
  std::optional<Uuid> owner;
  std::optional<Instant> lease_until;
  std::optional<std::string> partition;  ///< handler and key

  [[nodiscard]] bool leased(Instant now) const { return lease_until && *lease_until > now; }
};

enum class State { done = 1, dead = 2, discarded = 3, marked = 4 };

struct OutcomeRow {
  State state;
  std::string reason;
};

/// All deliveries of a box at one moment.
struct Snapshot {
  std::map<std::int64_t, DeliveryRow> work;  ///< by work id
  std::map<DeliveryName, OutcomeRow> outcomes;
  std::map<DeliveryName, int> effects;  ///< rows that transactional handlers wrote
  std::int64_t largest_id = 0;          ///< of any work so far
  std::int64_t version = 0;             ///< of the file, as the connection that looks sees it
};

/// Whoever acted between two pictures; empty: a producer or a sweeper.
using Actor = std::optional<Uuid>;

/// The table that transactional handlers write to.
void make_effects(Database& database);
/// Empty: nothing was written since `before`. `database` must have one connection for all looks.
std::optional<Snapshot> take_snapshot(Database& database, bool is_inbox, const Snapshot& before);

/// Throws Violation: nobody touches a lease that lives but its owner, an epoch grows with each
/// claim, a key has one lease, a delivery is open or finished and never both, what is finished
/// stays so, no attempt goes beyond the limit, no effect happens twice.
void check_change(const Snapshot& before, const Snapshot& after, const Actor& actor, Instant now,
                  std::int64_t max_attempts);

}  // namespace twinbox::simulation
