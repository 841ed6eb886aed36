// Looks at a store from outside, where nothing goes wrong, and judges what has changed since.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "simulation/ledger.hpp"
#include <twinbox/database.hpp>
#include <twinbox/ids.hpp>

namespace twinbox::simulation {

struct WorkRow {
  DutyName duty;
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

/// All duties of a box at one moment.
struct Picture {
  std::map<std::int64_t, WorkRow> work;  ///< by work id
  std::map<DutyName, OutcomeRow> outcomes;
  std::map<DutyName, int> effects;  ///< rows that transactional handlers wrote
  std::int64_t largest_id = 0;      ///< of any work so far
  std::int64_t version = 0;         ///< of the file, as the connection that looks sees it
};

/// Whoever acted between two pictures; empty: a producer or a sweeper.
using Actor = std::optional<Uuid>;

/// The table that transactional handlers write to.
void make_effects(Database& database);
/// Empty: nothing was written since `before`. `database` must have one connection for all looks.
std::optional<Picture> take_picture(Database& database, bool is_inbox, const Picture& before);

/// Throws Violation: nobody touches a lease that lives but its owner, an epoch grows with each
/// claim, a key has one lease, a duty is open or finished and never both, what is finished stays
/// so, no attempt goes beyond the limit, no effect happens twice.
void check_change(const Picture& before, const Picture& after, const Actor& actor, Instant now,
                  std::int64_t max_attempts);

}  // namespace twinbox::simulation
