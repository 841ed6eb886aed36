#include "intake/inline_call_monitor.hpp"

#include <algorithm>
#include <vector>

#include "queue/box.hpp"

namespace twinbox {
namespace {

constexpr auto never = InlineCallMonitor::Clock::time_point::max();

}  // namespace

InlineCallMonitor::SharedCall InlineCallMonitor::track(OwnerToken owner,
                                                       std::shared_ptr<const Message> message,
                                                       Clock::time_point claimed) {
  auto call = std::make_shared<Call>(owner);
  call->message = std::move(message);
  call->renew_at = claimed + lease_ / 3;
  call->deadline = never;
  call->watch.claimed_at = claimed;
  const std::scoped_lock lock{mutex_};
  calls_.push_back(call);
  ++changes_;
  if (!thread_.joinable()) {
    thread_ = std::jthread{[this](const std::stop_token& stop) { work(stop); }};
  }
  changed_.notify_one();
  return call;
}

void InlineCallMonitor::begin(const SharedCall& call, const HandlerOptions& options) {
  const std::scoped_lock lock{mutex_};
  if (options.at_most_once && inbox_.options().gate) call->renew_at = never;
  const std::optional<Duration> timeout = timeout_of(options, inbox_.options());
  if (!timeout) return;
  call->deadline = Clock::now() + *timeout;
  ++changes_;
  changed_.notify_one();
}

void InlineCallMonitor::end(const SharedCall& call) {
  const std::scoped_lock lock{mutex_};
  calls_.remove(call);
}

void InlineCallMonitor::work(const std::stop_token& stop) {
  std::unique_lock lock{mutex_};
  while (!stop.stop_requested()) {
    const Clock::time_point now = Clock::now();
    std::list<SharedCall> due, late;
    Clock::time_point next = never;
    for (const SharedCall& call : calls_) {
      if (now >= call->deadline && !call->watch.timed_out.exchange(true)) late.push_back(call);
      if (now >= call->renew_at) {
        call->renew_at = now + lease_ / 3;
        due.push_back(call);
      }
      next = std::min(next, call->renew_at);
      if (!call->watch.timed_out) next = std::min(next, call->deadline);
    }
    if (!due.empty() || !late.empty()) {
      lock.unlock();
      for (const SharedCall& call : late) report_late(call);
      for (const SharedCall& call : due) renew(*call);
      lock.lock();
      continue;
    }
    const auto other = [this, before = changes_] { return changes_ != before; };
    if (next == never) {
      changed_.wait(lock, stop, other);
    } else {
      changed_.wait_until(lock, stop, next, other);
    }
  }
}

/// Outside of the lock: the receiver of a stop request may do anything.
void InlineCallMonitor::report_late(const SharedCall& call) {
  call->watch.stop.request_stop();
  const Message& message = *call->message;
  box_of(inbox_).log(LogLevel::warning, "timeout",
                     {{"topic", message.topic.view()},
                      {"handler", message.handler.view()},
                      {"id", message.id.view()}});
  if (observer_.timed_out) observer_.timed_out(inbox_.database().name(), message);
}

/// It may have begun meanwhile, as an at-most-once call.
bool InlineCallMonitor::has_lease(const Call& call) {
  const std::scoped_lock lock{mutex_};
  return call.renew_at != never;
}

void InlineCallMonitor::renew(Call& call) {
  const std::vector<Lease> leases{call.message->lease()};
  try {
    const bool kept = !inbox_.renew(call.owner, leases, lease_).empty();
    // Another worker has it, or it has just been settled: stop the handler.
    if (!kept && has_lease(call)) call.watch.stop.request_stop();
  } catch (const DatabaseError& error) {  // retried after the next third of the lease
    box_of(inbox_).log(LogLevel::warning, "renew_error", {{"error", error.what()}});
  }
}

}  // namespace twinbox
