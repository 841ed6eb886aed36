// What answers requests under one configuration. A reload makes a new one; requests that are under
// way keep theirs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/access.hpp"
#include "daemon/config.hpp"
#include "daemon/operations.hpp"
#include "daemon/router.hpp"
#include "daemon/stores.hpp"

namespace twinbox::app {

/// What endpoints need, and what outlives every configuration.
struct Surroundings {
  const Stores& stores;
  OperationMemory& operations;
  Environment environment;
  std::function<std::string()> metrics;  ///< the text for Prometheus
};

class Service {
 public:
  /// What `surroundings` refers to must outlive it.
  Service(Config config, const Surroundings& surroundings, std::vector<Token> tokens);

  [[nodiscard]] const Config& config() const noexcept { return config_; }
  [[nodiscard]] const Access& access() const noexcept { return access_; }
  [[nodiscard]] const Router& router() const noexcept { return router_; }

 private:
  Config config_;
  Access access_;
  Router router_;
};

}  // namespace twinbox::app
