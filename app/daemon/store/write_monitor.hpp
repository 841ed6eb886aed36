// Do the stores take writes? Known without asking them: from the last write of this process, or
// from a probe in the background while readiness is asked for.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/store/stores.hpp"
#include "daemon/store/time_limits.hpp"

namespace twinbox::app {

/// Thread-safe.
class WriteMonitor {
 public:
  using Clock = std::chrono::steady_clock;
  struct Times {
    Clock::duration fresh = std::chrono::seconds{10};   ///< so long a write proves that they work
    Clock::duration pause = std::chrono::seconds{5};    ///< since a write, until a probe
    Clock::duration limit = std::chrono::seconds{5};    ///< for a probe
    Clock::duration watched = std::chrono::minutes{1};  ///< so long one question keeps it probing
  };

  /// `stores` must outlive it.
  WriteMonitor(const Stores& stores, Environment environment, Times times);
  WriteMonitor(const Stores& stores, Environment environment)
      : WriteMonitor(stores, std::move(environment), Times{}) {}
  ~WriteMonitor();
  WriteMonitor(const WriteMonitor&) = delete;
  WriteMonitor& operator=(const WriteMonitor&) = delete;

  /// A store that could not be opened. Before the start.
  void mark_unreachable(const Store& store, const std::string& error);
  void start();
  void stop();

  /// Readiness is asked for: stores without a recent write are probed from now on, for a while.
  void watch();
  /// Why the store takes no writes, by what is known now; empty: it takes them. Nothing is known
  /// before the first write or the first probe has ended: that is a refusal, too. Does not wait.
  [[nodiscard]] std::optional<std::string> refusal(const Store& store) const;
  /// How many probes of it have begun.
  [[nodiscard]] std::uint64_t probes(const Store& store) const;

 private:
  struct MonitoredStore {
    Store* store;
    Boxes boxes;
    std::string error = {};  ///< of the last probe; empty: it succeeded, or there was none
    bool busy = false;       ///< it is being probed
    Clock::time_point began = {};
    Clock::time_point ended = {};
    std::uint64_t probes = 0;
  };

  [[nodiscard]] const MonitoredStore& monitored(const Store& store) const;
  void work(const std::stop_token& stop);
  void add_threads();
  MonitoredStore* next_due(Clock::time_point now, Clock::time_point& wake);
  /// What went wrong; empty: nothing.
  std::string probe(const MonitoredStore& monitored_store);

  Environment environment_;
  const Times times_;
  TimeLimits limits_;
  mutable std::mutex mutex_;
  std::condition_variable_any due_;
  std::vector<MonitoredStore> stores_;
  Clock::time_point watched_ = {};
  std::uint64_t changes_ = 0;
  bool stopped_ = true;
  std::vector<std::jthread> threads_;
};

}  // namespace twinbox::app
