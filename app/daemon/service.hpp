// What answers requests under one configuration. A reload makes a new one; requests that are under
// way keep theirs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/access/access.hpp"
#include "daemon/config/config.hpp"
#include "daemon/dashboard/dashboard.hpp"
#include "daemon/dispatch/dispatch_control.hpp"
#include "daemon/http/http_router.hpp"
#include "daemon/intake/intakes.hpp"
#include "daemon/operation/operations.hpp"
#include "daemon/store/stores.hpp"
#include "daemon/store/write_monitor.hpp"

namespace twinbox::app {

/// What endpoints need, and what outlives every configuration.
struct ServiceDependencies {
  const Stores& stores;
  OperationRunner& operation_runner;
  Dispatchers& dispatchers;
  Dashboard& dashboard;
  Sessions& sessions;
  WriteMonitor& writes;
  TimeLimits& limits;
  Environment environment;
  std::function<void(const HandlerSpan&)> spans;  ///< empty: no traces
  std::function<DispatchObserver()> observer;     ///< of calls within requests
  std::function<std::string()> metrics;           ///< the text for Prometheus
  std::stop_token stop = {};                      ///< of calls within requests
};

class Service {
 public:
  /// What `dependencies` refers to must outlive it.
  Service(Config config, const ServiceDependencies& dependencies, const std::vector<Token>& tokens);
  Service(const Service&) = delete;  // endpoints refer to it
  Service& operator=(const Service&) = delete;

  [[nodiscard]] const Config& config() const noexcept { return config_; }
  [[nodiscard]] const Access& access() const noexcept { return access_; }
  [[nodiscard]] const HttpRouter& router() const noexcept { return router_; }

 private:
  Config config_;
  Access access_;
  HttpRouter router_;
};

/// What reading alone cannot know: files that are no certificates or tokens, and whatever else
/// would keep the daemon from starting. Makes everything that the configuration describes, throws
/// it away and connects to nothing. Empty: it can be used.
std::vector<ConfigProblem> check_config(const Config& config);

}  // namespace twinbox::app
