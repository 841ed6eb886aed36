// What lies in the boxes, counted in the background: requests answer from the last snapshot, so
// that no number of them makes a store count.
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

/// One box as it was last seen. A box that cannot be asked keeps its last numbers.
struct BoxReport {
  Store* store;
  BoxKind kind;
  bool asked = false;              ///< at least once, be it in vain
  std::optional<Instant> at = {};  ///< of the numbers; empty: never seen
  std::string error = {};          ///< why it could not be asked the last time; empty: it could
  Counts counts = {};
  DeadGroups dead = {};
  std::vector<HeldKey> held_keys = {};
  std::vector<BlockedKey> blocked_keys = {};
  std::vector<Worker> workers = {};
  std::vector<LeaseHolder> leases = {};  ///< by name, chores among them
};

/// Walks the boxes, each at its own pace: every two seconds while somebody watches, else every ten;
/// never busy more than a thirtieth of the time, but at least once a minute. A store that cannot be
/// reached delays no other. Thread-safe.
class StatsCollector {
 public:
  using Report = std::shared_ptr<const BoxReport>;  // shared with whoever still reads it

  /// Names of each kind, and groups of dead letters, that the reports of all boxes keep together.
  /// Each box keeps its share, at least `min_kept_names`.
  static constexpr std::int64_t max_kept_names = 20'000;
  static constexpr std::int64_t min_kept_names = 10;

  /// `changed` is called after each box, from threads of its own; `first_wait` is for the first
  /// numbers. What is given must outlive it.
  StatsCollector(const Stores& stores, Environment environment, std::function<void()> changed = {},
                 std::chrono::seconds first_wait = std::chrono::seconds{2});
  ~StatsCollector();
  StatsCollector(const StatsCollector&) = delete;
  StatsCollector& operator=(const StatsCollector&) = delete;

  /// A store that could not be reached: it holds up no other from the beginning. Before the start.
  void mark_unreachable(const Store& store, const std::string& error);
  void start();

  /// In the order of the stores, the outbox first. Just after the start it waits a moment for the
  /// first numbers. Somebody watches from now on.
  [[nodiscard]] std::vector<Report> reports();
  /// As they are, for whoever does not watch.
  [[nodiscard]] std::vector<Report> latest() const;
  /// Somebody watches from now on, for half a minute.
  void watch();
  /// Something was done to this box: it is looked at again at once.
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
