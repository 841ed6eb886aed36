#include "database/writer_queue.hpp"

#include <algorithm>
#include <utility>

namespace twinbox {
namespace {

using std::chrono::steady_clock;

/// Each one more makes all of them wait longer for the commit.
constexpr std::size_t max_followers = 16;

}  // namespace

WriterQueue::Turn WriterQueue::wait(Request& call,
                                    const std::function<steady_clock::duration()>& left,
                                    const std::stop_token& stop) {
  using State = Request::State;
  std::unique_lock lock{mutex_};
  if (!std::exchange(busy_, true)) {
    call.state = State::leader;
    return Turn::leader;
  }
  call.changed.emplace();
  const auto position = calls_.insert(calls_.end(), &call);
  const auto in_time = std::max(left(), steady_clock::duration::zero());
  if (!call.changed->wait_for(lock, stop, in_time, [&] { return call.state != State::waiting; })) {
    calls_.erase(position);
    return stop.stop_requested() ? Turn::stopped : Turn::timed_out;
  }
  // It is running: wait for its result.
  call.changed->wait(
      lock, [&] { return call.state == State::leader || call.state == State::done_by_leader; });
  return call.state == State::leader ? Turn::leader : Turn::done_by_leader;
}

std::size_t WriterQueue::waiting() const {
  const std::scoped_lock lock{mutex_};
  return calls_.size();
}

WriterQueue::Leadership::Leadership(WriterQueue& queue, const Request& call)
    : queue_(queue), access_(call.access) {
  if (!call.shared || call.access == Access::write) return;
  const std::scoped_lock lock{queue_.mutex_};
  const bool durable =
      std::any_of(queue_.calls_.begin(), queue_.calls_.end(),
                  [](const Request* one) { return one->shared && one->access == Access::write; });
  if (durable) access_ = Access::write;
}

WriterQueue::Leadership::~Leadership() {
  retry_alone();
  const std::scoped_lock lock{queue_.mutex_};
  if (queue_.calls_.empty()) {
    queue_.busy_ = false;
    return;
  }
  Request& next = *queue_.calls_.front();
  queue_.calls_.pop_front();
  next.state = Request::State::leader;
  // Under the lock: the call may be gone as soon as it can run.
  next.changed->notify_one();
}

void WriterQueue::Leadership::run_followers(Session& session) {
  {
    const std::scoped_lock lock{queue_.mutex_};
    followers_.reserve(std::min(queue_.calls_.size(), max_followers));
    for (auto position = queue_.calls_.begin();
         position != queue_.calls_.end() && followers_.size() < max_followers;) {
      Request& call = **position;
      if (call.shared && (call.access == access_ || access_ == Access::write)) {
        call.state = Request::State::joined;
        followers_.push_back(&call);
        position = queue_.calls_.erase(position);
      } else {
        ++position;
      }
    }
  }
  for (const Request* call : followers_) (*call->work)(session);
}

void WriterQueue::Leadership::complete(const std::exception_ptr& error) {
  const std::scoped_lock lock{queue_.mutex_};
  for (Request* call : followers_) {
    call->error = error;
    call->state = Request::State::done_by_leader;
    call->changed->notify_one();
  }
  followers_.clear();
}

void WriterQueue::Leadership::retry_alone() {
  const std::scoped_lock lock{queue_.mutex_};
  for (auto call = followers_.rbegin(); call != followers_.rend(); ++call) {
    (*call)->shared = false;
    queue_.calls_.push_front(*call);
  }
  followers_.clear();
}

}  // namespace twinbox
