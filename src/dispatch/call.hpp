// One call of a handler, with its guarantee.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "dispatch/announcement.hpp"
#include "dispatch/verdict.hpp"
#include "queue/box.hpp"

namespace twinbox {

/// The state of a running call, shared by the thread that runs it and the threads that watch it.
struct CallWatch {
  std::stop_source stop = {};
  std::chrono::steady_clock::time_point claimed_at = {};  ///< right before the claim
  /// When the database part of the call began, before or after the handler. Never: no part of it is
  /// running.
  std::atomic<std::chrono::steady_clock::time_point> waits_for_database_since =
      std::chrono::steady_clock::time_point::max();
  std::atomic<bool> timed_out =
      false;  ///< it exceeded its timeout: it counts as failed whatever it answers
  std::atomic<bool> marked = false;  ///< at most once, and its mark ends the lease, or has ended it
  std::atomic<bool> shutting_down =
      false;  ///< it got a stop request because the dispatcher stops: no failure

  /// Held while the slow handler is reported, so that the report precedes its end.
  std::mutex telling = {};
  bool in_handler = false;
  void set_in_handler(bool now) {
    const std::scoped_lock lock{telling};
    in_handler = now;
  }
};

/// The timeout of a handler call; empty: none.
inline std::optional<Duration> timeout_of(const HandlerOptions& handler, const BoxOptions& box) {
  return handler.timeout ? handler.timeout : box.handler_timeout;
}

/// Handlers whose connections were lost recently. Thread-safe.
class ConnectionLossCounts {
 public:
  /// The number of losses so far: 1 is the first.
  int count(DeliveryId id);
  void forget(DeliveryId id);

 private:
  std::mutex mutex_;
  std::map<DeliveryId, int> counts_;
};

/// Calls handlers and decides the verdict. Thread-safe.
class Caller {
 public:
  Caller(WorkQueue& queue, const Handlers& handlers, const DispatcherOptions& options,
         const DispatchObserver& observer, OwnerToken owner);

  /// Messages of one handler, which is called once for all of them if it takes batches. Returns the
  /// verdict for each; empty when nothing is left to settle (done in the handler's own transaction,
  /// left marked, or lost).
  std::vector<std::optional<Verdict>> call(std::span<const Message> messages,
                                           CallWatch& watch) const;

 private:
  std::optional<Verdict> call_one(const HandlerEntry& entry, const Message& message,
                                  CallWatch& watch) const;
  std::vector<std::optional<Verdict>> call_many(const HandlerEntry& entry,
                                                std::span<const Message> messages,
                                                CallWatch& watch) const;
  std::optional<Verdict> call_plain(const MessageHandler& handler, const HandlerEntry& entry,
                                    const Message& message, CallWatch& watch) const;
  std::optional<Verdict> call_in_transaction(const TransactionalHandler& handler,
                                             const HandlerEntry& entry, const Message& message,
                                             CallWatch& watch) const;
  std::optional<Verdict> call_marked(const MessageHandler& handler, const HandlerEntry& entry,
                                     const Message& message, CallWatch& watch) const;
  /// False: another worker holds it.
  [[nodiscard]] bool mark(const Message& message, CallWatch& watch) const;
  /// The outcome after a timeout or a stop request is taken into account.
  [[nodiscard]] Verdict judge(const Outcome& outcome, const HandlerEntry& entry,
                              const Message& message, const CallWatch& watch) const;
  /// The final outcome: the one of DispatcherOptions::on_failure in place of a failure.
  [[nodiscard]] Outcome after_failure(const Outcome& outcome, const Message& message) const;
  Outcome guarded(const Message& message, CallWatch& watch,
                  const std::function<Outcome()>& handler) const;
  [[nodiscard]] Verdict judge_unhandled(const Message& message, CallWatch& watch) const;
  [[nodiscard]] std::string_view missing(const Message& message) const noexcept;
  void report_lost() const;
  void report_start(const Message& message, CallWatch& watch) const;
  void log_call(const Message& message) const;
  void log_error(const Message& message, std::string_view error, std::string_view cause) const;
  void log_outcome(const Message& message, const Outcome& outcome) const;
  [[nodiscard]] std::string_view store() const noexcept { return queue_.database().name(); }

  WorkQueue& queue_;
  Box& box_;
  const Handlers& handlers_;
  const DispatcherOptions& options_;
  const DispatchObserver& observer_;
  OwnerToken owner_;
  mutable ConnectionLossCounts connection_losses_;
  mutable OtherWorkers others_;
};

}  // namespace twinbox
