// The operations API: look into the boxes, requeue, discard.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "daemon/router.hpp"
#include "daemon/stores.hpp"
#include <twinbox/health.hpp>

namespace twinbox::app {

/// Makes acts idempotent: the answer to an operation id is given again, not made again. Remembers
/// the last thousand, until the daemon stops. Thread-safe.
class OperationMemory {
 public:
  /// `content` is what was asked for under this id. Throws Refused when it is under way (409), or
  /// was something else (422).
  HttpResponse once(const std::string& id, const std::string& content,
                    const std::function<HttpResponse()>& act);

 private:
  struct Operation {
    std::string content;
    bool running = true;
    HttpResponse response = {};
    std::uint64_t number = 0;
  };
  std::mutex mutex_;
  std::map<std::string, Operation> operations_;
  std::map<std::uint64_t, std::string> order_;
  std::uint64_t next_ = 0;
};

/// Adds /health/ready and /v1/messages…. What is given must outlive the
/// router.
void add_operations(Router& router, const Stores& stores, OperationMemory& memory,
                    const HealthThresholds& health);

}  // namespace twinbox::app
