#include <utility>

#include "core/json.hpp"
#include "intake/request.hpp"
#include "twinbox/event.hpp"

namespace twinbox {

InboxIntake::InboxIntake(AcceptCall accept, IntakeOptions options, std::string prefix)
    : accept_(std::move(accept)), options_(std::move(options)), prefix_(std::move(prefix)) {}

HttpResponse InboxIntake::handle(const HttpRequest& request) const {
  return answer_or_problem(options_, "accept", [&] {
    auto pieces = path_pieces(request, prefix_, 2);
    require_post(request, options_);
    auto id = id_of(request);
    if (!id) {
      throw RequestError(400, "there is no id: send the header Idempotency-Key, or ce-id");
    }
    Arrival arrival{.source = Source{std::move(pieces[0])},
                    .id = MessageId{std::move(*id)},
                    .topic = Topic{std::move(pieces[1])},
                    .payload = request.body,
                    .extras = extras_of(request, options_)};
    arrival.extras.hash = ContentHash::of(arrival.payload);
    return accept_and_answer(accept_, arrival);
  });
}

namespace {

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
  return message;
}

}  // namespace

OutboxIntake::OutboxIntake(Outbox& outbox, IntakeOptions options, std::string prefix)
    : outbox_(outbox), options_(std::move(options)), prefix_(std::move(prefix)) {}

HttpResponse OutboxIntake::handle(const HttpRequest& request) const {
  return answer_or_problem(options_, "enqueue", [&] {
    auto pieces = path_pieces(request, prefix_, 1);
    require_post(request, options_);
    Topic topic{std::move(pieces[0])};
    NewMessage message =
        event_mode(request.headers)
            ? event_message(request, options_)
            : NewMessage{
                  .topic = topic, .payload = request.body, .extras = extras_of(request, options_)};
    message.topic = std::move(topic);
    if (auto id = id_of(request)) message.id = MessageId{std::move(*id)};
    const MessageId id = outbox_.enqueue(message);
    std::string body = R"({"state":"enqueued","id":)";
    append_json_string(body, id.view());
    return json_answer(202, body + "}");
  });
}

}  // namespace twinbox
