#include "queue/box.hpp"
#include "twinbox/outbox.hpp"

namespace twinbox {

OutboxStore::OutboxStore(Outbox& outbox, OwnerToken owner, Duration lease)
    : outbox_(outbox), owner_(owner), lease_(lease) {
  require_lease(lease);
}

std::vector<Message> OutboxStore::claim_due(std::int64_t limit) {
  return outbox_.claim(owner_, lease_, limit);
}

std::vector<Message> OutboxStore::claim_due(Session& session, std::int64_t limit) {
  return outbox_.claim(session, owner_, lease_, limit);
}

bool OutboxStore::mark_dispatched(DeliveryId id) { return outbox_.ack(owner_, id) > 0; }

bool OutboxStore::mark_dispatched(Session& session, DeliveryId id) {
  return outbox_.ack(session, owner_, id) > 0;
}

bool OutboxStore::reschedule(DeliveryId id, Duration delay, std::string_view last_error) {
  return outbox_.abandon(owner_, id, last_error, delay) > 0;
}

bool OutboxStore::reschedule(Session& session, DeliveryId id, Duration delay,
                             std::string_view last_error) {
  return outbox_.abandon(session, owner_, id, last_error, delay) > 0;
}

bool OutboxStore::fail(DeliveryId id, std::string_view last_error) {
  return outbox_.fail(owner_, id, last_error) > 0;
}

bool OutboxStore::fail(Session& session, DeliveryId id, std::string_view last_error) {
  return outbox_.fail(session, owner_, id, last_error) > 0;
}

}  // namespace twinbox
