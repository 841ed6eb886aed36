// The answers that requests wait for, so that all of them can be given at once when the daemon
// stops.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

#include <twinbox/http.hpp>

namespace twinbox::app {

/// Thread-safe.
class PendingResponses {
 public:
  using Answer = std::function<void(HttpResponse)>;

  PendingResponses() = default;
  PendingResponses(const PendingResponses&) = delete;
  PendingResponses& operator=(const PendingResponses&) = delete;

  /// What to call instead of `answer`. Only the first call has an effect. Must not outlive this.
  Answer add(Answer answer);
  /// Answers whatever waits now. What its request does goes on, and its answer goes nowhere.
  void respond_all(const HttpResponse& response);

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, Answer> waiting_;
  std::uint64_t next_ = 1;
};

}  // namespace twinbox::app
