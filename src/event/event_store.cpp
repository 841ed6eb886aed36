#include "core/text.hpp"
#include "queue/box.hpp"
#include "queue/claimed.hpp"
#include "twinbox/event_bus.hpp"
#include "twinbox/operations.hpp"

namespace twinbox {
namespace {

MessageExtras extras_of(const EventRecord& event) {
  MessageExtras extras;
  extras.headers = event.extra_properties;
  return extras;
}

Arrival arrival_of(const EventRecord& event) {
  return {event.source, event.id, event.name, event.data, extras_of(event)};
}

StoredEvent stored(const Message& message) {
  return {.event = {message.id, message.topic, message.payload, message.headers, message.source},
          .created_at = message.created_at,
          .retry_count = message.attempts,
          .next_retry_at = message.visible_at,
          .last_error = message.last_error,
          .lease = message.lease()};
}

StoredEvent stored(MessageDetail detail) {
  StoredEvent event{
      .event = {detail.message.id, detail.message.topic.value_or(Topic{"", Unchecked{}}),
                std::move(detail.payload), std::move(detail.headers), detail.message.source},
      .created_at = detail.message.created_at,
      .number = detail.message.number};
  for (const DeliveryView& delivery : detail.deliveries) {
    event.retry_count = std::max(event.retry_count, delivery.attempts);
    event.last_error = delivery.last_error;
    event.next_retry_at = delivery.visible_at;
    event.handled_at = delivery.finished_at;
    if (delivery.state == DeliveryState::done) event.status = EventStatus::processed;
    if (delivery.state == DeliveryState::discarded) event.status = EventStatus::discarded;
  }
  return event;
}

std::optional<StoredEvent> stored(std::optional<MessageDetail> detail) {
  if (!detail) return std::nullopt;
  return stored(std::move(*detail));
}

/// The events that prune would delete at `cutoff`, oldest first.
std::vector<StoredEvent> finished_before(WorkQueue& queue, Session& session, Instant cutoff,
                                         std::int64_t batch) {
  Box& box = box_of(queue);
  std::vector<MessageKey> keys;
  box.run(session, box.sql().prune_pick,
          {{"after_at", std::optional<Instant>{}},
           {"after", 0},
           {"limit", batch},
           {"retention", 0},
           {"dead", Value{false}},
           {"seen", Value{false}},
           {"now", Value{cutoff}}},
          [&](const Row& row) {
            keys.push_back({Source{std::string{row.text(1)}, Unchecked{}},
                            MessageId{std::string{row.text(2)}, Unchecked{}}});
          });
  std::vector<StoredEvent> events;
  Admin admin{queue};
  for (const MessageKey& key : keys) {
    if (auto detail = admin.get(session, key)) events.push_back(stored(std::move(*detail)));
  }
  return events;
}

std::vector<StoredEvent> finished_before(WorkQueue& queue, Instant cutoff, std::int64_t batch) {
  require_limit(batch);
  return box_of(queue).in_own_transaction(Access::write, Scope::transaction, [&](Session& session) {
    return finished_before(queue, session, cutoff, batch);
  });
}

std::vector<std::int64_t> finished_numbers(std::span<const StoredEvent> events) {
  std::vector<std::int64_t> numbers;
  for (const StoredEvent& event : events) {
    if (event.number == 0) {
      throw UsageError("remove: event '" + event.event.id.str() +
                       "' was not handed out for cleanup; only finished events can be removed");
    }
    numbers.push_back(event.number);
  }
  return numbers;
}

/// With a session, all of it in the caller's transaction.
template <class... S>
std::vector<StoredEvent> hand_out(Outbox& outbox, const OwnerToken& owner,
                                  const std::vector<Message>& claimed, int max_retries,
                                  S&... session) {
  std::vector<StoredEvent> events;
  for (const Message& message : claimed) {
    if (message.attempts < max_retries) {
      events.push_back(stored(message));
    } else {
      outbox.fail(session..., owner, message, message.last_error,
                  {.reason = "max_retries", .handler_failed = false});
    }
  }
  return events;
}

/// The error is any text that a handler threw; the reason of an operation must be clean text.
Operation discarding(const EventUpdate& update) {
  const std::string reason = truncate_error(update.error);
  return {.reason = is_blank(reason) ? "discarded" : reason};
}

DeliveryKey delivery_of(const MessageDetail& detail) { return {detail.message.number}; }

template <class... S>
bool discard_event(WorkQueue& queue, const MessageKey& key, const EventUpdate& update,
                   S&... session) {
  Admin admin{queue};
  const auto detail = admin.get(session..., key);
  return detail &&
         admin.discard(session..., std::vector{delivery_of(*detail)}, discarding(update)) > 0;
}

}  // namespace

EventOutboxStore::EventOutboxStore(Outbox& outbox, OwnerToken owner, Duration lease)
    : outbox_(outbox), owner_(owner), lease_(lease) {
  require_lease(lease);
}

void EventOutboxStore::store(const EventRecord& event) {
  outbox_.enqueue({event.name, event.data, event.id, event.source, extras_of(event)});
}

void EventOutboxStore::store(Session& session, const EventRecord& event) {
  outbox_.enqueue(session,
                  NewMessage{event.name, event.data, event.id, event.source, extras_of(event)});
}

std::vector<StoredEvent> EventOutboxStore::unprocessed(std::int64_t batch, int max_retries) {
  return hand_out(outbox_, owner_, outbox_.claim(owner_, lease_, batch), max_retries);
}

std::vector<StoredEvent> EventOutboxStore::unprocessed(Session& session, std::int64_t batch,
                                                       int max_retries) {
  return all_or_nothing(box_of(outbox_).require_usable(session), [&] {
    return hand_out(outbox_, owner_, outbox_.claim(session, owner_, lease_, batch), max_retries,
                    session);
  });
}

std::vector<StoredEvent> EventOutboxStore::processed(Instant cutoff, std::int64_t batch) {
  return finished_before(outbox_, cutoff, batch);
}

std::vector<StoredEvent> EventOutboxStore::processed(Session& session, Instant cutoff,
                                                     std::int64_t batch) {
  require_limit(batch);
  return finished_before(outbox_, box_of(outbox_).require_usable(session), cutoff, batch);
}

bool EventOutboxStore::update(const StoredEvent& event, const EventUpdate& update) {
  if (!event.lease || update.status == EventStatus::discarded) {
    return box_of(outbox_).in_own_transaction(
        Access::write, Scope::transaction,
        [&](Session& session) { return this->update(session, event, update); });
  }
  if (update.status == EventStatus::processed) return outbox_.ack(owner_, *event.lease) > 0;
  return outbox_.abandon(owner_, *event.lease, update.error, update.retry_after) > 0;
}

bool EventOutboxStore::update(Session& session, const StoredEvent& event,
                              const EventUpdate& update) {
  if (!event.lease)
    throw UsageError("update: only an event that unprocessed() handed out can be updated");
  if (update.status == EventStatus::processed)
    return outbox_.ack(session, owner_, *event.lease) > 0;
  if (update.status == EventStatus::pending)
    return outbox_.abandon(session, owner_, *event.lease, update.error, update.retry_after) > 0;
  return all_or_nothing(box_of(outbox_).require_usable(session), [&] {
    // Only the holder of the event may end it.
    return outbox_.release(session, owner_, *event.lease) > 0 &&
           discard_event(outbox_, {event.event.source, event.event.id}, update, session);
  });
}

std::size_t EventOutboxStore::remove(std::span<const StoredEvent> events) {
  return Admin{outbox_}.prune(finished_numbers(events));
}

std::size_t EventOutboxStore::remove(Session& session, std::span<const StoredEvent> events) {
  return Admin{outbox_}.prune(session, finished_numbers(events));
}

EventInboxStore::EventInboxStore(Inbox& inbox, OwnerToken owner, Duration lease)
    : inbox_(inbox), owner_(owner), lease_(lease) {
  require_lease(lease);
}

bool EventInboxStore::has_processed(const MessageId& id, const Source& source) {
  return inbox_.has_processed({source, id});
}

bool EventInboxStore::has_processed(Session& session, const MessageId& id, const Source& source) {
  return inbox_.has_processed(session, {source, id});
}

void EventInboxStore::mark_processed(const EventRecord& event) {
  inbox_.mark_processed(arrival_of(event));
}

void EventInboxStore::mark_processed(Session& session, const EventRecord& event) {
  inbox_.mark_processed(session, arrival_of(event));
}

std::optional<StoredEvent> EventInboxStore::get(const MessageId& id, const Source& source) {
  return stored(Admin{inbox_}.get(MessageKey{source, id}));
}

std::optional<StoredEvent> EventInboxStore::get(Session& session, const MessageId& id,
                                                const Source& source) {
  return stored(Admin{inbox_}.get(session, MessageKey{source, id}));
}

void EventInboxStore::insert(const EventRecord& event) { inbox_.accept(arrival_of(event)); }

void EventInboxStore::insert(Session& session, const EventRecord& event) {
  inbox_.accept(session, arrival_of(event));
}

bool EventInboxStore::update(const EventRecord& event, const EventUpdate& update) {
  const MessageKey key{event.source, event.id};
  if (update.status == EventStatus::processed) return inbox_.mark_processed(key);
  if (update.status == EventStatus::discarded) return discard_event(inbox_, key, update);
  return box_of(inbox_).in_own_transaction(
      Access::write, Scope::transaction,
      [&](Session& session) { return this->update(session, event, update); });
}

bool EventInboxStore::update(Session& session, const EventRecord& event,
                             const EventUpdate& update) {
  const MessageKey key{event.source, event.id};
  if (update.status == EventStatus::processed) return inbox_.mark_processed(session, key);
  Box& box = box_of(inbox_);
  return all_or_nothing(box.require_usable(session), [&] {
    if (update.status == EventStatus::discarded) return discard_event(inbox_, key, update, session);
    inbox_.accept(session, arrival_of(event));
    // A failure counts whenever it happens, also while the event waits for its next retry.
    std::vector<Message> held;
    box.run(session, box.sql().claim_message,
            {{"owner", Value{owner_.uuid()}},
             {"lease", micros(lease_)},
             {"source", event.source.view()},
             {"message_id", event.id.view()},
             {"due_only", Value{false}},
             box.now()},
            [&](const Row& row) { held.push_back(read_claimed(row)); });
    return inbox_.abandon(session, owner_, held, update.error, update.retry_after) > 0;
  });
}

std::vector<StoredEvent> EventInboxStore::for_cleanup(Instant cutoff, std::int64_t batch) {
  return finished_before(inbox_, cutoff, batch);
}

std::vector<StoredEvent> EventInboxStore::for_cleanup(Session& session, Instant cutoff,
                                                      std::int64_t batch) {
  require_limit(batch);
  return finished_before(inbox_, box_of(inbox_).require_usable(session), cutoff, batch);
}

std::size_t EventInboxStore::remove(std::span<const StoredEvent> events) {
  return Admin{inbox_}.prune(finished_numbers(events));
}

std::size_t EventInboxStore::remove(Session& session, std::span<const StoredEvent> events) {
  return Admin{inbox_}.prune(session, finished_numbers(events));
}

}  // namespace twinbox
