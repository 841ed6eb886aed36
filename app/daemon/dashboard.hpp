// What the dashboard shows, kept ready in the background: census, history, live events.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "daemon/census.hpp"
#include "daemon/dispatching.hpp"
#include "daemon/history.hpp"
#include "daemon/live.hpp"
#include "daemon/pulse.hpp"
#include "daemon/router.hpp"
#include <twinbox/health.hpp>

namespace twinbox::app {

/// Where the history is: beside the tokens.
std::filesystem::path history_file(const Config& config);

/// Thread-safe.
class Dashboard {
 public:
  /// What is given must outlive it. An empty file: the history ends with the object.
  Dashboard(const Stores& stores, Pulse& pulse, const Dispatching& dispatching,
            Environment environment, std::filesystem::path file = {});
  ~Dashboard();
  Dashboard(const Dashboard&) = delete;
  Dashboard& operator=(const Dashboard&) = delete;

  void start();
  /// Ends the background; the history is saved. Nothing is published afterwards.
  void stop();
  void set(const HealthThresholds& health);

  [[nodiscard]] CensusTaker& census() noexcept { return census_; }
  [[nodiscard]] LiveFeed& feed() noexcept { return feed_; }

  /// Adds /v1/overview, /v1/history, /v1/stores, /v1/groups, /v1/workers and /v1/live. It must
  /// outlive the router.
  void add_to(Router& router);

 private:
  HttpResponse overview();
  HttpResponse stores(const Call& call);
  HttpResponse groups(const Call& call);
  HttpResponse workers(const Call& call);
  HttpResponse chart(const Call& call);

  [[nodiscard]] HealthThresholds health() const;
  void run(const std::stop_token& stop);
  /// What is known of the boxes; what other processes have done since is counted.
  std::vector<CensusTaker::Report> take_reports();
  void publish();
  void record();
  void save();

  const Stores& stores_;
  Pulse& pulse_;
  const Dispatching& dispatching_;
  Environment environment_;
  std::filesystem::path file_;

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  bool counted_ = false;  ///< a census that has not been published
  HealthThresholds health_ = {};
  History history_;
  std::string published_;  ///< without its time
  bool save_failed_ = false;

  LiveFeed feed_;
  CensusTaker census_;
  std::jthread thread_;
};

}  // namespace twinbox::app
