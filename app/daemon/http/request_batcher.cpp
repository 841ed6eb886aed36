#include "daemon/http/request_batcher.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace twinbox::app {
namespace {

constexpr std::size_t max_requests = 256;  // of one transaction
// Clients that were answered together often send their next requests together, so the batcher waits
// for them for a fraction of the last call's duration.
constexpr int gather_part = 8;
constexpr std::chrono::milliseconds gather_limit{1};

/// Removes the first `count`.
template <class T>
std::vector<T> take_front(std::deque<T>& queue, std::size_t count) {
  const auto end = queue.begin() + static_cast<std::ptrdiff_t>(count);
  std::vector<T> front{std::move_iterator{queue.begin()}, std::move_iterator{end}};
  queue.erase(queue.begin(), end);
  return front;
}

}  // namespace

RequestBatcher::Added RequestBatcher::add(HttpRequest request, Answer answer, std::size_t limit) {
  const std::lock_guard lock{mutex_};
  if (requests_.size() >= limit) return Added::full;
  requests_.push_back(std::move(request));
  answers_.push_back(std::move(answer));
  if (!std::exchange(working_, true)) return Added::needs_worker;
  if (requests_.size() == expected_) gathered_.notify_one();
  return Added::waits;
}

void RequestBatcher::work(const Explain& explain) {
  std::unique_lock lock{mutex_};
  while (!requests_.empty()) {
    gather(lock);
    answer_some(lock, explain);
  }
  working_ = false;
}

void RequestBatcher::gather(std::unique_lock<std::mutex>& lock) {
  const auto time = std::min<Clock::duration>(took_ / gather_part, gather_limit);
  gathered_.wait_for(lock, time, [this] { return requests_.size() >= expected_; });
}

void RequestBatcher::answer_some(std::unique_lock<std::mutex>& lock, const Explain& explain) {
  const std::size_t count = std::min(requests_.size(), max_requests);
  const std::vector<HttpRequest> requests = take_front(requests_, count);
  const std::vector<Answer> answers = take_front(answers_, count);
  lock.unlock();
  const auto began = Clock::now();
  std::vector<HttpResponse> responses;
  try {
    responses = handle_batch_(requests);
  } catch (...) {
    responses.assign(count, explain(std::current_exception()));
  }
  const auto took = Clock::now() - began;
  for (std::size_t i = 0; i < count; ++i) answers[i](std::move(responses.at(i)));
  lock.lock();
  took_ = took;
  expected_ = std::min(count + requests_.size(), max_requests);
}

}  // namespace twinbox::app
