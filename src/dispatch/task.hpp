// A message on its way through a dispatcher: from the claim until it is settled.
#pragma once

#include <chrono>
#include <memory>

#include "dispatch/call.hpp"

namespace twinbox {

class BoxPoller;

/// Monotonic: how long to wait, never when something is due.
using Clock = std::chrono::steady_clock;
inline constexpr Clock::time_point never = Clock::time_point::max();

struct Task {
  Task(std::shared_ptr<BoxPoller> of, Message claimed, Clock::time_point at)
      : poller(std::move(of)), message(std::move(claimed)), claimed_at(at) {}

  const std::shared_ptr<BoxPoller> poller;  ///< lives as long as one of its tasks
  Message message;                          ///< of a batch that runs, only the first is still whole
  const Clock::time_point claimed_at;
  // Null until it is called; shared by all messages of one call.
  std::shared_ptr<CallWatch> watch = {};
  Clock::time_point deadline = Clock::time_point::max();  ///< of the handler, once it runs
  // When the handler is reported as slow, how long it has run by then, and how often it was.
  Clock::time_point slow_at = Clock::time_point::max();
  Duration running = {};
  int times_slow = 0;
  std::size_t index = 0;  ///< among the tasks its poller holds
  bool lost = false;      ///< its lease is not ours any more

  /// At most once: it has no lease any more.
  [[nodiscard]] bool marked() const { return watch && watch->marked; }
};

// Shared by the worker that runs it and by the poller that renews and watches it.
using SharedTask = std::shared_ptr<Task>;

inline std::shared_ptr<const Message> message_of(const SharedTask& task) {
  return {task, &task->message};
}

}  // namespace twinbox
