// The work of the dispatchers in the last minutes and in total.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/store/stores.hpp"
#include <twinbox/dispatcher.hpp>
#include <twinbox/health.hpp>

namespace twinbox::app {

struct Rates {
  double done_per_minute = 0;             ///< over the last minute
  double failed_per_minute = 0;           ///< attempts, over the last minute
  std::optional<double> error_rate = {};  ///< over five minutes; empty: no finished calls
};

/// Thread-safe.
class Throughput {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;
  static constexpr std::size_t max_topics = 10'000;  ///< of all stores; more are not distinguished

  explicit Throughput(Clock clock = std::chrono::steady_clock::now);

  /// Counts the events of the dispatchers of a kind of box and forwards them to `next`. The
  /// throughput must outlive it.
  [[nodiscard]] DispatchObserver observer(BoxKind kind, DispatchObserver next = {});

  /// Updates the counts from the heartbeats of a box, including workers of other processes: their
  /// progress since the last heartbeat. The observer counts the workers in `own`.
  void add_workers(BoxKind kind, const std::string& store, const std::vector<Worker>& workers,
                   const std::vector<OwnerToken>& own);

  /// Over all stores.
  [[nodiscard]] Rates rates(BoxKind kind) const;
  [[nodiscard]] Rates rates(BoxKind kind, const std::string& store) const;
  /// By topic, for topics with activity in this process.
  [[nodiscard]] std::map<std::string, Rates> topics(BoxKind kind, const std::string& store) const;
  /// Handler durations of this process over five minutes and all stores.
  [[nodiscard]] Histogram handler_times(BoxKind kind) const;

  /// Since the start of the daemon.
  struct Total {
    std::uint64_t done = 0;
    std::uint64_t failed = 0;
    Histogram handler_times = {};
  };
  /// An empty name: all stores.
  [[nodiscard]] Total total(BoxKind kind, const std::string& store = {}) const;

  struct ChoreView {
    BoxKind kind;
    std::string store;
    std::chrono::system_clock::time_point at;
    ChoreReport report;
  };
  /// The last run of each chore, per store and kind of box.
  [[nodiscard]] std::vector<ChoreView> chores() const;

 private:
  static constexpr std::int64_t slot_count = 30;  ///< of ten seconds each
  using Slot = std::int64_t;

  /// A ring of the counts in the latest slots.
  struct Window {
    std::array<std::uint32_t, slot_count> done = {};
    std::array<std::uint32_t, slot_count> failed = {};
    Slot newest = -1;

    void add(Slot slot, std::uint32_t more_done, std::uint32_t more_failed);
    [[nodiscard]] Rates rates(Slot slot, double seconds_in_slot) const;
  };
  struct StoreThroughput {
    Window window = {};
    Total total = {};

    void add(Slot slot, std::uint32_t more_done, std::uint32_t more_failed);
  };
  struct SeenCounts {
    std::int64_t done = 0;
    std::int64_t failed = 0;
  };
  struct BoxThroughput {
    StoreThroughput all = {};
    std::map<std::string, StoreThroughput, std::less<>> stores = {};
    std::map<std::pair<std::string, std::string>, Window> topics = {};  ///< store, topic
    std::map<std::string, std::map<Uuid, SeenCounts>> seen = {};        ///< by store
    std::array<Histogram, slot_count> times = {};
    Slot newest = -1;  ///< of the times
  };

  void count(BoxKind kind, std::string_view store, const Message& message, bool failed);
  void count_time(BoxKind kind, std::string_view store, Duration took);
  [[nodiscard]] const BoxThroughput& of(BoxKind kind) const {
    return kinds_[kind == BoxKind::inbox];
  }
  [[nodiscard]] BoxThroughput& of(BoxKind kind) { return kinds_[kind == BoxKind::inbox]; }
  [[nodiscard]] Slot now() const;
  [[nodiscard]] Rates rates(const Window& window) const;

  const Clock clock_;
  const std::chrono::steady_clock::time_point started_;
  mutable std::mutex mutex_;
  std::array<BoxThroughput, 2> kinds_;
  std::set<Uuid> own_owners_;  ///< including former ones, whose heartbeats may still arrive
  std::map<std::tuple<BoxKind, std::string, Chore>, ChoreView> chores_;
};

}  // namespace twinbox::app
