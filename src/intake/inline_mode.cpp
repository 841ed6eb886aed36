#include <algorithm>
#include <memory>
#include <utility>

#include "core/json.hpp"
#include "dispatch/call.hpp"
#include "dispatch/settle.hpp"
#include "intake/inline_call_monitor.hpp"
#include "twinbox/intake.hpp"
#include "twinbox/operations.hpp"

namespace twinbox {
namespace {

/// Handles messages in the request that brings them. Thread-safe.
class InlineHandler {
 public:
  InlineHandler(Inbox& inbox, Handlers handlers, InlineOptions options)
      : inbox_(inbox),
        handlers_(std::move(handlers)),
        options_(std::move(options)),
        monitor_(inbox, options_.lease, options_.observer) {
    dispatch_.lease = options_.lease;
    dispatch_.on_failure = options_.on_failure;
  }

  HttpResponse take(Arrival arrival);

 private:
  using SharedCall = InlineCallMonitor::SharedCall;

  void release_foreign(const OwnerToken& owner, std::vector<Message>& claimed);
  HttpResponse handle(const SharedCall& tracked);
  std::optional<Verdict> call(const SharedCall& tracked, const DispatchObserver& observer);
  HttpResponse answer(const Message& message, const Verdict& verdict) const;
  HttpResponse not_claimed(const Arrival& arrival, const Accepted& accepted) const;
  [[nodiscard]] HttpResponse retry_later(int status, std::string_view title,
                                         std::string_view detail, Duration wait) const;
  [[nodiscard]] Instant now() const {
    if (const auto given = box_of(inbox_).environment().now()) return *given;
    return std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
  }

  /// Monitored until here, even after an exception.
  struct TrackedCalls {
    InlineCallMonitor& watch;
    std::vector<SharedCall> calls;
    ~TrackedCalls() {
      for (const SharedCall& call : calls) watch.end(call);
    }
  };

  Inbox& inbox_;
  Handlers handlers_;
  InlineOptions options_;
  DispatcherOptions dispatch_;
  InlineCallMonitor monitor_;
};

HttpResponse done(const MessageKey& key) {
  std::string body = R"({"state":"done","source":)";
  append_json_string(body, key.source.view());
  body += R"(,"id":)";
  append_json_string(body, key.id.view());
  return json_response(200, body + R"(,"conflict":false})");
}

HttpResponse InlineHandler::retry_later(int status, std::string_view title, std::string_view detail,
                                        Duration wait) const {
  HttpResponse answer = problem(status, title, detail);
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(wait).count();
  answer.headers.add("Retry-After", std::to_string(std::max<std::int64_t>(seconds, 1)));
  return answer;
}

/// Deliveries for handler keys that are not registered here: released, without an attempt.
void InlineHandler::release_foreign(const OwnerToken& owner, std::vector<Message>& claimed) {
  const auto foreign =
      std::stable_partition(claimed.begin(), claimed.end(), [&](const Message& message) {
        return message.handler.view().empty() ||
               handlers_.find(message.handler, message.topic) != nullptr;
      });
  if (foreign == claimed.end()) return;
  inbox_.release(owner, std::span<const Message>{foreign, claimed.end()});
  claimed.erase(foreign, claimed.end());
}

HttpResponse InlineHandler::take(Arrival arrival) {
  arrival.on_duplicate = OnDuplicate::keep_first;  // a sender may not change a known message
  const auto before = std::chrono::steady_clock::now();
  // Not one for all: after an asynchronous failover a late ack could settle the next claim.
  const OwnerToken owner = OwnerToken::make(box_of(inbox_).environment());
  auto taken = inbox_.accept_and_claim(arrival, owner, options_.lease);
  release_foreign(owner, taken.messages);
  if (taken.messages.empty()) return not_claimed(arrival, taken.accepted);
  // More than one only where handlers with keys took the message before: one after the other, and
  // all leases are kept meanwhile.
  TrackedCalls tracked{monitor_, {}};
  for (Message& message : taken.messages) {
    tracked.calls.push_back(
        monitor_.track(owner, std::make_shared<const Message>(std::move(message)), before));
  }
  HttpResponse worst = done(arrival.key());
  for (const SharedCall& call : tracked.calls) {
    HttpResponse one = handle(call);
    if (one.status > worst.status) worst = std::move(one);
  }
  return worst;
}

HttpResponse InlineHandler::handle(const SharedCall& tracked) {
  const std::shared_ptr<const Message>& message = tracked->message;
  std::optional<Outcome> outcome;
  bool lost = false;
  DispatchObserver observer = options_.observer;
  observer.handled = [&](DispatchObserver::StoreName store, const Message& of, const Outcome& said,
                         Duration took) {
    outcome = said;
    if (options_.observer.handled) options_.observer.handled(store, of, said, took);
  };
  observer.lease_lost = [&](DispatchObserver::StoreName store, std::size_t count) {
    lost = true;
    if (options_.observer.lease_lost) options_.observer.lease_lost(store, count);
  };
  const std::optional<Verdict> verdict = call(tracked, observer);
  if (verdict) {
    const std::vector<Settlement> settlements{{message, *verdict}};
    lost = settle(inbox_, tracked->owner, settlements) > 0;
    if (!lost) {
      report(inbox_, options_.observer, settlements);
      return answer(*message, *verdict);
    }
  }
  if (lost) {
    return retry_later(503, "Service Unavailable", "another worker handles it; retry later",
                       options_.retry_after);
  }
  if (outcome && outcome->kind() == Outcome::Kind::done) return done(message->key());
  return problem(500, "Internal Server Error",
                 "the handler failed, and is called at most once; the inbox has the reason");
}

/// Keeps its lease and enforces its timeout.
std::optional<Verdict> InlineHandler::call(const SharedCall& tracked,
                                           const DispatchObserver& observer) {
  const Message& message = *tracked->message;
  const HandlerEntry* entry = handlers_.find(message.handler, message.topic);
  monitor_.begin(tracked, entry == nullptr ? HandlerOptions{} : entry->options);
  const std::stop_callback on_stop{options_.stop, [&] {
                                     tracked->watch.shutting_down = true;
                                     tracked->watch.stop.request_stop();
                                   }};
  const Caller caller{inbox_, handlers_, dispatch_, observer, tracked->owner};
  const TrackedCalls until_it_returns{monitor_, {tracked}};
  return caller.call({&message, 1}, tracked->watch)[0];
}

HttpResponse InlineHandler::answer(const Message& message, const Verdict& verdict) const {
  switch (verdict.action) {
    case Verdict::Action::ack:
    case Verdict::Action::discard: return done(message.key());
    case Verdict::Action::abandon:
      return retry_later(500, "Internal Server Error",
                         "the handler failed, attempt " +
                             std::to_string(std::int64_t{message.attempts} + 1) +
                             "; the inbox has the reason, and it will be tried again",
                         verdict.delay.value_or(options_.retry_after));
    case Verdict::Action::fail:
      // A sender that repeats it gets the answer for a duplicate.
      if (verdict.reason == "max_attempts") {
        return problem(500, "Internal Server Error",
                       "the handler failed for the last time; it is kept as a dead letter");
      }
      return problem(422, "Unprocessable Content",
                     "it can never be handled; it is kept as a dead letter");
    case Verdict::Action::postpone:
      return retry_later(503, "Service Unavailable", "not now", verdict.until - now());
    case Verdict::Action::release: break;
  }
  return retry_later(
      503, "Service Unavailable",
      "it was not handled, because the store went away or this process stops; send it "
      "again with the same id",
      options_.retry_after);
}

HttpResponse InlineHandler::not_claimed(const Arrival& arrival, const Accepted& accepted) const {
  Duration wait = options_.retry_after;
  // The stored message is another one: its sender would wait in vain.
  if (accepted.conflict) return accepted_response(arrival, accepted);
  if (accepted.state == Acceptance::accepted || accepted.state == Acceptance::duplicate_open) {
    bool open = false;
    if (const auto detail = Admin{inbox_}.get(arrival.key())) {
      for (const DeliveryView& delivery : detail->deliveries) {
        open |= delivery.state == DeliveryState::ready ||
                delivery.state == DeliveryState::scheduled ||
                delivery.state == DeliveryState::leased || delivery.state == DeliveryState::waiting;
        if (delivery.state == DeliveryState::scheduled) wait = *delivery.visible_at - now();
      }
    }
    if (open) {
      return retry_later(503, "Service Unavailable",
                         "it is known, and waits for its turn, its retry, or its current worker",
                         wait);
    }
  }
  return accepted_response(arrival, accepted);
}

}  // namespace

IntakeCall inline_mode(Inbox& inbox, Handlers handlers, InlineOptions options) {
  // Shared by the copies of the call.
  auto handler = std::make_shared<InlineHandler>(inbox, std::move(handlers), std::move(options));
  return [handler](const Arrival& arrival) { return handler->take(arrival); };
}

}  // namespace twinbox
