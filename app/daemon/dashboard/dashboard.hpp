// Collects the data of the dashboard in the background: statistics, history, live events.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "daemon/dashboard/live_feed.hpp"
#include "daemon/dispatch/dispatchers.hpp"
#include "daemon/http/http_router.hpp"
#include "daemon/stats/history.hpp"
#include "daemon/stats/stats_collector.hpp"
#include "daemon/stats/throughput.hpp"
#include <twinbox/health.hpp>

namespace twinbox::app {

/// The history file, in the folder of the token file.
std::filesystem::path history_file(const Config& config);

/// Thread-safe.
class Dashboard {
 public:
  /// The arguments must outlive the object. An empty file name: the history is not saved.
  Dashboard(const Stores& stores, Throughput& throughput, const Dispatchers& dispatchers,
            Environment environment, std::filesystem::path file = {});
  ~Dashboard();
  Dashboard(const Dashboard&) = delete;
  Dashboard& operator=(const Dashboard&) = delete;

  void start();
  /// Stops the background work and saves the history. Publishes nothing afterwards.
  void stop();
  void set(const HealthThresholds& health);

  [[nodiscard]] StatsCollector& stats_collector() noexcept { return stats_collector_; }
  [[nodiscard]] LiveFeed& feed() noexcept { return feed_; }

  /// Adds /v1/overview, /v1/history, /v1/stores, /v1/dead_letter_groups, /v1/workers and
  /// /v1/overview/stream. The object must outlive the router.
  void add_to(HttpRouter& router);

 private:
  HttpResponse overview();
  HttpResponse stores(const EndpointRequest& call);
  HttpResponse groups(const EndpointRequest& call);
  HttpResponse workers(const EndpointRequest& call);
  HttpResponse chart(const EndpointRequest& call);

  [[nodiscard]] HealthThresholds health() const;
  void run(const std::stop_token& stop);
  /// The reports of all boxes, including the work of other processes.
  std::vector<StatsCollector::Report> take_reports();
  void publish();
  void record();
  void save();

  const Stores& stores_;
  Throughput& throughput_;
  const Dispatchers& dispatchers_;
  Environment environment_;
  std::filesystem::path file_;

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  bool has_new_stats_ = false;  ///< a snapshot that has not been published
  HealthThresholds health_ = {};
  History history_;
  std::string published_;  ///< without its time
  bool save_failed_ = false;

  LiveFeed feed_;
  StatsCollector stats_collector_;
  std::jthread thread_;
};

}  // namespace twinbox::app
