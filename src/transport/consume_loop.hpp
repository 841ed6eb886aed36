// The common part of every broker source: status, and reconnecting.
#pragma once

#include <functional>
#include <mutex>
#include <stop_token>
#include <string_view>

#include "twinbox/source.hpp"

namespace twinbox {

/// The status of a source. Thread-safe.
class SharedSourceStatus {
 public:
  template <class Change>
  void update(Change call) {
    const std::scoped_lock lock{mutex_};
    call(status_);
  }
  [[nodiscard]] SourceStatus get() const {
    const std::scoped_lock lock{mutex_};
    return status_;
  }

 private:
  mutable std::mutex mutex_;
  SourceStatus status_;
};

/// Consumes until a stop is requested. `consume` works on one connection until it is lost, which it
/// throws; it calls `connected` when it has one. After a failure it waits, longer each time until a
/// connection holds for as long as `max_delay`, which is the maximum.
void consume_with_reconnect(
    const std::stop_token& stop, std::string_view source, Duration max_delay,
    const Environment& environment, SharedSourceStatus& shared_status,
    const std::function<void(const std::function<void()>& connected)>& consume);

}  // namespace twinbox
