#include "database/writer_queue.hpp"

#include <algorithm>
#include <utility>

namespace twinbox {
namespace {

using std::chrono::steady_clock;

/// Each one more makes all of them wait longer for the commit.
constexpr std::size_t most_aboard = 16;

}  // namespace

WriterQueue::Turn WriterQueue::wait(Call& call, const std::function<steady_clock::duration()>& left,
                                    const std::stop_token& stop) {
  using State = Call::State;
  std::unique_lock lock{mutex_};
  if (!std::exchange(busy_, true)) {
    call.state = State::leads;
    return Turn::leads;
  }
  call.changed.emplace();
  const auto place = calls_.insert(calls_.end(), &call);
  const auto in_time = std::max(left(), steady_clock::duration::zero());
  if (!call.changed->wait_for(lock, stop, in_time, [&] { return call.state != State::waiting; })) {
    calls_.erase(place);
    return stop.stop_requested() ? Turn::stopped : Turn::late;
  }
  // It is being run: how that ends must be known.
  call.changed->wait(lock,
                     [&] { return call.state == State::leads || call.state == State::carried; });
  return call.state == State::leads ? Turn::leads : Turn::carried;
}

std::size_t WriterQueue::waiting() const {
  const std::scoped_lock lock{mutex_};
  return calls_.size();
}

WriterQueue::Lead::Lead(WriterQueue& queue, const Call& call)
    : queue_(queue), access_(call.access) {
  if (!call.shared || call.access == Access::write) return;
  const std::scoped_lock lock{queue_.mutex_};
  const bool durable = std::any_of(queue_.calls_.begin(), queue_.calls_.end(), [](const Call* one) {
    return one->shared && one->access == Access::write;
  });
  if (durable) access_ = Access::write;
}

WriterQueue::Lead::~Lead() {
  put_back();
  const std::scoped_lock lock{queue_.mutex_};
  if (queue_.calls_.empty()) {
    queue_.busy_ = false;
    return;
  }
  Call& next = *queue_.calls_.front();
  queue_.calls_.pop_front();
  next.state = Call::State::leads;
  // Under the lock: the call may be gone as soon as it can run.
  next.changed->notify_one();
}

void WriterQueue::Lead::run_others(Session& session) {
  {
    const std::scoped_lock lock{queue_.mutex_};
    aboard_.reserve(std::min(queue_.calls_.size(), most_aboard));
    for (auto place = queue_.calls_.begin();
         place != queue_.calls_.end() && aboard_.size() < most_aboard;) {
      Call& call = **place;
      if (call.shared && (call.access == access_ || access_ == Access::write)) {
        call.state = Call::State::aboard;
        aboard_.push_back(&call);
        place = queue_.calls_.erase(place);
      } else {
        ++place;
      }
    }
  }
  for (const Call* call : aboard_) (*call->work)(session);
}

void WriterQueue::Lead::arrive(const std::exception_ptr& error) {
  const std::scoped_lock lock{queue_.mutex_};
  for (Call* call : aboard_) {
    call->error = error;
    call->state = Call::State::carried;
    call->changed->notify_one();
  }
  aboard_.clear();
}

void WriterQueue::Lead::put_back() {
  const std::scoped_lock lock{queue_.mutex_};
  for (auto call = aboard_.rbegin(); call != aboard_.rend(); ++call) {
    (*call)->shared = false;
    queue_.calls_.push_front(*call);
  }
  aboard_.clear();
}

}  // namespace twinbox
