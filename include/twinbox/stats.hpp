// What dispatchers have done so far, in numbers: per store, over all stores, and per topic.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "twinbox/observer.hpp"

namespace twinbox {

/// How values are spread, by powers of two. Times are in microseconds.
struct Spread {
  static constexpr std::size_t bucket_count = 40;

  /// The first counts zeros, number i the values from 2^(i-1) to 2^i - 1, the last one whatever is
  /// above (times: 76 hours).
  std::array<std::uint64_t, bucket_count> buckets = {};
  std::uint64_t count = 0;
  std::uint64_t sum = 0;
  std::uint64_t largest = 0;

  /// Zero when there is no value.
  [[nodiscard]] double mean() const noexcept;
  /// What a share (0 to 1) of the values does not exceed, less than a factor of two off.
  [[nodiscard]] double quantile(double share) const noexcept;
  [[nodiscard]] double p50() const noexcept { return quantile(0.50); }
  [[nodiscard]] double p99() const noexcept { return quantile(0.99); }

  Spread& operator+=(const Spread& other) noexcept;
};

/// Counted since the DispatchStats was made.
struct StoreStats {
  std::string store;
  std::uint64_t claimed = 0;      ///< messages
  std::uint64_t handled = 0;      ///< calls that have ended; of a batch handler, messages
  std::uint64_t failed = 0;       ///< attempts that will be repeated
  std::uint64_t dead = 0;         ///< dead letters
  std::uint64_t settled = 0;      ///< messages whose end was written down after their call
  std::uint64_t lease_lost = 0;   ///< settles that came too late: others hold the message by now
  std::uint64_t timeouts = 0;     ///< handlers that ran past theirs
  std::uint64_t loop_errors = 0;  ///< of the database, mostly; each is followed by a rest
  std::uint64_t reaped = 0, expired = 0, pruned = 0;  ///< rows, by the dispatcher's housekeeping
  std::uint64_t chore_failures = 0;
  std::uint64_t in_flight = 0;  ///< messages whose handler runs now
  std::uint64_t slow = 0;       ///< of these, handlers that have run for a third of their lease
  Spread claim_size = {};       ///< messages per claim that found any
  Spread claim_time = {};
  Spread handler_time = {};
  Spread start_age = {};     ///< from the moment it was due to the call of its handler
  Spread wake_latency = {};  ///< from a wake-up to the end of the claim that followed
  Spread settle_time = {};   ///< per transaction

  /// All but the name.
  StoreStats& operator+=(const StoreStats& other) noexcept;
};

struct TopicStats {
  std::string topic;
  std::uint64_t handled = 0, failed = 0, dead = 0;
};

struct StatsSnapshot {
  StoreStats all;                  ///< under the name `all`
  std::vector<StoreStats> stores;  ///< by name
  std::vector<TopicStats> topics;  ///< over all stores, by name
};

/// Names beyond these limits are counted together, under `other`.
struct StatsLimits {
  std::size_t stores = 10'000;
  std::size_t topics = 200;
};

/// Counts what dispatchers tell. Thread-safe; counting takes no lock (but for a name that is new)
/// and reading stops nobody.
class DispatchStats {
 public:
  static constexpr const char* all = "all";
  static constexpr const char* other = "other";

  explicit DispatchStats(StatsLimits limits = {});
  ~DispatchStats();
  DispatchStats(const DispatchStats&) = delete;
  DispatchStats& operator=(const DispatchStats&) = delete;

  /// For any number of dispatchers. Each call is counted and then handed on to `next`. May be used
  /// longer than this object lives.
  [[nodiscard]] DispatchObserver observer(DispatchObserver next = {}) const;

  /// Each number is exact; numbers that belong together may differ by what happens meanwhile.
  [[nodiscard]] StatsSnapshot snapshot() const;

 private:
  class State;
  std::shared_ptr<State> state_;  ///< shared with the observers
};

}  // namespace twinbox
