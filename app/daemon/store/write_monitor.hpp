// Tracks whether the stores accept writes without querying them: from the last write of this
// process, or from a background probe while readiness is requested.
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
    Clock::duration fresh =
        std::chrono::seconds{10};  ///< a write proves for this long that the store works
    Clock::duration pause = std::chrono::seconds{5};  ///< since a write, until a probe
    Clock::duration limit = std::chrono::seconds{5};  ///< for a probe
    Clock::duration watched =
        std::chrono::minutes{1};  ///< one readiness request keeps probing for this long
  };

  /// `stores` must outlive the object.
  WriteMonitor(const Stores& stores, Environment environment, Times times);
  WriteMonitor(const Stores& stores, Environment environment)
      : WriteMonitor(stores, std::move(environment), Times{}) {}
  ~WriteMonitor();
  WriteMonitor(const WriteMonitor&) = delete;
  WriteMonitor& operator=(const WriteMonitor&) = delete;

  /// Records a store that could not be opened. Call it before the start.
  void mark_unreachable(const Store& store, const std::string& error);
  void start();
  void stop();

  /// Readiness is requested: probes stores without a recent write for a while.
  void watch();
  /// The reason why the store does not accept writes; empty: it does. Before the first write or
  /// probe has finished, that is a reason, too. Does not wait.
  [[nodiscard]] std::optional<std::string> refusal(const Store& store) const;
  /// The number of probes of this store.
  [[nodiscard]] std::uint64_t probes(const Store& store) const;

 private:
  struct MonitoredStore {
    Store* store;
    Boxes boxes;
    std::string error = {};  ///< error of the last probe; empty: none
    bool busy = false;       ///< a probe is running
    Clock::time_point began = {};
    Clock::time_point ended = {};
    std::uint64_t probes = 0;
  };

  [[nodiscard]] const MonitoredStore& monitored(const Store& store) const;
  void work(const std::stop_token& stop);
  void add_threads();
  MonitoredStore* next_due(Clock::time_point now, Clock::time_point& wake);
  /// The error; empty: none.
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
