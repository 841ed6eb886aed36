// Housekeeping: recurring chores of a box. Of many processes on a box one does each chore, under a
// named lease.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "twinbox/work_queue.hpp"

namespace twinbox {

// Named leases: of many processes on one box, one (or a few) may do a task. Leases are rows, so
// they work behind any pooler.

/// An acquired name. No other owner holds it until it is released or expires.
struct NamedLease {
  LeaseName name;
  OwnerToken owner;
  /// Grows whenever the holder changes: a system that checks it can refuse an earlier holder.
  std::int64_t epoch;

  auto operator<=>(const NamedLease&) const = default;
};

struct LeaseHolder {
  NamedLease lease;
  Instant until;
};

/// The leases of one box. Each call is one transaction, by the database's clock. Thread-safe.
/// Throws DatabaseError; std::out_of_range for a duration or a number of slots out of bounds.
class NamedLeases {
 public:
  /// `queue` must outlive it.
  explicit NamedLeases(WorkQueue& queue) : queue_(queue) {}

  /// Empty: another owner holds it. A current holder keeps its epoch, and its lease ends no earlier
  /// than before; so a call whose answer was lost can be repeated.
  std::optional<NamedLease> try_acquire(const LeaseName& name, OwnerToken owner, Duration duration);
  /// One of the leases `name/1` … `name/slots` (1 to 1000), the one that `owner` already holds if
  /// any.
  std::optional<NamedLease> try_acquire_one_of(const LeaseName& name, int slots, OwnerToken owner,
                                               Duration duration);
  /// Extends the lease, never shortens it. False: it has expired or another owner took it over.
  bool renew(const NamedLease& lease, Duration duration);
  /// Ends the lease; the next owner can acquire it immediately. False: another owner already holds
  /// it.
  bool release(const NamedLease& lease);
  /// The current holder.
  std::optional<LeaseHolder> holder(const LeaseName& name);
  /// At most `limit` of the leases that are held now, by name. The next page begins after the last
  /// name of this one.
  std::vector<LeaseHolder> held(std::int64_t limit = 1000, std::string_view after = {});

 private:
  WorkQueue& queue_;
};

struct LeaseKeeperOptions {
  int slots = 1;  ///< how many may hold the name at once
  Duration lease = std::chrono::seconds{30};
  Duration retry_interval = std::chrono::seconds{1};  ///< while another owner holds it
};

/// Keeps one name for a loop that may work only while it holds it. Releases it in the destructor.
/// One thread steps; held() may be asked from any.
class LeaseKeeper {
 public:
  /// `queue` must outlive it. Throws std::out_of_range naming an option and its bound.
  LeaseKeeper(WorkQueue& queue, LeaseName name, OwnerToken owner, LeaseKeeperOptions options = {});
  ~LeaseKeeper();
  LeaseKeeper(const LeaseKeeper&) = delete;
  LeaseKeeper& operator=(const LeaseKeeper&) = delete;

  /// Acquires a free lease, or renews the held one when a third of its time has passed. Returns the
  /// time until its next call. Throws DatabaseError; a held lease stays held until it expires.
  Duration step();
  /// Steps until it is held, for at most `timeout` (Duration::max(): forever), or until `stop`.
  /// Returns whether it is held.
  bool acquire(std::stop_token stop, Duration timeout = std::chrono::seconds{60});
  /// False as soon as another owner may hold the lease: it was lost, or not renewed in time by this
  /// process's own clock, which counts from before the request.
  [[nodiscard]] bool held() const;
  /// The held lease; empty as soon as held() is false.
  [[nodiscard]] std::optional<NamedLease> lease() const;
  /// Releases it. The next step() acquires again.
  void release();

 private:
  class State;
  std::unique_ptr<State> state_;
};

/// reap: clears expired leases; expire: makes deliveries past their expiry, or of messages older
/// than BoxOptions::max_age, dead; prune: deletes finished messages past their retention, never
/// open, dead or only seen ones.
enum class Chore { reap, expire, prune };

std::string_view to_string(Chore chore) noexcept;

struct ChoreOptions {
  bool enabled = true;
  Duration interval;          ///< between two starts, over all processes
  std::int64_t batch = 1000;  ///< rows per transaction

  bool operator==(const ChoreOptions&) const = default;
};

/// Valid after construction of the Housekeeping, or it throws.
struct HousekeepingOptions {
  ChoreOptions reap = {.interval = std::chrono::seconds{30}};
  ChoreOptions expire = {.interval = std::chrono::seconds{30}};
  ChoreOptions prune = {.interval = std::chrono::hours{1}};
  std::optional<Duration> retention = {};  ///< empty: the box's
  /// Chores run under the leases `<lease_name>.reap` and so on, held for their interval, at least
  /// for `min_lease`: after a crash other processes wait that long.
  LeaseName lease_name{"housekeeping"};
  Duration min_lease = std::chrono::seconds{30};

  /// Per-handler delivery: prune hourly in batches of 10 000, and only when a retention is given.
  static HousekeepingOptions per_handler(std::optional<Duration> retention = {});
  /// Marks of the at-most-once gate: kept for 7 days, pruned hourly.
  static HousekeepingOptions at_most_once();
  /// Outbox of the event bus: kept for 7 days, pruned every 30 s in batches of 100.
  static HousekeepingOptions event_bus_outbox();
  /// Inbox of the event bus: kept for 7 days, pruned hourly in batches of 1 000.
  static HousekeepingOptions event_bus_inbox();

  /// Throws std::out_of_range naming an option and its bounds.
  void check() const;
};

/// The result of a due chore.
struct ChoreReport {
  enum class End {
    done,
    stopped,    ///< by a stop request, between two batches or in one; the next step continues
    elsewhere,  ///< another process does it
    lost,       ///< another process took the lease over, between two batches
    failed,     ///< retried at the next interval
  };
  Chore chore;
  End end;
  std::size_t count = 0;    ///< rows
  std::size_t skipped = 0;  ///< rows that failed and were skipped (`stuck_row` in the log)
  Duration took = {};
  std::string error = {};  ///< of the chore, or of the last skipped row
};

std::string_view to_string(ChoreReport::End end) noexcept;

struct HousekeepingReport {
  std::vector<ChoreReport> chores;  ///< that were due
  Duration next;                    ///< from now until the next chore is due; at most a day
};

/// Since the Housekeeping was created.
struct ChoreStats {
  std::uint64_t runs = 0;  ///< begun here, failures among them
  std::uint64_t elsewhere = 0;
  std::uint64_t failures = 0;
  std::uint64_t rows = 0;
  std::uint64_t skipped = 0;
  std::string last_error = {};
};

/// One thread at a time steps or runs; stats() may be read from any.
class Housekeeping {
 public:
  using Observer = std::function<void(const ChoreReport&)>;
  /// Called with the deliveries that expire has made dead, batch by batch; the reason is `expired`
  /// or `max_age`.
  using DeadLetters = std::function<void(std::span<const Message>, std::string_view reason)>;

  /// `queue` must outlive it. Throws std::out_of_range naming an option and its bounds.
  explicit Housekeeping(WorkQueue& queue, HousekeepingOptions options = {}, Observer observer = {},
                        DeadLetters dead = {});
  ~Housekeeping();
  Housekeeping(const Housekeeping&) = delete;
  Housekeeping& operator=(const Housekeeping&) = delete;

  /// Runs the due chores, in batches; a stop request ends it between two or in one. Every chore is
  /// due at first. A failure is logged and reported, never thrown.
  HousekeepingReport step(std::stop_token stop = {});
  /// Steps whenever a chore is due, until `stop`.
  void run(std::stop_token stop);

  [[nodiscard]] ChoreStats stats(Chore chore) const;

 private:
  class Runner;
  std::unique_ptr<Runner> runner_;
};

}  // namespace twinbox
