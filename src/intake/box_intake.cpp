#include <optional>
#include <utility>

#include "core/json.hpp"
#include "intake/request.hpp"
#include "twinbox/error.hpp"
#include "twinbox/event.hpp"

namespace twinbox {
namespace {

/// Reads each request, writes all readable ones at once, and answers each. If writing together
/// fails, they are written one by one, so that no request fails for another one's message. `read` →
/// Item; `write(std::span<const Item>)` → a result for each; `answer(item, result)`.
template <class Read, class Write, class Answer>
std::vector<HttpResponse> handle_batch(const IntakeOptions& options, std::string_view operation,
                                       std::span<const HttpRequest> requests, Read read,
                                       Write write, Answer answer) {
  using Item = decltype(read(requests[0]));
  std::vector<HttpResponse> answers(requests.size());
  std::vector<Item> items;
  std::vector<std::size_t> request_indexes;  // of their requests
  for (std::size_t i = 0; i < requests.size(); ++i) {
    answers[i] = response_or_problem(options, operation, [&] {
      items.push_back(read(requests[i]));
      request_indexes.push_back(i);
      return HttpResponse{};
    });
  }
  /// Empty: they are written and answered.
  const auto write_some = [&](std::size_t from, std::size_t count) -> std::optional<HttpResponse> {
    bool written = false;
    HttpResponse failure = response_or_problem(options, operation, [&] {
      const std::span<const Item> some{items.data() + from, count};
      const auto results = write(some);
      if (results.size() != count) {
        throw std::logic_error("the accept call must give one answer for each arrival");
      }
      for (std::size_t i = 0; i < count; ++i) {
        answers[request_indexes[from + i]] = answer(some[i], results[i]);
      }
      written = true;
      return HttpResponse{};
    });
    if (written) return {};
    return failure;
  };
  if (items.empty()) return answers;
  auto failure = write_some(0, items.size());
  if (!failure) return answers;
  // An unavailable store affects all requests: none of them waits for it again. Otherwise each one
  // is tried alone; an id that was written after all is a duplicate then.
  for (std::size_t i = 0; i < items.size(); ++i) {
    const bool alone = items.size() > 1 && failure->status != 503;
    auto own = alone ? write_some(i, 1) : failure;
    if (!own) continue;
    answers[request_indexes[i]] = *own;
    if (own->status == 503) failure = std::move(own);
  }
  return answers;
}

/// 202 for a new message, 200 for a repetition, 422 for other content under a known key.
HttpResponse enqueued_response(const Enqueued& enqueued) {
  if (enqueued.conflict) {
    HttpResponse answer =
        problem(422, "Unprocessable Content",
                "enqueue: the key is known with another topic or body, and the first message "
                "is kept; send other content under a key of its own");
    answer.body.pop_back();
    answer.body += R"(,"conflict":true,"id":)";
    append_json_string(answer.body, enqueued.id.view());
    answer.body += '}';
    return answer;
  }
  std::string body =
      enqueued.duplicate ? R"({"state":"duplicate","id":)" : R"({"state":"enqueued","id":)";
  append_json_string(body, enqueued.id.view());
  return json_response(enqueued.duplicate ? 200 : 202, body + "}");
}

NewMessage event_message(const HttpRequest& request, const IntakeOptions& options) {
  const auto events = events_from_http(request.headers, request.body, options.max_events);
  if (events.size() != 1) throw RequestError(400, "send one event at a time to the outbox");
  const bool traced = events[0].extension("traceparent").has_value();
  NewMessage message =
      to_message(events[0], properties_of(request, options, {.own = {}, .with_trace = !traced}));
  const MessageExtras own = extras_of(request, options);
  message.extras.due_at = own.due_at;
  if (own.expires_at) message.extras.expires_at = own.expires_at;
  if (own.correlation_id) message.extras.correlation_id = own.correlation_id;
  if (own.partition_key) message.extras.partition_key = own.partition_key;
  check_times(message.extras, options);
  return message;
}

}  // namespace

InboxIntake::InboxIntake(AcceptCall accept, IntakeOptions options, std::string prefix)
    : accept_(std::move(accept)), options_(std::move(options)), prefix_(std::move(prefix)) {}

Arrival InboxIntake::read(const HttpRequest& request) const {
  auto segments = path_segments(request, prefix_, 2);
  require_post(request, options_);
  auto id = id_of(request);
  if (!id) throw RequestError(400, "there is no id: send the header Idempotency-Key, or ce-id");
  Arrival arrival{.source = Source{std::move(segments[0])},
                  .id = MessageId{std::move(*id)},
                  .topic = Topic{std::move(segments[1])},
                  .payload = request.body,
                  .extras = extras_of(request, options_),
                  .on_duplicate = OnDuplicate::keep_first};
  arrival.extras.hash = ContentHash::of(arrival.payload);
  check_source(arrival.source, request, options_);
  return arrival;
}

HttpResponse InboxIntake::handle(const HttpRequest& request) const {
  return std::move(handle(std::span{&request, 1})[0]);
}

std::vector<HttpResponse> InboxIntake::handle(std::span<const HttpRequest> requests) const {
  return handle_batch(
      options_, "accept", requests, [&](const HttpRequest& request) { return read(request); },
      accept_, accepted_response);
}

OutboxIntake::OutboxIntake(Outbox& outbox, IntakeOptions options, std::string prefix)
    : outbox_(outbox), options_(std::move(options)), prefix_(std::move(prefix)) {}

NewMessage OutboxIntake::read(const HttpRequest& request) const {
  auto segments = path_segments(request, prefix_, 1);
  require_post(request, options_);
  Topic topic{std::move(segments[0])};
  NewMessage message =
      content_mode(request.headers)
          ? event_message(request, options_)
          : NewMessage{
                .topic = topic, .payload = request.body, .extras = extras_of(request, options_)};
  message.topic = std::move(topic);
  // Keys of different senders are different keys, whatever source an event has.
  message.source = request.sender.empty() ? Source::none() : Source{request.sender};
  // Set it before the write: a repeated write then finds its own message.
  if (auto id = id_of(request)) message.id = MessageId{std::move(*id)};
  if (!message.id) message.id = MessageId::make(options_.environment);
  return message;
}

HttpResponse OutboxIntake::handle(const HttpRequest& request) const {
  return std::move(handle(std::span{&request, 1})[0]);
}

std::vector<HttpResponse> OutboxIntake::handle(std::span<const HttpRequest> requests) const {
  return handle_batch(
      options_, "enqueue", requests, [&](const HttpRequest& request) { return read(request); },
      [&](std::span<const NewMessage> messages) {
        // A single one shares its commit with other threads.
        return messages.size() == 1 ? std::vector{outbox_.enqueue(messages[0])}
                                    : outbox_.enqueue(messages);
      },
      [](const NewMessage&, const Enqueued& enqueued) { return enqueued_response(enqueued); });
}

}  // namespace twinbox
