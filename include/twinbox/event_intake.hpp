// Events in over HTTP: CloudEvents into an inbox, events by name and version, a sidecar's topics.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "twinbox/event.hpp"
#include "twinbox/event_handler.hpp"
#include "twinbox/intake.hpp"
#include "twinbox/observer.hpp"

namespace twinbox {

/// `POST <path>`: CloudEvents 1.0, binary, structured or as a batch, which is taken as a whole
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

/// Takes one arrival and answers; throws what answer_or_problem knows.
using AnswerCall = std::function<HttpResponse(const Arrival&)>;

/// Durable, then 202; a dispatcher handles it.
AnswerCall accept_mode(AcceptCall accept);

struct InlineOptions {
  /// Renewed while the handler works: so long nobody else takes it after a crash.
  Duration lease = std::chrono::seconds{30};
  std::chrono::seconds retry_after{5};  ///< while somebody else handles it
  DispatchObserver observer = {};
  FailureHook on_failure = {};  ///< may replace the outcome of a failed call
  /// Once requested, handlers that run are told to stop. What they do not finish is released and
  /// answered 503.
  std::stop_token stop = {};
};

/// Durable, then handled in the request, with the handler's guarantee: 200 when it is done, 500
/// when the handler failed (the inbox has the error, the attempts and the next retry; Retry-After
/// says when), 422 when it can never succeed and is dead now, 503 while it waits for its retry or
/// somebody else handles it. A finished duplicate answers 200 without a call. So does an event
/// whose id is known with other content (`conflict`): no handler is called and the stored message
/// stays as it is. A dispatcher with the same handlers may retry beside it. `inbox` must outlive
/// the call.
AnswerCall inline_mode(Inbox& inbox, Handlers handlers, InlineOptions options = {});

/// `POST <prefix>/{name}/v{version}`: one CloudEvent. The path names the handler, whatever the
/// event's type says: it is stored under the topic `{name}.v{version}`. Unknown: 404.
class NamedEventIntake {
 public:
  NamedEventIntake(const std::vector<EventName>& names, AnswerCall take, IntakeOptions options = {},
                   std::string prefix = "/events");
  [[nodiscard]] HttpResponse handle(const HttpRequest& request) const;

 private:
  [[nodiscard]] EventName name_in(const HttpRequest& request) const;

  std::set<EventName> names_;
  AnswerCall take_;
  IntakeOptions options_;
  std::string prefix_;
};

/// A topic that a sidecar delivers.
struct Subscription {
  std::string pubsub;                ///< the sidecar's name for its broker
  std::string topic;                 ///< the broker's
  std::string route;                 ///< a path of this server
  AnswerCall take;                   ///< accept_mode or inline_mode
  std::optional<Topic> stored = {};  ///< the topic it is stored under; empty: the broker's
};

/// What Dapr wants of an application: `GET /dapr/subscribe` lists the subscriptions, and a delivery
/// answers `{"status":"SUCCESS"}`, also for duplicates; `RETRY` when it is to be delivered again,
/// also when another configuration would take it (`sidecar_retry` in the log); `DROP` when it is no
/// event, or can never succeed (`sidecar_drop`).
class SidecarIntake {
 public:
  /// Throws std::invalid_argument when a route is no path or is there twice.
  explicit SidecarIntake(std::vector<Subscription> subscriptions, IntakeOptions options = {});
  [[nodiscard]] HttpResponse handle(const HttpRequest& request) const;

 private:
  [[nodiscard]] HttpResponse list() const;
  [[nodiscard]] HttpResponse deliver(const Subscription& to, const HttpRequest& request) const;

  std::map<std::string, Subscription, std::less<>> by_route_;
  IntakeOptions options_;
};

}  // namespace twinbox
