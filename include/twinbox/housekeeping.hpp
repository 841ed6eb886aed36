// Housekeeping: what a box needs now and then. Of many processes on a box one does each chore,
// under a named lease.
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

// Named leases: of many processes on one box, one (or a few) may do a thing. They are rows, so they
// work behind any pooler.

/// A name that was acquired. Nobody else holds it until it is released or runs out.
struct NamedLease {
  LeaseName name;
  OwnerToken owner;
  /// Grows whenever the holder changes: whoever is told of it can refuse an earlier holder.
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

  /// Empty: somebody else holds it. Who holds it already keeps his epoch, and his lease ends no
  /// earlier than before; so a call whose answer was lost can simply be made again.
  std::optional<NamedLease> try_acquire(const LeaseName& name, OwnerToken owner, Duration duration);
  /// One of the leases `name/1` … `name/slots` (1 to 1000), the one that `owner` has if he has one.
  std::optional<NamedLease> try_acquire_one_of(const LeaseName& name, int slots, OwnerToken owner,
                                               Duration duration);
  /// Moves the end, never to an earlier one. False: it has run out or somebody took it over.
  bool renew(const NamedLease& lease, Duration duration);
  /// Ends the lease; the next one has it at once. False: it was somebody else's by now.
  bool release(const NamedLease& lease);
  /// Who holds it now.
  std::optional<LeaseHolder> holder(const LeaseName& name);
  /// At most `limit` of those that are held now, by name. A further page begins behind the last
  /// name of this one.
  std::vector<LeaseHolder> held(std::int64_t limit = 1000, std::string_view after = {});

 private:
  WorkQueue& queue_;
};

struct LeaseKeeperOptions {
  int slots = 1;  ///< so many may hold the name at once
  Duration lease = std::chrono::seconds{30};
  Duration retry_interval = std::chrono::seconds{1};  ///< while somebody else has it
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

  /// Acquires what is free, renews what is held when a third of its time has passed. Returns how
  /// long from now it wants to be called again. Throws DatabaseError; what is held stays held until
  /// its time is over.
  Duration step();
  /// Steps until it is held, for at most `timeout` (Duration::max(): for ever), or until `stop`.
  /// Returns whether it is held.
  bool acquire(std::stop_token stop, Duration timeout = std::chrono::seconds{60});
  /// False as soon as the lease may be somebody else's: it was lost, or not renewed in time by this
  /// process's own clock, which counts from before the lease was asked for.
  [[nodiscard]] bool held() const;
  /// What is held; empty as soon as held() is false.
  [[nodiscard]] std::optional<NamedLease> lease() const;
  /// Gives it back. What step() does next is to try again.
  void release();

 private:
  class State;
  std::unique_ptr<State> state_;
};

/// reap: clears leases that ran out; expire: makes work past its expiry, or of messages older than
/// BoxOptions::max_age, dead; prune: deletes
/// finished messages past their retention, never what is open, dead or only seen.
enum class Chore { reap, expire, prune };

std::string_view to_string(Chore chore) noexcept;

struct ChoreOptions {
  bool enabled = true;
  Duration interval;          ///< from one beginning to the next, over all processes
  std::int64_t batch = 1000;  ///< rows per transaction

  bool operator==(const ChoreOptions&) const = default;
};

/// Valid after construction of the Housekeeping, or it throws.
struct HousekeepingOptions {
  ChoreOptions reap = {.interval = std::chrono::seconds{30}};
  ChoreOptions expire = {.interval = std::chrono::seconds{30}};
  ChoreOptions prune = {.interval = std::chrono::hours{1}};
  std::optional<Duration> retention = {};  ///< empty: the box's
  /// Chores are done under the leases `<lease_name>.reap` and so on, held for their interval, at
  /// least for `min_lease`: so long others wait for a process that died.
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

/// How a chore that was due ended.
struct ChoreReport {
  enum class End {
    done,
    stopped,    ///< by a stop request, between two batches or in one; the next step goes on
    elsewhere,  ///< another process does it
    lost,       ///< another process took the lease over, between two batches
    failed,     ///< tried again at the next interval
  };
  Chore chore;
  End end;
  std::size_t count = 0;    ///< rows
  std::size_t skipped = 0;  ///< rows that failed and were passed over (`stuck_row` in the log)
  Duration took = {};
  std::string error = {};  ///< of the chore, or of the last row that was skipped
};

std::string_view to_string(ChoreReport::End end) noexcept;

struct HousekeepingReport {
  std::vector<ChoreReport> chores;  ///< that were due
  Duration next;                    ///< from now until one is due again; at most a day
};

/// Since the Housekeeping was made.
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
  /// Told of what expire has made dead, batch by batch; the reason is `expired` or `max_age`.
  using DeadLetters = std::function<void(std::span<const Message>, std::string_view reason)>;

  /// `queue` must outlive it. Throws std::out_of_range naming an option and its bounds.
  explicit Housekeeping(WorkQueue& queue, HousekeepingOptions options = {}, Observer observer = {},
                        DeadLetters dead = {});
  ~Housekeeping();
  Housekeeping(const Housekeeping&) = delete;
  Housekeeping& operator=(const Housekeeping&) = delete;

  /// Does what is due, in batches; a stop request ends it between two or in one. Everything is due
  /// at first. A failure is logged and reported, never thrown.
  HousekeepingReport step(std::stop_token stop = {});
  /// Steps whenever something is due, until `stop`.
  void run(std::stop_token stop);

  [[nodiscard]] ChoreStats stats(Chore chore) const;

 private:
  class House;
  std::unique_ptr<House> house_;
};

}  // namespace twinbox
