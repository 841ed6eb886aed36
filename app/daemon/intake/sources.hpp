// The sources of the daemon: each on a thread of its own, from its broker into an inbox.
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
  /// `stores` must outlive it.
  Sources(const Stores& stores, Environment environment);
  ~Sources();
  Sources(const Sources&) = delete;
  Sources& operator=(const Sources&) = delete;

  /// Consumes as this configuration says from now on. A source that has not changed goes on; one
  /// that has acknowledges first what it has accepted. Throws std::invalid_argument when one cannot
  /// be made; the former ones then go on.
  void set(const Config& config);
  /// Ends all of them and waits.
  void stop();

  [[nodiscard]] std::map<std::string, SourceStatus> status() const;

 private:
  struct Running {
    SourceConfig config;
    SourceNames reserved;  ///< by webhook endpoints and other brokers
    std::unique_ptr<BrokerSource> source;
    std::jthread thread;
  };

  const Stores& stores_;
  Environment environment_;
  mutable std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Running>> running_;  ///< by name
};

}  // namespace twinbox::app
