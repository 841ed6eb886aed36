// Named leases: of many processes on one box, one (or a few) may do a thing. They are rows, so they
// work behind any pooler.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "twinbox/work_queue.hpp"

namespace twinbox {

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

struct LeaseKeeping {
  int slots = 1;  ///< so many may hold the name at once
  Duration lease = std::chrono::seconds{30};
  Duration try_every = std::chrono::seconds{1};  ///< while somebody else has it
};

/// Keeps one name for a loop that may work only while it holds it. Releases it in the destructor.
/// One thread steps; held() may be asked from any.
class LeaseKeeper {
 public:
  /// `queue` must outlive it. Throws std::out_of_range naming an option and its bound.
  LeaseKeeper(WorkQueue& queue, LeaseName name, OwnerToken owner, LeaseKeeping options = {});
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

}  // namespace twinbox
