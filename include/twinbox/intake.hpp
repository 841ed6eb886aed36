// Requests become messages: the parts that every intake is made of, and the two plain intakes. No
// sockets: mount them in whatever server you have, or build endpoints of your own from the parts.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "twinbox/channel.hpp"
#include "twinbox/environment.hpp"
#include "twinbox/http.hpp"
#include "twinbox/inbox.hpp"
#include "twinbox/outbox.hpp"

namespace twinbox {

/// Takes arrivals, an answer each; durable once it returns. May throw a RequestError for what is to
/// be refused for good: the source of a broker makes a dead letter of it.
using AcceptCall = std::function<std::vector<Accepted>(std::span<const Arrival>)>;

/// All or none of them. `inbox` must outlive the call. One duty per handler, or one by topic.
AcceptCall accept_into(Inbox& inbox, std::vector<HandlerName> handlers = {});
/// One after the other. `channels` must outlive the call and be checked before the first request.
AcceptCall accept_into(Channels& channels, std::string channel);

struct IntakeOptions {
  std::size_t max_body = 16U << 20U;  ///< larger ones are refused with 413
  std::size_t max_events = 1000;      ///< in one batch
  /// Request headers that are kept with the message, as its header `http`.
  std::vector<std::string> keep_headers = {};
  /// What senders are told to wait while the store cannot take anything.
  std::chrono::seconds retry_after{5};
  /// Sources that belong to webhook endpoints or brokers: every other sender that names one gets
  /// 403. A webhook endpoint keeps its own.
  std::set<std::string, std::less<>> reserved_sources = {};
  /// How far ahead the due time of a message with a partition key may lie: until it is due, every
  /// later message of its key waits.
  std::chrono::seconds max_keyed_delay = std::chrono::hours{24};
  Environment environment = {};  ///< clock and log
};

/// The request cannot be taken as it is. The text goes to the sender: what is wrong, the way out.
class RequestError : public std::runtime_error {
 public:
  RequestError(int status, const std::string& detail)
      : std::runtime_error(detail), status_(status) {}
  [[nodiscard]] int status() const noexcept { return status_; }

 private:
  int status_;
};

/// Answers with what `work` returns, or with a problem document for what it throws: RequestError
/// with its status, a wrong argument with 400, a store that cannot take it now with 503 and
/// Retry-After, data that the store refuses with 422, everything else with 500. The reasons of the
/// last three go to the log as `intake_error` with `act`, not to the sender.
HttpResponse answer_or_problem(const IntakeOptions& options, std::string_view act,
                               const std::function<HttpResponse()>& work);

/// Throws RequestError: 405 for another method, 413 for a body above the limit, 415 for one with a
/// Content-Encoding.
void require_post(const HttpRequest& request, const IntakeOptions& options);

/// The pieces of the request's path behind `prefix`, percent-decoded. Throws RequestError: 404
/// unless there are exactly `count`, 400 for an escape that is none.
std::vector<std::string> path_pieces(const HttpRequest& request, std::string_view prefix,
                                     std::size_t count);

/// What comes with the message: `Content-Type`, `Twinbox-Due` and `Twinbox-Expires` (RFC 3339),
/// `Twinbox-Correlation-Id`, `Twinbox-Partition-Key`, the trace context, the kept headers, and
/// `http` as the name of the transport. Throws RequestError naming the header. An expiry that has
/// passed by this machine's clock is refused, as is a due time beyond `max_keyed_delay` of a
/// message with a partition key; once stored, the database's clock decides.
MessageExtras extras_of(const HttpRequest& request, const IntakeOptions& options);

/// 202 for what is new, 200 for a duplicate or a conflict. The body says `state`, `source`, `id`
/// and `conflict`.
HttpResponse accepted_answer(const Arrival& arrival, const Accepted& accepted);

/// Accepts one arrival and answers. The first message of an id stays, whatever the arrival's
/// `on_duplicate` says.
HttpResponse accept_and_answer(const AcceptCall& accept, Arrival arrival);

/// `POST <prefix>/{source}/{topic}`: the body is the payload, `Idempotency-Key` or `ce-id` its id.
/// The first message of an id stays (OnDuplicate::keep_first), as with all intakes.
/// Thread-safe, as all intakes are.
class InboxIntake {
 public:
  explicit InboxIntake(AcceptCall accept, IntakeOptions options = {},
                       std::string prefix = "/v1/inbox");
  [[nodiscard]] HttpResponse handle(const HttpRequest& request) const;
  /// Requests that came together share a transaction; each has an answer of its own.
  [[nodiscard]] std::vector<HttpResponse> handle(std::span<const HttpRequest> requests) const;

 private:
  [[nodiscard]] Arrival read(const HttpRequest& request) const;

  AcceptCall accept_;
  IntakeOptions options_;
  std::string prefix_;
};

/// `POST <prefix>/{topic}`: the body is the payload, or a CloudEvent, which is then stored as an
/// envelope. The message's source is the request's sender, `-` without one. With an
/// `Idempotency-Key` or `ce-id` a repeated request is harmless: 202 for what is new, 200 for the
/// same once more, 422 for a known key with another topic or payload. All of them name the id.
class OutboxIntake {
 public:
  /// `outbox` must outlive it.
  explicit OutboxIntake(Outbox& outbox, IntakeOptions options = {},
                        std::string prefix = "/v1/outbox");
  [[nodiscard]] HttpResponse handle(const HttpRequest& request) const;
  /// Requests that came together share a transaction; each has an answer of its own.
  [[nodiscard]] std::vector<HttpResponse> handle(std::span<const HttpRequest> requests) const;

 private:
  [[nodiscard]] NewMessage read(const HttpRequest& request) const;

  Outbox& outbox_;
  IntakeOptions options_;
  std::string prefix_;
};

}  // namespace twinbox
