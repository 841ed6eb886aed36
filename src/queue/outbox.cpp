#include "twinbox/outbox.hpp"

#include "queue/arrivals.hpp"
#include "queue/group_commit.hpp"

namespace twinbox {
namespace {

Incoming incoming(const NewMessage& message, const MessageId& id) {
  return {message.source ? message.source->view() : std::string_view{"-"}, id.view(),
          message.topic.view(), message.payload, &message.extras};
}

/// The message's own id, or a new one.
MessageId id_of(const NewMessage& message, const Environment& environment) {
  return message.id ? *message.id : MessageId::make(environment);
}

void log_enqueue(const Box& box, const Incoming& message) {
  if (!box.logs(LogLevel::info)) return;
  const auto& correlation = message.extras->correlation_id;
  box.log(LogLevel::info, "enqueue",
          {{"topic", message.topic},
           {"id", message.id},
           {"correlation_id", correlation ? correlation->view() : std::string_view{}}});
}

const Addressees& by_topic() {
  static const Addressees addressees{{}};
  return addressees;
}

}  // namespace

class Outbox::Writer : public GroupCommit<Incoming, Accepted> {
 public:
  explicit Writer(Box& box)
      : GroupCommit(
            [&box](std::span<const Incoming> messages) {
              const Transaction each = [&box](const std::function<void(Session&)>& work) {
                box.write([&](Session& session) { return work(session), true; });
              };
              return write_messages(box, each, messages, by_topic());
            },
            512, 4 << 20) {}
};

Outbox::Outbox(Database& database, BoxOptions options)
    : WorkQueue(std::make_unique<Box>(database, BoxKind::outbox, std::move(options))),
      writer_(std::make_unique<Writer>(box())) {}

Outbox::~Outbox() = default;

MessageId Outbox::enqueue(const NewMessage& message) {
  check_extras(message.extras);
  MessageId id = id_of(message, box().environment());
  const Incoming item = incoming(message, id);
  box().database().pool().check_reentry(Access::write);
  writer_->submit(item, message.payload.size());
  box().wake();
  log_enqueue(box(), item);
  return id;
}

std::vector<MessageId> Outbox::enqueue(std::span<const NewMessage> messages) {
  std::vector<MessageId> ids;
  if (messages.empty()) return ids;
  box().own(Access::write, Scope::transaction, [&](Session& session) {
    ids = enqueue(session, messages);
    return true;
  });
  box().wake();
  return ids;
}

MessageId Outbox::enqueue(Session& session, const NewMessage& message) {
  return std::move(enqueue(session, std::span{&message, 1}).front());
}

std::vector<MessageId> Outbox::enqueue(Session& session, std::span<const NewMessage> messages) {
  box().checked(session);
  std::vector<MessageId> ids;
  std::vector<Incoming> items;
  ids.reserve(messages.size());
  items.reserve(messages.size());
  for (const NewMessage& message : messages) {
    check_extras(message.extras);
    ids.push_back(id_of(message, box().environment()));
    items.push_back(incoming(message, ids.back()));
  }
  if (items.empty()) return ids;
  all_or_nothing(session, [&] {
    return write_messages(
        box(), [&](const auto& work) { work(session); }, items, by_topic());
  });
  for (const Incoming& item : items) log_enqueue(box(), item);
  return ids;
}

}  // namespace twinbox
