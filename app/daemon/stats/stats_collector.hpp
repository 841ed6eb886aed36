// Counts the deliveries of the boxes in the background. Requests read the last snapshot, so that
// they never make a store count.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "daemon/store/stores.hpp"
#include <twinbox/health.hpp>
#include <twinbox/housekeeping.hpp>
#include <twinbox/operations.hpp>

namespace twinbox::app {

/// The last snapshot of one box. A box that cannot be queried keeps its last numbers.
struct BoxReport {
  Store* store;
  BoxKind kind;
  bool asked = false;              ///< queried at least once, even without success
  std::optional<Instant> at = {};  ///< of the numbers; empty: never seen
  std::string error = {};          ///< error of the last query; empty: none
  Counts counts = {};
  DeadGroups dead = {};
  std::vector<HeldKey> held_keys = {};
  std::vector<BlockedKey> blocked_keys = {};
  std::vector<Worker> workers = {};
  std::vector<LeaseHolder> leases = {};  ///< by name, chores among them
};

/// Counts each box every two seconds while a client watches, otherwise every ten. Counting takes at
/// most a thirtieth of the time, but runs at least once a minute. An unreachable store delays no
/// other. Thread-safe.
class StatsCollector {
 public:
  using Report = std::shared_ptr<const BoxReport>;  // shared with its readers

  /// Limit of the names of each kind, and of the groups of dead letters, in the reports of all
  /// boxes. Each box keeps its share, at least `min_kept_names`.
  static constexpr std::int64_t max_kept_names = 20'000;
  static constexpr std::int64_t min_kept_names = 10;

  /// Calls `changed` after each box, from its own threads; `first_wait` limits the wait for the
  /// first numbers. The arguments must outlive the object.
  StatsCollector(const Stores& stores, Environment environment, std::function<void()> changed = {},
                 std::chrono::seconds first_wait = std::chrono::seconds{2});
  ~StatsCollector();
  StatsCollector(const StatsCollector&) = delete;
  StatsCollector& operator=(const StatsCollector&) = delete;

  /// Marks a store as unreachable, so that it delays no other. Call it before the start.
  void mark_unreachable(const Store& store, const std::string& error);
  void start();

  /// The reports in the order of the stores, the outbox first. Shortly after the start, waits for
  /// the first numbers. Counts as watching.
  [[nodiscard]] std::vector<Report> reports();
  /// The current reports, without watching.
  [[nodiscard]] std::vector<Report> latest() const;
  /// A client watches for the next half minute.
  void watch();
  /// The box has changed and is counted again at once.
  void refresh(const Store& store, BoxKind kind);

 private:
  using Clock = std::chrono::steady_clock;
  struct BoxEntry {
    Report report;
    bool busy = false;
    bool urgent = false;
    Clock::time_point ended = {};
    Clock::duration took = {};
  };

  void collect(const std::stop_token& stop);
  void wake_threads();
  BoxEntry* next_due(Clock::time_point now, Clock::time_point& wake);
  [[nodiscard]] Clock::duration pause(const BoxEntry& box_entry, Clock::time_point now) const;
  Report read_box(const BoxReport& former) const;
  [[nodiscard]] std::int64_t share(std::int64_t most) const;

  Environment environment_;
  std::function<void()> changed_;
  const std::chrono::seconds first_wait_;
  mutable std::mutex mutex_;
  std::condition_variable_any due_;
  std::condition_variable collected_;
  std::vector<BoxEntry> boxes_;
  std::size_t thread_count_;
  std::uint64_t changes_ = 0;  ///< that may have made a box due
  Clock::time_point started_ = {};
  Clock::time_point watched_ = {};
  std::vector<std::jthread> threads_;
};

}  // namespace twinbox::app
