#include "twinbox/health.hpp"

#include <algorithm>
#include <stdexcept>
#include <tuple>

#include "health/stalled_text.hpp"
#include "queue/box.hpp"
#include "twinbox/operations.hpp"

namespace twinbox {
namespace {

/// How many keyed deliveries are read to find the waiting ones: a minimum, and a number per
/// requested one.
constexpr std::int64_t least_probe = 10'000;
constexpr std::int64_t probe_factor = 10;
/// How many held keys are counted: one is enough for an alert.
constexpr std::int64_t most_held = 100;

void require_threshold(std::string_view name, std::int64_t value) {
  if (value < 0 || value > 1'000'000) {
    throw std::out_of_range("health thresholds: " + std::string{name} + " is " +
                            std::to_string(value) + ", must be 0 to 1000000");
  }
}

void require_stalled(Duration value) {
  if (value == Duration::zero()) return;
  if (value < std::chrono::seconds{1} || value > HealthThresholds::max_stalled) {
    throw std::out_of_range("health thresholds: stalled is " + std::to_string(value.count()) +
                            " microseconds, must be 1 s to 365 days, or 0 (never)");
  }
}

std::string counted(std::int64_t count, std::int64_t threshold, std::string_view what) {
  return (count > threshold ? "more than " + std::to_string(threshold) : std::to_string(count)) +
         " " + std::string{what};
}

std::string held_text(std::int64_t held) {
  return counted(held, most_held, held == 1 ? "partition key is" : "partition keys are") +
         " blocked by dead letters; requeue or discard them (twinbox doctor lists them)";
}

std::string blocked_text(std::int64_t blocked) {
  const std::int64_t hours = BlockedKey::far / std::chrono::hours{1};
  return counted(blocked, most_held, blocked == 1 ? "partition key waits" : "partition keys wait") +
         " for a delivery that is due in more than " + std::to_string(hours) +
         " h; postpone it to an earlier time or discard it (twinbox doctor lists it)";
}

Health judge(Health health, const HealthThresholds& thresholds) {
  const auto [pending, dead, held, blocked] =
      std::tuple{health.pending, health.dead, health.held, health.blocked};
  if (dead > thresholds.dead) {
    health.state = HealthState::unhealthy;
    health.reasons.push_back(counted(dead, thresholds.dead, "dead letters"));
  }
  if (pending > thresholds.pending) {
    if (health.state == HealthState::healthy) health.state = HealthState::degraded;
    health.reasons.push_back(counted(pending, thresholds.pending, "pending"));
  }
  if (health.stalled) {
    if (health.state == HealthState::healthy) health.state = HealthState::degraded;
    health.reasons.push_back(stalled_text(thresholds.stalled));
  }
  if (held > 0) {
    if (health.state == HealthState::healthy) health.state = HealthState::degraded;
    health.reasons.push_back(held_text(held));
  }
  if (blocked > 0) {
    if (health.state == HealthState::healthy) health.state = HealthState::degraded;
    health.reasons.push_back(blocked_text(blocked));
  }
  if (health.reasons.empty()) {
    health.reasons.push_back(counted(pending, thresholds.pending, "pending") + ", " +
                             counted(dead, thresholds.dead, "dead letters"));
  }
  return health;
}

}  // namespace

std::string stalled_text(Duration stalled) {
  return "no dispatcher has finished anything for " +
         std::to_string(stalled / std::chrono::seconds{1}) +
         " s, and a delivery has been due for longer; check whether a dispatcher runs and whether "
         "its handlers hang";
}

std::string_view to_string(HealthState state) noexcept {
  switch (state) {
    case HealthState::healthy: return "healthy";
    case HealthState::degraded: return "degraded";
    case HealthState::unhealthy: return "unhealthy";
  }
  return "unknown";
}

Health check_health(WorkQueue& queue, const HealthThresholds& thresholds) {
  require_threshold("pending", thresholds.pending);
  require_threshold("dead", thresholds.dead);
  require_stalled(thresholds.stalled);
  const bool may_stall = thresholds.stalled > Duration::zero();
  Box& box = box_of(queue);
  const std::int64_t most_pending = thresholds.pending + 1;
  const std::string store = "store " + queue.database().name();
  try {
    Health health = box.in_own_transaction(Access::read, Scope::statement, [&](Session& session) {
      Health found{.state = HealthState::healthy, .reasons = {}};
      box.run(session, box.sql().health,
              {{"pending", most_pending},
               {"dead", thresholds.dead + 1},
               {"held", most_held + 1},
               {"probe", std::max(least_probe, probe_factor * most_pending)},
               {"far", micros(BlockedKey::far)},
               {"stalled", micros(may_stall ? thresholds.stalled : HealthThresholds::max_stalled)},
               box.now()},
              [&](const Row& row) {
                found.pending = std::min(most_pending, row.integer(0) + row.integer(1));
                found.dead = row.integer(2);
                found.held = row.integer(3);
                found.blocked = row.integer(4);
                found.stalled = may_stall && row.integer(5) > 0;
              });
      return judge(std::move(found), thresholds);
    });
    if (const auto refusal = write_refusal(queue.database())) {
      if (health.state == HealthState::healthy) health.reasons.clear();
      health.reasons.insert(health.reasons.begin(), store + " cannot accept writes: " + *refusal);
      health.state = HealthState::unhealthy;
      health.broken = true;
    }
    return health;
  } catch (const DatabaseError& error) {
    return {.state = HealthState::unhealthy,
            .reasons = {store + " cannot be queried: " + error.what()},
            .broken = true};
  }
}

std::optional<std::string> write_refusal(Database& database) { return pool_of(database).refusal(); }

/// Under an owner of its own: it waits for no other process, and no other process sees it.
void probe_writes(WorkQueue& queue) {
  Box& box = box_of(queue);
  const OwnerToken owner = OwnerToken::make(box.environment());
  box.in_own_transaction(Access::write, Scope::transaction, [&](Session& session) {
    box.run(session, box.sql().worker_heartbeat,
            {{"owner", Value{owner.uuid()}},
             {"name", "probe"},
             {"version", "-"},
             {"done", 0},
             {"failed", 0},
             {"handles", Value{}},
             {"lives", 0},
             box.now()});
    box.run(session, box.sql().worker_leave, {{"owner", Value{owner.uuid()}}});
  });
  pool_of(queue.database()).wrote();
}

std::optional<std::chrono::steady_clock::duration> since_write(Database& database) {
  return pool_of(database).since_write();
}

}  // namespace twinbox
