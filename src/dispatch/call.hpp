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

/// What is known of a call while it runs, shared between who runs it and who watches it.
struct CallWatch {
  std::stop_source stop = {};
  std::chrono::steady_clock::time_point claimed_at = {};  ///< right before the claim
  /// The database part of the call began then: before the handler or after it. Never: no part of
  /// it is under way.
  std::atomic<std::chrono::steady_clock::time_point> waits_for_database_since =
      std::chrono::steady_clock::time_point::max();
  std::atomic<bool> timed_out =
      false;  ///< it ran past its timeout: it counts as failed whatever it answers
  std::atomic<bool> marked = false;  ///< at most once, and its mark ends the lease, or has ended it
  std::atomic<bool> shutting_down =
      false;  ///< it was told to stop because the dispatcher stops: no failure

  /// Held while it is told that the handler is slow, so that this comes before its end is told.
  std::mutex telling = {};
  bool in_handler = false;
  void set_in_handler(bool now) {
    const std::scoped_lock lock{telling};
    in_handler = now;
  }
};

/// How long a call of the handler may take; empty: as long as it likes.
inline std::optional<Duration> timeout_of(const HandlerOptions& handler, const BoxOptions& box) {
  return handler.timeout ? handler.timeout : box.handler_timeout;
}

/// Whose connections were lost under their handler, of late. Thread-safe.
class ConnectionLossCounts {
 public:
  /// How often by now: 1 is the first time.
  int count(DeliveryId id);
  void forget(DeliveryId id);

 private:
  std::mutex mutex_;
  std::map<DeliveryId, int> counts_;
};

/// Calls handlers and decides what follows. Thread-safe.
class Caller {
 public:
  Caller(WorkQueue& queue, const Handlers& handlers, const DispatcherOptions& options,
         const DispatchObserver& observer, OwnerToken owner);

  /// Messages of one handler, which is called once for all of them when it takes batches. For each:
  /// what is to be done; empty when nothing is left to settle (done in the handler's own
  /// transaction, left marked, or lost).
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
  /// False: somebody else holds it by now.
  [[nodiscard]] bool mark(const Message& message, CallWatch& watch) const;
  /// The outcome, seen in the light of a timeout or a stop request.
  [[nodiscard]] Verdict judge(const Outcome& outcome, const HandlerEntry& entry,
                              const Message& message, const CallWatch& watch) const;
  /// The outcome that counts: the one of DispatcherOptions::on_failure in place of a failure.
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
