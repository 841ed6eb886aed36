// Intakes turn requests into messages: the building blocks, and the two plain intakes. No sockets:
// mount them in the server of your choice, or build your own endpoints from the parts.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "twinbox/channel.hpp"
#include "twinbox/dispatcher.hpp"
#include "twinbox/environment.hpp"
#include "twinbox/event.hpp"
#include "twinbox/event_bus.hpp"
#include "twinbox/http.hpp"
#include "twinbox/inbox.hpp"
#include "twinbox/outbox.hpp"

namespace twinbox {

/// Accepts arrivals, a result each; durable once it returns. May throw a RequestError for an
/// arrival that must be refused for good: a broker's source makes a dead letter of it.
using AcceptCall = std::function<std::vector<Accepted>(std::span<const Arrival>)>;

/// All or none of them. `inbox` must outlive the call. One delivery per handler, or one by topic.
AcceptCall accept_into(Inbox& inbox, std::vector<HandlerName> handlers = {});
/// One after the other. `channels` must outlive the call and be checked before the first request.
AcceptCall accept_into(Channels& channels, std::string channel);

struct IntakeOptions {
  std::size_t max_body = 16U << 20U;  ///< larger ones are refused with 413
  std::size_t max_events = 1000;      ///< in one batch
  /// Request headers that are kept with the message, as its header `http`.
  std::vector<std::string> keep_headers = {};
  /// The Retry-After that senders get while the store cannot accept messages.
  std::chrono::seconds retry_after{5};
  /// Sources that belong to webhook endpoints or brokers: every other sender that names one gets
  /// 403. A webhook endpoint keeps its own.
  std::set<std::string, std::less<>> reserved_sources = {};
  /// Sources that belong to the senders of these names: every other `HttpRequest::sender` gets 403.
  std::set<std::string, std::less<>> sender_sources = {};
  /// How far ahead the due time of a message with a partition key may lie: until it is due, every
  /// later message of its key waits.
  std::chrono::seconds max_keyed_delay = std::chrono::hours{24};
  Environment environment = {};  ///< clock and log
};

/// The request cannot be accepted. The text is sent to the sender: what is wrong, and what to do.
class RequestError : public std::runtime_error {
 public:
  RequestError(int status, const std::string& detail)
      : std::runtime_error(detail), status_(status) {}
  [[nodiscard]] int status() const noexcept { return status_; }

 private:
  int status_;
};

/// Answers with the result of `work`, or with a problem document for its exceptions: RequestError
/// with its status, a wrong argument with 400, a store that is unavailable with 503 and
/// Retry-After, data that the store refuses with 422, everything else with 500. The reasons of the
/// last three are logged as `intake_error` with `operation`, and not sent.
HttpResponse response_or_problem(const IntakeOptions& options, std::string_view operation,
                                 const std::function<HttpResponse()>& work);

/// Throws RequestError: 405 for another method, 413 for a body above the limit, 415 for one with a
/// Content-Encoding.
void require_post(const HttpRequest& request, const IntakeOptions& options);

/// The segments of the request's path after `prefix`, percent-decoded. Throws RequestError: 404
/// unless there are exactly `count`, 400 for an invalid escape.
std::vector<std::string> path_segments(const HttpRequest& request, std::string_view prefix,
                                       std::size_t count);

/// The extras of the message: `Content-Type`, `Twinbox-Due` and `Twinbox-Expires` (RFC 3339),
/// `Twinbox-Correlation-Id`, `Twinbox-Partition-Key`, the trace context, the kept headers, and
/// `http` as the name of the transport. Throws RequestError naming the header. An expiry that has
/// passed by this machine's clock is refused, as is a due time beyond `max_keyed_delay` of a
/// message with a partition key; once stored, the database's clock decides.
MessageExtras extras_of(const HttpRequest& request, const IntakeOptions& options);

/// 202 for a new message, 200 for a duplicate or a conflict. The body has `state`, `source`, `id`
/// and `conflict`.
HttpResponse accepted_response(const Arrival& arrival, const Accepted& accepted);

/// Accepts one arrival and answers. The first message of an id is kept, whatever the arrival's
/// `on_duplicate` says.
HttpResponse accept_and_respond(const AcceptCall& accept, Arrival arrival);

/// `POST <prefix>/{source}/{topic}`: the body is the payload, `Idempotency-Key` or `ce-id` its id.
/// The first message of an id is kept (OnDuplicate::keep_first), as with all intakes. Thread-safe,
/// as all intakes are.
class InboxIntake {
 public:
  explicit InboxIntake(AcceptCall accept, IntakeOptions options = {},
                       std::string prefix = "/v1/inbox");
  [[nodiscard]] HttpResponse handle(const HttpRequest& request) const;
  /// Concurrent requests share a transaction; each has its own answer.
  [[nodiscard]] std::vector<HttpResponse> handle(std::span<const HttpRequest> requests) const;

 private:
  [[nodiscard]] Arrival read(const HttpRequest& request) const;

  AcceptCall accept_;
  IntakeOptions options_;
  std::string prefix_;
};

/// `POST <prefix>/{topic}`: the body is the payload, or a CloudEvent, which is stored as an
/// envelope. The message's source is the request's sender, `-` without one. With an
/// `Idempotency-Key` or `ce-id` a repeated request is harmless: 202 for a new message, 200 for an
/// identical repetition, 422 for a known key with another topic or payload. All of them name the
/// id.
class OutboxIntake {
 public:
  /// `outbox` must outlive it.
  explicit OutboxIntake(Outbox& outbox, IntakeOptions options = {},
                        std::string prefix = "/v1/outbox");
  [[nodiscard]] HttpResponse handle(const HttpRequest& request) const;
  /// Concurrent requests share a transaction; each has its own answer.
  [[nodiscard]] std::vector<HttpResponse> handle(std::span<const HttpRequest> requests) const;

 private:
  [[nodiscard]] NewMessage read(const HttpRequest& request) const;

  Outbox& outbox_;
  IntakeOptions options_;
  std::string prefix_;
};

// Events in over HTTP: CloudEvents into an inbox, events by name and version, a sidecar's topics.

/// `POST <path>`: CloudEvents 1.0, binary, structured or as a batch, which is accepted as a whole
/// where the target can. A batch answers `results`, one for each event, in their order.
class EventIntake {
 public:
  explicit EventIntake(AcceptCall accept, IntakeOptions options = {},
                       std::string path = "/v1/events");
  [[nodiscard]] HttpResponse handle(const HttpRequest& request) const;

 private:
  AcceptCall accept_;
  IntakeOptions options_;
  std::string path_;
};

/// Accepts one arrival and answers; throws the exceptions that response_or_problem translates.
using IntakeCall = std::function<HttpResponse(const Arrival&)>;

/// Durable, then 202; a dispatcher handles it.
IntakeCall accept_mode(AcceptCall accept);

struct InlineOptions {
  /// Renewed while the handler works; after a crash no other worker takes the delivery for this
  /// long.
  Duration lease = std::chrono::seconds{30};
  std::chrono::seconds retry_after{5};  ///< while another worker handles it
  DispatchObserver observer = {};
  FailureHook on_failure = {};  ///< may replace the outcome of a failed call
  /// Once requested, running handlers get a stop request. Unfinished deliveries are released and
  /// answered 503.
  std::stop_token stop = {};
};

/// Durable, then handled in the request, with the handler's guarantee: 200 when it is done, 500
/// when the handler failed (the inbox has the error, the attempts and the next retry; Retry-After
/// says when), 422 when it can never succeed and is now dead, 503 while it waits for its retry or
/// another worker handles it. A finished duplicate answers 200 without a call. So does an event
/// whose id is known with other content (`conflict`): no handler is called and the stored message
/// is unchanged. A dispatcher with the same handlers may run the retries. `inbox` must outlive the
/// call.
IntakeCall inline_mode(Inbox& inbox, Handlers handlers, InlineOptions options = {});

/// `POST <prefix>/{name}/v{version}`: one CloudEvent. The path names the handler, whatever the
/// event's type says: it is stored under the topic `{name}.v{version}`. An unknown one is 404.
class NamedEventIntake {
 public:
  NamedEventIntake(const std::vector<EventName>& names, IntakeCall take, IntakeOptions options = {},
                   std::string prefix = "/events");
  [[nodiscard]] HttpResponse handle(const HttpRequest& request) const;

 private:
  [[nodiscard]] EventName name_in(const HttpRequest& request) const;

  std::set<EventName> names_;
  IntakeCall take_;
  IntakeOptions options_;
  std::string prefix_;
};

/// A topic that a sidecar delivers.
struct Subscription {
  std::string pubsub;                ///< the sidecar's name for its broker
  std::string topic;                 ///< the broker's
  std::string route;                 ///< a path of this server
  IntakeCall take;                   ///< accept_mode or inline_mode
  std::optional<Topic> stored = {};  ///< the topic it is stored under; empty: the broker's
};

/// The endpoints that Dapr expects of an application: `GET /dapr/subscribe` lists the
/// subscriptions, and a delivery answers `{"status":"SUCCESS"}`, also for duplicates; `RETRY` when
/// it should be delivered again, also when another configuration would accept it (`sidecar_retry`
/// in the log); `DROP` when it is no event, or can never succeed (`sidecar_drop`).
class SidecarIntake {
 public:
  /// Throws std::invalid_argument when a route is no path or is listed twice.
  explicit SidecarIntake(std::vector<Subscription> subscriptions, IntakeOptions options = {});
  [[nodiscard]] HttpResponse handle(const HttpRequest& request) const;

 private:
  [[nodiscard]] HttpResponse list() const;
  [[nodiscard]] HttpResponse deliver(const Subscription& to, const HttpRequest& request) const;

  std::map<std::string, Subscription, std::less<>> by_route_;
  IntakeOptions options_;
};

}  // namespace twinbox
