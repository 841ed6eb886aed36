// The sources of the daemon: each consumes from its broker into an inbox on its own thread.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "daemon/config/config.hpp"
#include "daemon/config/owned_sources.hpp"
#include "daemon/store/stores.hpp"
#include <twinbox/source.hpp>

namespace twinbox::app {

/// Throws RequestError for a message whose source is one of `reserved`.
AcceptCall refuse_sources(AcceptCall accept, SourceNames reserved);

/// Thread-safe.
class Sources {
 public:
  /// `stores` must outlive the object.
  Sources(const Stores& stores, Environment environment);
  ~Sources();
  Sources(const Sources&) = delete;
  Sources& operator=(const Sources&) = delete;

  /// Applies a configuration. Unchanged sources continue; changed ones first acknowledge the
  /// messages they accepted. Throws std::invalid_argument for an invalid source; then the former
  /// ones continue.
  void set(const Config& config);
  /// Stops all sources and waits.
  void stop();

  [[nodiscard]] std::map<std::string, SourceStatus> status() const;

 private:
  struct Running {
    SourceConfig config;
    SourceNames reserved;  ///< reserved by webhook endpoints and other brokers
    std::unique_ptr<BrokerSource> source;
    std::jthread thread;
  };

  const Stores& stores_;
  Environment environment_;
  mutable std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Running>> running_;  ///< by name
};

}  // namespace twinbox::app
