#include "twinbox/event_bus.hpp"

#include <chrono>
#include <exception>

#include "twinbox/database.hpp"
#include "twinbox/error.hpp"
#include "twinbox/event.hpp"

namespace twinbox {

EventBus::EventBus(Outbox& outbox, EventBusOptions options)
    : outbox_(outbox), options_(std::move(options)) {
  if (!options_.format.write || !options_.format.read || options_.format.content_type.empty()) {
    throw UsageError("event bus: the format lacks content_type, write or read; set all three");
  }
}

EventBus& EventBus::local(const Topic& type, Channels& channels, std::string channel,
                          LocalDestination destination) {
  const Inbox* inbox = channels.inbox_of(channel);
  const std::string what = "event type '" + type.str() + "' for channel '" + channel + "'";
  if (inbox != nullptr && &inbox->database() != &outbox_.database()) {
    throw UsageError(what +
                     ": the channel's inbox is in another database than the outbox, so one "
                     "transaction cannot hold both; let the outbox's dispatcher deliver it");
  }
  if (!local_
           .try_emplace(type.str(),
                        LocalChannel{&channels, std::move(channel), inbox != nullptr, destination})
           .second) {
    throw UsageError(what + ": the type has a local channel already; name each type once");
  }
  return *this;
}

void EventBus::complete(CloudEvent& event) const {
  const Environment& environment = outbox_.database().environment();
  if (event.id.empty()) event.id = MessageId::make(environment).str();
  if (event.source.empty()) event.source = options_.source;
  if (!event.time) {
    event.time = Timestamp{environment.now().value_or(
        std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now()))};
  }
  if (const auto trace = current_trace(); trace && !event.extensions.contains("traceparent")) {
    event.extensions.emplace("traceparent", trace->traceparent());
    event.extensions.erase("tracestate");
    if (!trace->state.empty()) event.extensions.emplace("tracestate", trace->state);
  }
  event.check();
}

const EventBus::LocalChannel* EventBus::find_local(const CloudEvent& event) const {
  const auto found = local_.find(event.type);
  return found == local_.end() ? nullptr : &found->second;
}

NewMessage EventBus::message_of(const CloudEvent& event, const PublishOptions& options) const {
  NewMessage message = to_message(event, options.properties);
  message.payload = options_.format.write(event);
  message.extras.content_type = options_.format.content_type;
  message.extras.due_at = options.due_at;
  return message;
}

Arrival EventBus::arrival_of(const CloudEvent& event, const PublishOptions& options) const {
  NewMessage message = message_of(event, options);
  return {.source = std::move(*message.source),
          .id = std::move(*message.id),
          .topic = std::move(message.topic),
          .payload = std::move(message.payload),
          .extras = std::move(message.extras)};
}

/// The part that belongs to the transaction.
void EventBus::write(Session& session, const CloudEvent& event, const PublishOptions& options) {
  const LocalChannel* local = find_local(event);
  if (local != nullptr && local->has_inbox) {
    local->channels->accept(session, local->channel, arrival_of(event, options));
    if (local->destination == LocalDestination::inbox_only) return;
  }
  outbox_.enqueue(session, message_of(event, options));
}

/// Immediately. An inbox that the caller's transaction may have locked is written inside of it.
void EventBus::send(Session* session, const CloudEvent& event, const PublishOptions& options) {
  const LocalChannel* local = find_local(event);
  if (local != nullptr) {
    if (session != nullptr && local->has_inbox) {
      local->channels->accept(*session, local->channel, arrival_of(event, options));
    } else {
      local->channels->accept(local->channel, arrival_of(event, options));
    }
    if (local->destination == LocalDestination::inbox_only) return;
  }
  if (!options_.transport) {
    throw UsageError("event type '" + event.type +
                     "': published without the outbox, but the bus has no transport; set "
                     "EventBusOptions::transport, or name a local channel");
  }
  options_.transport(event);
}

MessageId EventBus::publish(Session& session, CloudEvent event, const PublishOptions& options) {
  complete(event);
  if (options.use_outbox) {
    write(session, event, options);
  } else {
    send(&session, event, options);
  }
  return MessageId::event_id(std::move(event.id));
}

MessageId EventBus::publish(CloudEvent event, const PublishOptions& options) {
  complete(event);
  const LocalChannel* local = find_local(event);
  if (!options.use_outbox) {
    send(nullptr, event, options);
  } else if (local != nullptr && local->has_inbox &&
             local->destination == LocalDestination::inbox_only) {
    local->channels->accept(local->channel, arrival_of(event, options));
  } else if (local != nullptr && local->has_inbox) {
    outbox_.database().in_transaction([&](Session& session) { write(session, event, options); });
  } else {
    outbox_.enqueue(message_of(event, options));  // shares its commit with others
  }
  return MessageId::event_id(std::move(event.id));
}

void EventBus::in_transaction(const std::function<void(UnitOfWork&)>& work) {
  std::vector<std::pair<CloudEvent, PublishOptions>> direct;
  outbox_.database().in_transaction([&](Session& session) {
    UnitOfWork unit{*this, session};
    work(unit);
    direct = std::move(unit.direct_);
  });
  send_all(direct);
}

void EventBus::send_all(const std::vector<std::pair<CloudEvent, PublishOptions>>& events) {
  std::exception_ptr first;
  for (const auto& [event, options] : events) {
    try {
      send(nullptr, event, options);
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

MessageId UnitOfWork::publish(CloudEvent event, PublishOptions options) {
  if (options.use_outbox) return bus_.publish(session_, std::move(event), options);
  bus_.complete(event);
  MessageId id = MessageId::event_id(event.id);
  direct_.emplace_back(std::move(event), std::move(options));
  return id;
}

void UnitOfWork::committed() { bus_.send_all(std::exchange(direct_, {})); }

}  // namespace twinbox
