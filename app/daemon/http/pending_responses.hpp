// The responses that requests wait for, so that the daemon can send all of them when it stops.
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

  /// A function to call instead of `answer`. Only the first call has an effect. It must not outlive
  /// this object.
  Answer add(Answer answer);
  /// Answers all waiting requests. Their work continues, but its results are dropped.
  void respond_all(const HttpResponse& response);

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, Answer> waiting_;
  std::uint64_t next_ = 1;
};

}  // namespace twinbox::app
