// Who works on a box: dispatchers that run tell of themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "twinbox/work_queue.hpp"

namespace twinbox {

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
  void tell(const OwnerToken& owner, std::string_view name, std::string_view version,
            std::int64_t done = 0, std::int64_t failed = 0, std::string_view handles = {},
            Duration lives = std::chrono::minutes{1});
  void leave(const OwnerToken& owner);

 private:
  WorkQueue& queue_;
};

}  // namespace twinbox
