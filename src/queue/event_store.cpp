#include "twinbox/event_store.hpp"

#include "core/text.hpp"
#include "queue/box.hpp"
#include "queue/claimed.hpp"
#include "twinbox/admin.hpp"

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
      .event = {detail.message.id, detail.message.topic.value_or(Topic{"", Trusted{}}),
                std::move(detail.payload), std::move(detail.headers), detail.message.source},
      .created_at = detail.message.created_at,
      .number = detail.message.number};
  for (const DutyView& duty : detail.duties) {
    event.retry_count = std::max(event.retry_count, duty.attempts);
    event.last_error = duty.last_error;
    event.next_retry_at = duty.visible_at;
    event.handled_at = duty.finished_at;
    if (duty.state == DutyState::done) event.status = EventStatus::processed;
    if (duty.state == DutyState::discarded) event.status = EventStatus::discarded;
  }
  return event;
}

/// What prune would delete at `cutoff`, oldest first.
std::vector<StoredEvent> finished_before(WorkQueue& queue, Instant cutoff, std::int64_t batch) {
  require_limit(batch);
  Box& box = queue.box();
  const std::vector<MessageKey> keys =
      box.own(Access::write, Scope::statement, [&](Session& session) {
        std::vector<MessageKey> found;
        box.run(session, box.sql().prune_pick,
                {{"after", 0},
                 {"below", INT64_MAX},
                 {"limit", batch},
                 {"retention", 0},
                 {"dead", Value{false}},
                 {"seen", Value{false}},
                 {"now", Value{cutoff}}},
                [&](const Row& row) {
                  found.push_back({Source{std::string{row.text(1)}, Trusted{}},
                                   MessageId{std::string{row.text(2)}, Trusted{}}});
                });
        return found;
      });
  std::vector<StoredEvent> events;
  Admin admin{queue};
  for (const MessageKey& key : keys) {
    if (auto detail = admin.get(key)) events.push_back(stored(std::move(*detail)));
  }
  return events;
}

std::size_t remove_finished(WorkQueue& queue, std::span<const StoredEvent> events) {
  std::vector<std::int64_t> numbers;
  for (const StoredEvent& event : events) {
    if (event.number == 0) {
      throw UsageError("remove: event '" + event.event.id.str() +
                       "' was not handed out for cleanup; only finished events can be removed");
    }
    numbers.push_back(event.number);
  }
  return Admin{queue}.prune(numbers);
}

/// The error is whatever a handler threw; why an act was done must be clean text.
Act discarding(const EventUpdate& update) {
  const std::string reason = cut_error(update.error);
  return {.reason = is_blank(reason) ? "discarded" : reason};
}

DutyKey duty_of(const MessageDetail& detail) { return {detail.message.number}; }

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
  std::vector<StoredEvent> events;
  std::vector<Message> spent;
  for (Message& message : outbox_.claim(owner_, lease_, batch)) {
    if (message.attempts >= max_retries) {
      spent.push_back(std::move(message));
    } else {
      events.push_back(stored(message));
    }
  }
  for (const Message& message : spent) {
    outbox_.fail(owner_, message, message.last_error,
                 {.reason = "max_retries", .handler_failed = false});
  }
  return events;
}

std::vector<StoredEvent> EventOutboxStore::processed(Instant cutoff, std::int64_t batch) {
  return finished_before(outbox_, cutoff, batch);
}

bool EventOutboxStore::update(const StoredEvent& event, const EventUpdate& update) {
  if (!event.lease)
    throw UsageError("update: only an event that unprocessed() handed out can be updated");
  switch (update.status) {
    case EventStatus::processed: return outbox_.ack(owner_, *event.lease) > 0;
    case EventStatus::pending:
      return outbox_.abandon(owner_, *event.lease, update.error, update.retry_after) > 0;
    case EventStatus::discarded: break;
  }
  Admin admin{outbox_};
  const auto detail = admin.get(MessageKey{event.event.source, event.event.id});
  if (!detail) return false;
  const DutyKey duty = duty_of(*detail);
  const Act act = discarding(update);
  return outbox_.box().own(Access::write, Scope::transaction, [&](Session& session) {
    // Only who holds the event may give it up.
    return outbox_.release(session, owner_, *event.lease) > 0 &&
           admin.discard(session, std::span{&duty, 1}, act) > 0;
  });
}

std::size_t EventOutboxStore::remove(std::span<const StoredEvent> events) {
  return remove_finished(outbox_, events);
}

EventInboxStore::EventInboxStore(Inbox& inbox, OwnerToken owner, Duration lease)
    : inbox_(inbox), owner_(owner), lease_(lease) {
  require_lease(lease);
}

bool EventInboxStore::has_processed(const MessageId& id, const Source& source) {
  return inbox_.has_processed({source, id});
}

void EventInboxStore::mark_processed(const EventRecord& event) {
  inbox_.mark_processed(arrival_of(event));
}

std::optional<StoredEvent> EventInboxStore::get(const MessageId& id, const Source& source) {
  auto detail = Admin{inbox_}.get(MessageKey{source, id});
  if (!detail) return std::nullopt;
  return stored(std::move(*detail));
}

void EventInboxStore::insert(const EventRecord& event) { inbox_.accept(arrival_of(event)); }

bool EventInboxStore::update(const EventRecord& event, const EventUpdate& update) {
  const MessageKey key{event.source, event.id};
  if (update.status == EventStatus::processed) return inbox_.mark_processed(key);
  if (update.status == EventStatus::discarded) {
    Admin admin{inbox_};
    const auto detail = admin.get(key);
    return detail && admin.discard(std::vector{duty_of(*detail)}, discarding(update)) > 0;
  }
  Box& box = inbox_.box();
  return box.own(Access::write, Scope::transaction, [&](Session& session) {
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

std::size_t EventInboxStore::remove(std::span<const StoredEvent> events) {
  return remove_finished(inbox_, events);
}

}  // namespace twinbox
