// Requests that come together are answered together: one worker at a time takes all that wait, so
// that they share a transaction.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

#include <twinbox/http.hpp>

namespace twinbox::app {

/// Thread-safe.
class RequestBatcher {
 public:
  using HandleBatch = std::function<std::vector<HttpResponse>(std::span<const HttpRequest>)>;
  using Answer = std::function<void(HttpResponse)>;
  /// What everybody is answered when the call throws.
  using Explain = std::function<HttpResponse(const std::exception_ptr&)>;

  /// `handle_batch` answers each request that it is given.
  explicit RequestBatcher(HandleBatch handle_batch) : handle_batch_(std::move(handle_batch)) {}

  enum class Added {
    full,          ///< `limit` wait already: the request was not taken
    waits,         ///< whoever is at work will answer it
    needs_worker,  ///< the caller must have work() called
  };
  Added add(HttpRequest request, Answer answer, std::size_t limit);
  /// Answers until nobody waits.
  void work(const Explain& explain);

 private:
  using Clock = std::chrono::steady_clock;

  void gather(std::unique_lock<std::mutex>& lock);
  void answer_some(std::unique_lock<std::mutex>& lock, const Explain& explain);

  HandleBatch handle_batch_;
  std::mutex mutex_;
  std::condition_variable gathered_;
  std::deque<HttpRequest> requests_;
  std::deque<Answer> answers_;  // to each of them
  std::size_t expected_ = 0;
  Clock::duration took_ = {};
  bool working_ = false;
};

}  // namespace twinbox::app
