#include "dispatch/call.hpp"

#include <algorithm>
#include <chrono>

#include "core/text.hpp"
#include "dispatch/call_batch.hpp"
#include "dispatch/settle.hpp"

namespace twinbox {
namespace {

/// How long a message that another worker handles is left to that worker before it is claimed
/// again.
constexpr Duration left_to_others = std::chrono::seconds{1};

/// Leaves a transaction without an error of its own.
struct RollBack {};

Duration since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - begin);
}

/// After the second commit that was lost and those that follow: 1, 2, 4, 8, 15 s.
Duration pause_after(int losses) {
  return std::min<Duration>(std::chrono::seconds{1 << std::min(losses - 2, 4)},
                            std::chrono::seconds{15});
}

/// While it lives, the call waits for its database.
class InDatabase {
 public:
  explicit InDatabase(CallWatch& watch) : watch_(watch) { wait(); }
  ~InDatabase() { leave(); }
  InDatabase(const InDatabase&) = delete;
  InDatabase& operator=(const InDatabase&) = delete;

  void wait() { watch_.waits_for_database_since = std::chrono::steady_clock::now(); }
  void leave() { watch_.waits_for_database_since = std::chrono::steady_clock::time_point::max(); }

 private:
  CallWatch& watch_;
};

}  // namespace

int ConnectionLossCounts::count(DeliveryId id) {
  constexpr std::size_t most = 10'000;
  const std::scoped_lock lock{mutex_};
  if (counts_.size() >= most) counts_.clear();
  return ++counts_[id];
}

void ConnectionLossCounts::forget(DeliveryId id) {
  const std::scoped_lock lock{mutex_};
  counts_.erase(id);
}

Caller::Caller(WorkQueue& queue, const Handlers& handlers, const DispatcherOptions& options,
               const DispatchObserver& observer, OwnerToken owner)
    : queue_(queue),
      box_(box_of(queue)),
      handlers_(handlers),
      options_(options),
      observer_(observer),
      owner_(owner),
      others_(queue, owner) {}

std::vector<std::optional<Verdict>> Caller::call(std::span<const Message> messages,
                                                 CallWatch& watch) const {
  const HandlerEntry* entry = handlers_.find(messages[0].handler, messages[0].topic);
  std::vector<std::optional<Verdict>> verdicts;
  if (entry != nullptr && std::holds_alternative<BatchHandler>(entry->call)) {
    return call_many(*entry, messages, watch);
  }
  for (const Message& message : messages) {
    verdicts.push_back(entry != nullptr ? call_one(*entry, message, watch)
                                        : judge_unhandled(message, watch));
  }
  return verdicts;
}

Verdict Caller::judge_unhandled(const Message& message, CallWatch& watch) const {
  const bool others_handle_it = [&] {
    const InDatabase waits{watch};
    return others_.handle(message, watch.claimed_at);
  }();
  if (others_handle_it) {
    box_.log(LogLevel::info, "left_to_other_worker",
             {{"topic", message.topic.view()},
              {"handler", message.handler.view()},
              {"id", message.id.view()}});
    return postpone_verdict(message, options_.lease, left_to_others);
  }
  box_.log(LogLevel::warning, "no_handler",
           {{"topic", message.topic.view()},
            {"handler", message.handler.view()},
            {"id", message.id.view()},
            {"missing", missing(message)}});
  return decide_unhandled(message, options_, queue_.options().retry, box_.environment());
}

std::string_view Caller::missing(const Message& message) const noexcept {
  if (!message.handler.view().empty()) return "a handler of this key";
  return options_.missing.empty() ? std::string_view{"a handler"} : options_.missing;
}

void Caller::log_call(const Message& message) const {
  box_.log(LogLevel::info, "handle",
           {{"topic", message.topic.view()},
            {"handler", message.handler.view()},
            {"id", message.id.view()},
            {"attempt", std::int64_t{message.attempts} + 1}});
}

void Caller::log_error(const Message& message, std::string_view error,
                       std::string_view cause) const {
  box_.log(LogLevel::error, "handler_error",
           {{"topic", message.topic.view()},
            {"handler", message.handler.view()},
            {"id", message.id.view()},
            {"cause", cause},
            {"error", error}});
}

void Caller::log_outcome(const Message& message, const Outcome& outcome) const {
  // Without the reason: a receiver's answer may repeat the payload. The message keeps it.
  if (outcome.kind() != Outcome::Kind::retry) return;
  const std::string cause =
      outcome.log_cause() ? outcome.log_cause()->str() : std::string{outcome.cause()};
  box_.log(LogLevel::warning, "handler_retry",
           {{"topic", message.topic.view()},
            {"handler", message.handler.view()},
            {"id", message.id.view()},
            {"cause", std::string_view{cause}},
            {"attempt", std::int64_t{message.attempts} + 1}});
}

std::optional<Verdict> Caller::call_one(const HandlerEntry& entry, const Message& message,
                                        CallWatch& watch) const {
  log_call(message);
  if (const auto* handler = std::get_if<TransactionalHandler>(&entry.call)) {
    return call_in_transaction(*handler, entry, message, watch);
  }
  const auto& handler = std::get<MessageHandler>(entry.call);
  return entry.options.at_most_once && queue_.options().gate
             ? call_marked(handler, entry, message, watch)
             : call_plain(handler, entry, message, watch);
}

std::vector<std::optional<Verdict>> Caller::call_many(const HandlerEntry& entry,
                                                      std::span<const Message> messages,
                                                      CallWatch& watch) const {
  for (const Message& message : messages) {
    log_call(message);
    report_start(message, watch);
  }
  const auto begin = std::chrono::steady_clock::now();
  const BatchAnswer answer =
      call_batch(std::get<BatchHandler>(entry.call), messages, watch.stop.get_token());
  watch.set_in_handler(false);
  const Duration each = since(begin) / static_cast<std::int64_t>(messages.size());
  std::vector<std::optional<Verdict>> verdicts;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const Outcome& outcome = answer.outcomes[i];
    if (answer.error.empty()) {
      log_outcome(messages[i], outcome);
    } else {
      log_error(messages[i], answer.error, answer.cause);
    }
    if (observer_.handled) observer_.handled(store(), messages[i], outcome, each);
    verdicts.push_back(judge(outcome, entry, messages[i], watch));
  }
  return verdicts;
}

void Caller::report_start(const Message& message, CallWatch& watch) const {
  watch.set_in_handler(true);
  if (!observer_.started) return;
  // By the database's clock until the claim, by ours since then.
  const Duration until_claim = message.lease_until - options_.lease - message.visible_at;
  observer_.started(store(), message, until_claim + since(watch.claimed_at));
}

Outcome Caller::guarded(const Message& message, CallWatch& watch,
                        const std::function<Outcome()>& handler) const {
  report_start(message, watch);
  const auto begin = std::chrono::steady_clock::now();
  std::string error;
  std::string_view cause = "exception";
  try {
    Outcome outcome = handler();
    watch.set_in_handler(false);
    log_outcome(message, outcome);
    if (observer_.handled) observer_.handled(store(), message, outcome, since(begin));
    return outcome;
  } catch (const DatabaseError& exception) {
    error = text_of(exception);
    cause = to_string(exception.kind());
  } catch (const std::exception& exception) {
    error = text_of(exception);
  } catch (...) {
    error = "the handler threw something that is no std::exception";
  }
  watch.set_in_handler(false);
  error = truncate_error(error);
  log_error(message, error, cause);
  const Outcome outcome = Outcome::retry(error, {}, "exception");
  if (observer_.handled) observer_.handled(store(), message, outcome, since(begin));
  return outcome;
}

Verdict Caller::judge(const Outcome& outcome, const HandlerEntry& entry, const Message& message,
                      const CallWatch& watch) const {
  const RetryPolicy& retry = entry.options.retry ? *entry.options.retry : queue_.options().retry;
  if (watch.timed_out) {
    const Duration limit = timeout_of(entry.options, queue_.options()).value_or(Duration::zero());
    const Outcome late = Outcome::retry(
        "the handler ran past its timeout of " +
            std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(limit).count()) +
            " ms",
        {}, "timeout");
    return decide(after_failure(late, message), message.attempts, retry, box_.environment());
  }
  if (watch.shutting_down && outcome.kind() == Outcome::Kind::retry)
    return {.action = Verdict::Action::release};
  return decide(after_failure(outcome, message), message.attempts, retry, box_.environment());
}

Outcome Caller::after_failure(const Outcome& outcome, const Message& message) const {
  const bool failed =
      outcome.kind() == Outcome::Kind::retry || outcome.kind() == Outcome::Kind::dead;
  if (!failed || !options_.on_failure) return outcome;
  std::string error = "it threw something that is no std::exception";
  try {
    return options_.on_failure(message, outcome);
  } catch (const std::exception& exception) {
    error = truncate_error(text_of(exception));
  } catch (...) {
  }
  box_.log(LogLevel::error, "on_failure_error",
           {{"topic", message.topic.view()},
            {"handler", message.handler.view()},
            {"id", message.id.view()},
            {"error", std::string_view{error}}});
  return outcome;
}

std::optional<Verdict> Caller::call_plain(const MessageHandler& handler, const HandlerEntry& entry,
                                          const Message& message, CallWatch& watch) const {
  const Outcome outcome =
      guarded(message, watch, [&] { return handler(message, watch.stop.get_token()); });
  return judge(outcome, entry, message, watch);
}

std::optional<Verdict> Caller::call_in_transaction(const TransactionalHandler& handler,
                                                   const HandlerEntry& entry,
                                                   const Message& message, CallWatch& watch) const {
  bool settled = false;
  bool called = false;
  bool returned = false;
  bool ours = true;  // what fails now is a transaction of ours, not the handler
  const auto work = [&]() -> Outcome {
    std::optional<Outcome> outcome;
    InDatabase database{watch};
    try {
      queue_.database().in_transaction([&](Session& session) {
        ours = false;
        called = true;
        database.leave();
        try {
          outcome = handler(session, message, watch.stop.get_token());
        } catch (const DatabaseError&) {
          ours = !session.in_transaction();
          throw;
        }
        database.wait();
        ours = returned = true;
        if (outcome->kind() != Outcome::Kind::done || watch.timed_out) throw RollBack{};
        settled = true;
        if (queue_.ack(session, owner_, message) == 0) {
          outcome.reset();
          throw RollBack{};
        }
      });
    } catch (const RollBack&) {
      // Its writes are gone; its outcome still has to be settled.
    }
    if (!outcome) {
      report_lost();
      return Outcome::done();
    }
    return *outcome;
  };
  bool out_of_reach = false;
  const Outcome outcome = guarded(message, watch, [&] {
    try {
      return work();
    } catch (const DatabaseError& error) {
      settled = false;
      out_of_reach = (ours && (error.kind() == DatabaseError::Kind::connection_lost ||
                               error.kind() == DatabaseError::Kind::commit_in_doubt)) ||
                     (!called && error.retryable());
      throw;
    } catch (...) {
      settled = false;
      throw;
    }
  });
  if (!out_of_reach) connection_losses_.forget(message.delivery_id);
  if (settled) return std::nullopt;
  // An unreachable or busy database says nothing about the message, unless it fails each time this
  // handler is called.
  const int losses = out_of_reach && called ? connection_losses_.count(message.delivery_id) : 0;
  if (out_of_reach && losses <= 1) return Verdict{.action = Verdict::Action::release};
  if (out_of_reach && returned)
    return postpone_verdict(message, options_.lease, pause_after(losses));
  return judge(outcome, entry, message, watch);
}

bool Caller::mark(const Message& message, CallWatch& watch) const {
  const InDatabase waits{watch};
  const Arg now = box_.now();
  return box_.write([&](Session& session) {
    return box_.run(session, box_.sql().mark,
                    {{"id", message.delivery_id.number()},
                     {"owner", Value{owner_.uuid()}},
                     {"epoch", std::int64_t{message.epoch}},
                     now}) > 0;
  });
}

std::optional<Verdict> Caller::call_marked(const MessageHandler& handler, const HandlerEntry& entry,
                                           const Message& message, CallWatch& watch) const {
  // Set it before the mark: a renewal that no longer finds the lease must not treat it as lost.
  watch.marked = true;
  bool marked = false;
  try {
    marked = mark(message, watch);
  } catch (const DatabaseError& error) {
    // Nothing was committed, and the handler was not called: the delivery is unchanged.
    if (!error.retryable()) throw;
    log_error(message, error.what(), to_string(error.kind()));
    return Verdict{.action = Verdict::Action::release};
  }
  if (!marked) {
    report_lost();
    return std::nullopt;
  }
  const Outcome outcome =
      guarded(message, watch, [&] { return handler(message, watch.stop.get_token()); });
  Verdict verdict = judge(outcome, entry, message, watch);
  const bool dead = verdict.action == Verdict::Action::fail &&
                    (verdict.reason != "max_attempts" || entry.options.release_claim_on_error);
  if (dead || verdict.action == Verdict::Action::ack ||
      verdict.action == Verdict::Action::postpone ||
      (verdict.action != Verdict::Action::fail && entry.options.release_claim_on_error)) {
    verdict.marked = true;
    return verdict;
  }
  box_.log(LogLevel::error, "left_marked",
           {{"topic", message.topic.view()},
            {"handler", message.handler.view()},
            {"id", message.id.view()}});
  if (observer_.failed) observer_.failed(store(), message, verdict.error);
  return std::nullopt;
}

void Caller::report_lost() const {
  box_.log(LogLevel::warning, "lease_lost", {{"count", std::int64_t{1}}});
  if (observer_.lease_lost) observer_.lease_lost(store(), 1);
}

}  // namespace twinbox
