// Batches concurrent requests: one worker at a time takes all waiting requests, so that they share
// a transaction.
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
  /// The response to every request of a batch whose call throws.
  using Explain = std::function<HttpResponse(const std::exception_ptr&)>;

  /// `handle_batch` answers each of its requests.
  explicit RequestBatcher(HandleBatch handle_batch) : handle_batch_(std::move(handle_batch)) {}

  enum class Added {
    full,          ///< `limit` requests are waiting: the request was not taken
    waits,         ///< the current worker will answer it
    needs_worker,  ///< the caller must arrange a call of work()
  };
  Added add(HttpRequest request, Answer answer, std::size_t limit);
  /// Answers until no request waits.
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
