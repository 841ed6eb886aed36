// One call of a handler, with its guarantee.
#pragma once

#include <atomic>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "dispatch/verdict.hpp"
#include "queue/box.hpp"

namespace twinbox {

/// What is known of a call while it runs, shared between who runs it and who watches it.
struct CallWatch {
  std::stop_source stop = {};
  std::atomic<bool> timed_out =
      false;  ///< it ran past its timeout: it counts as failed whatever it answers
  std::atomic<bool> shutting_down =
      false;  ///< it was told to stop because the dispatcher stops: no failure
};

/// Calls handlers and decides what follows. Thread-safe.
class Caller {
 public:
  Caller(WorkQueue& queue, const Handlers& handlers, const DispatcherOptions& options,
         const DispatchObserver& observer, OwnerToken owner);

  /// Empty: nothing is left to settle (done in the handler's own transaction, marked, or lost).
  std::optional<Verdict> call(const Message& message, CallWatch& watch) const;
  /// One call for several messages of one batch handler (see batches_of): a verdict for each, in
  /// their order.
  std::vector<Verdict> call_batch(std::span<const Message> messages, CallWatch& watch) const;
  /// How long the handler of a message may run.
  [[nodiscard]] std::optional<Duration> timeout(const Message& message) const;

 private:
  std::optional<Verdict> call_plain(const MessageHandler& handler, const HandlerEntry& entry,
                                    const Message& message, CallWatch& watch) const;
  std::optional<Verdict> call_in_transaction(const TransactionalHandler& handler,
                                             const HandlerEntry& entry, const Message& message,
                                             CallWatch& watch) const;
  std::optional<Verdict> call_marked(const MessageHandler& handler, const HandlerEntry& entry,
                                     const Message& message, CallWatch& watch) const;
  /// The outcome, seen in the light of a timeout or a stop request.
  [[nodiscard]] Verdict judge(const Outcome& outcome, const HandlerEntry& entry,
                              const Message& message, const CallWatch& watch) const;
  void log_call(const Message& message) const;
  Outcome guarded(const Message& message, const std::function<Outcome()>& handler) const;
  void report_lost() const;
  [[nodiscard]] std::string_view store() const noexcept { return queue_.database().name(); }

  WorkQueue& queue_;
  Box& box_;
  const Handlers& handlers_;
  const DispatcherOptions& options_;
  const DispatchObserver& observer_;
  OwnerToken owner_;
};

}  // namespace twinbox
