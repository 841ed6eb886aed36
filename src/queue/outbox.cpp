#include "twinbox/outbox.hpp"

#include "queue/delay.hpp"
#include "queue/message_writer.hpp"

namespace twinbox {
namespace {

Incoming incoming(const NewMessage& message, const MessageId& id, DueTimes& due_times) {
  return {message.source ? message.source->view() : std::string_view{"-"},
          id.view(),
          message.topic.view(),
          message.payload,
          due_times.of(message.extras),
          !message.id};
}

/// The message's own id, or a new one.
MessageId id_of(const NewMessage& message, const Environment& environment) {
  return message.id ? *message.id : MessageId::make(environment);
}

void log_enqueue(const Box& box, const Incoming& message, const Accepted& accepted) {
  if (accepted.conflict) {
    box.log(LogLevel::warning, "conflict", {{"source", message.source}, {"id", message.id}});
  }
  if (!box.logs(LogLevel::info)) return;
  const auto& correlation = message.extras->correlation_id;
  box.log(LogLevel::info, "enqueue",
          {{"topic", message.topic},
           {"id", message.id},
           {"correlation_id", correlation ? correlation->view() : std::string_view{}},
           {"duplicate", accepted.duplicate()}});
}

/// Messages with their ids, checked.
struct Batch {
  Batch(std::span<const NewMessage> messages, const Box& box, Session* session)
      : due_times(box, session) {
    ids.reserve(messages.size());
    items.reserve(messages.size());
    for (const NewMessage& message : messages) {
      check_extras(message.extras);
      ids.push_back(id_of(message, box.environment()));
      items.push_back(incoming(message, ids.back(), due_times));
    }
  }

  DueTimes due_times;
  std::vector<MessageId> ids;
  std::vector<Incoming> items;
};

/// Logs the result of each, and answers.
std::vector<Enqueued> answer_batch(const Box& box, Batch&& batch,
                                   std::span<const Accepted> answers) {
  std::vector<Enqueued> enqueued;
  enqueued.reserve(answers.size());
  for (std::size_t i = 0; i < answers.size(); ++i) {
    log_enqueue(box, batch.items[i], answers[i]);
    enqueued.push_back({std::move(batch.ids[i]), answers[i].duplicate(), answers[i].conflict});
  }
  return enqueued;
}

std::vector<Accepted> write_batch(Box& box, Session& session, const Batch& batch) {
  return write_messages(
      box, [&](const auto& work) { work(session); }, batch.items, by_topic());
}

}  // namespace

Outbox::Outbox(Database& database, BoxOptions options)
    : WorkQueue(std::make_unique<Box>(database, BoxKind::outbox, std::move(options))),
      writer_(std::make_unique<MessageWriter>(*box_)) {}

Outbox::~Outbox() = default;

Enqueued Outbox::enqueue(const NewMessage& message) {
  check_extras(message.extras);
  MessageId id = id_of(message, box_->environment());
  pool_of(box_->database()).check_reentry(Access::write);
  DueTimes due_times{*box_, nullptr};
  const Incoming item = incoming(message, id, due_times);
  const Accepted accepted = writer_->submit(item, message.payload.size());
  box_->wake();
  log_enqueue(*box_, item, accepted);
  return {std::move(id), accepted.duplicate(), accepted.conflict};
}

std::vector<Enqueued> Outbox::enqueue(std::span<const NewMessage> messages) {
  Batch batch(messages, *box_, nullptr);
  if (messages.empty()) return {};
  const Scope scope = written_at_once(batch.items) ? Scope::statement : Scope::transaction;
  const WriteRefusalReset storing{*box_};
  const std::vector<Accepted> answers = box_->in_own_transaction(
      Access::write, scope, [&](Session& session) { return write_batch(*box_, session, batch); });
  storing.committed(answers);
  box_->wake();
  return answer_batch(*box_, std::move(batch), answers);
}

Enqueued Outbox::enqueue(Session& session, const NewMessage& message) {
  return std::move(enqueue(session, std::span{&message, 1}).front());
}

std::vector<Enqueued> Outbox::enqueue(Session& session, std::span<const NewMessage> messages) {
  box_->require_usable(session);
  Batch batch(messages, *box_, &session);
  if (messages.empty()) return {};
  const std::vector<Accepted> answers =
      all_or_nothing(session, [&] { return write_batch(*box_, session, batch); });
  return answer_batch(*box_, std::move(batch), answers);
}

}  // namespace twinbox
