// Prometheus metrics of HTTP, the dispatchers and the boxes.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "daemon/http/request_pool.hpp"
#include "daemon/stats/stats_collector.hpp"
#include "daemon/store/write_monitor.hpp"
#include <twinbox/dispatcher.hpp>
#include <twinbox/source.hpp>

namespace prometheus {
class Counter;
class Histogram;
class Registry;
template <typename T>
class Family;
}  // namespace prometheus

namespace twinbox::app {

class HttpServer;

/// Thread-safe.
class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  /// `endpoint` is the path template with its `{…}`, which bounds the number of series.
  void count_request(std::string_view method, std::string_view endpoint, int status,
                     std::chrono::microseconds took);
  /// Counts the events of the dispatchers of a kind of box.
  [[nodiscard]] const DispatchStats& stats(BoxKind kind) const noexcept {
    return kind == BoxKind::outbox ? outbox_ : inbox_;
  }

  struct MetricsInput {
    const HttpServer& server;
    const std::vector<StatsCollector::Report>& boxes;
    std::vector<RequestPool::Status> pools = {};
    const WriteMonitor& writes;
    std::uint64_t spans_sent = 0;
    std::uint64_t spans_dropped = 0;
    std::uint64_t conflicts = 0;                       ///< duplicates with different content
    std::map<std::string, SourceStatus> sources = {};  ///< by their names
  };
  /// The text format.
  [[nodiscard]] std::string text(const MetricsInput& input) const;

 private:
  struct Series;

  DispatchStats outbox_;
  DispatchStats inbox_;
  std::unique_ptr<prometheus::Registry> registry_;
  std::unique_ptr<Series> series_;
};

}  // namespace twinbox::app
