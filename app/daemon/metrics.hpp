// Numbers for Prometheus: what HTTP does, what the dispatchers do, what lies in the boxes.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "daemon/stores.hpp"
#include <twinbox/stats.hpp>

namespace prometheus {
class Counter;
class Histogram;
class Registry;
template <typename T>
class Family;
struct MetricFamily;
}  // namespace prometheus

namespace twinbox::app {

class HttpServer;

/// Thread-safe.
class Metrics {
 public:
  explicit Metrics(const Stores& stores);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  /// `endpoint` is the path with its `{…}`: there are as many series as endpoints.
  void count_request(std::string_view method, std::string_view endpoint, int status,
                     std::chrono::microseconds took);
  /// Counts what the dispatchers of a kind of box tell.
  [[nodiscard]] const DispatchStats& stats(BoxKind kind) const noexcept {
    return kind == BoxKind::outbox ? outbox_ : inbox_;
  }

  struct Moment {
    const HttpServer& server;
    std::size_t waiting = 0;  ///< requests that wait for a worker
    std::uint64_t spans_sent = 0;
    std::uint64_t spans_dropped = 0;
  };
  /// The text format. Asks the stores how much lies in them, every ten seconds at most.
  [[nodiscard]] std::string text(const Moment& moment);

 private:
  struct Series;
  std::vector<prometheus::MetricFamily> duties();

  const Stores& stores_;
  DispatchStats outbox_;
  DispatchStats inbox_;
  std::unique_ptr<prometheus::Registry> registry_;
  std::unique_ptr<Series> series_;
  std::mutex duties_mutex_;
  std::chrono::steady_clock::time_point duties_at_ = {};
  std::unique_ptr<std::vector<prometheus::MetricFamily>> duties_;
};

}  // namespace twinbox::app
