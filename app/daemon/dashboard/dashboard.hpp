// What the dashboard shows, kept ready in the background: statistics, history, live events.
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

/// Where the history is: beside the tokens.
std::filesystem::path history_file(const Config& config);

/// Thread-safe.
class Dashboard {
 public:
  /// What is given must outlive it. An empty file: the history ends with the object.
  Dashboard(const Stores& stores, Throughput& throughput, const Dispatchers& dispatchers,
            Environment environment, std::filesystem::path file = {});
  ~Dashboard();
  Dashboard(const Dashboard&) = delete;
  Dashboard& operator=(const Dashboard&) = delete;

  void start();
  /// Ends the background; the history is saved. Nothing is published afterwards.
  void stop();
  void set(const HealthThresholds& health);

  [[nodiscard]] StatsCollector& stats_collector() noexcept { return stats_collector_; }
  [[nodiscard]] LiveFeed& feed() noexcept { return feed_; }

  /// Adds /v1/overview, /v1/history, /v1/stores, /v1/dead_letter_groups, /v1/workers and
  /// /v1/overview/stream. It must outlive the router.
  void add_to(HttpRouter& router);

 private:
  HttpResponse overview();
  HttpResponse stores(const EndpointRequest& call);
  HttpResponse groups(const EndpointRequest& call);
  HttpResponse workers(const EndpointRequest& call);
  HttpResponse chart(const EndpointRequest& call);

  [[nodiscard]] HealthThresholds health() const;
  void run(const std::stop_token& stop);
  /// What is known of the boxes; what other processes have done since is counted.
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
