// What every source of a broker does, whatever its broker: tells of itself, and comes back.
#pragma once

#include <functional>
#include <mutex>
#include <stop_token>
#include <string_view>

#include "twinbox/source.hpp"

namespace twinbox {

/// What is known of a source, for whoever asks. Thread-safe.
class SourceRecord {
 public:
  template <class Change>
  void change(Change call) {
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

/// Consumes until a stop is requested. `consume` works on one connection until that is lost, which
/// it throws; it calls `connected` when it has one. After a failure there is a rest, longer each
/// time until a connection holds for as long as `longest_rest`, which is the longest.
void keep_consuming(const std::stop_token& stop, std::string_view source, Duration longest_rest,
                    const Environment& environment, SourceRecord& record,
                    const std::function<void(const std::function<void()>& connected)>& consume);

}  // namespace twinbox
