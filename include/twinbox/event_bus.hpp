// The event bus: events by name and version, published in the transaction of what they tell about.
#pragma once

#include <concepts>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "twinbox/channel.hpp"
#include "twinbox/event.hpp"
#include "twinbox/event_handler.hpp"
#include "twinbox/outbox.hpp"

namespace twinbox {

/// A T that can be published: it knows its name (`static EventName event_name()`) and how it is
/// written (Encode).
template <class T>
concept Publishable = Encodable<T> && requires {
  { T::event_name() } -> std::convertible_to<EventName>;
};

/// The event that says `content`, JSON unless Encode names another `content_type`; the bus adds its
/// id, source and time.
template <Publishable T>
CloudEvent event_from(const T& content) {
  CloudEvent event{.id = {}, .source = {}, .type = T::event_name().type()};
  std::string content_type = "application/json";
  if constexpr (requires { std::string{Encode<T>::content_type}; }) {
    content_type = std::string{Encode<T>::content_type};
  }
  event.set_data(Encode<T>::to(content), std::move(content_type));
  return event;
}

struct EventBusOptions {
  std::string source = {};                   ///< of events that bring none
  EventFormat format = EventFormat::json();  ///< how envelopes are stored
  /// Sends an event at once, for publish without the outbox. What it throws, publish throws.
  std::function<void(const CloudEvent&)> transport = {};
};

struct PublishOptions {
  /// False: sent at once. The event may be LOST when the process or the receiver fails, and is sent
  /// even if the transaction is rolled back. (Not so where a local channel has an inbox.)
  bool use_outbox = true;
  std::string properties = {};            ///< a JSON object that rides along; see property_of
  std::optional<InstantArg> due_at = {};  ///< with the outbox: not earlier
};

/// Where an event for a channel of this process goes.
enum class LocalReach {
  inbox_only,
  inbox_and_outbox,  ///< others want it too
};

/// Described first (local), then used: thread-safe from then on. Every publish fills in what the
/// event lacks: a UUID v7 as its id, the source, the time, the trace of this thread
/// (current_trace). Throws EventError, DatabaseError.
class EventBus {
 public:
  /// `outbox` must outlive it.
  explicit EventBus(Outbox& outbox, EventBusOptions options = {});

  /// The shortcut: events of this type go straight to the channel's inbox, in the transaction they
  /// are published in. The inbox must be in the outbox's database. A channel without an inbox gets
  /// what is published without the outbox, and calls its handlers at once. Throws UsageError.
  EventBus& local(const Topic& type, Channels& channels, std::string channel,
                  LocalReach reach = LocalReach::inbox_only);

  /// In the caller's transaction. The event's id is the answer.
  MessageId publish(Session& session, CloudEvent event, const PublishOptions& options = {});
  /// In a transaction of its own; durable once it returns.
  MessageId publish(CloudEvent event, const PublishOptions& options = {});
  template <Publishable T>
  MessageId publish(Session& session, const T& content, const PublishOptions& options = {}) {
    return publish(session, event_from(content), options);
  }
  template <Publishable T>
  MessageId publish(const T& content, const PublishOptions& options = {}) {
    return publish(event_from(content), options);
  }

  /// Runs `work` in one transaction of the outbox's database: what it writes and what it publishes
  /// are committed together when it returns, or not at all when it throws.
  void in_transaction(const std::function<void(class UnitOfWork&)>& work);

  [[nodiscard]] Outbox& outbox() const noexcept { return outbox_; }

 private:
  friend class UnitOfWork;
  struct Local {
    Channels* channels;
    std::string channel;
    bool has_inbox;
    LocalReach reach;
  };
  void complete(CloudEvent& event) const;
  [[nodiscard]] const Local* local_of(const CloudEvent& event) const;
  void write(Session& session, const CloudEvent& event, const PublishOptions& options);
  void send(Session* session, const CloudEvent& event, const PublishOptions& options);
  void send_all(const std::vector<std::pair<CloudEvent, PublishOptions>>& events);
  [[nodiscard]] NewMessage message_of(const CloudEvent& event, const PublishOptions& options) const;
  [[nodiscard]] Arrival arrival_of(const CloudEvent& event, const PublishOptions& options) const;

  Outbox& outbox_;
  EventBusOptions options_;
  std::map<std::string, Local, std::less<>> local_;
};

/// Business writes and events in one transaction of the caller's. Not thread-safe.
class UnitOfWork {
 public:
  /// `session` has the transaction, which the caller ends.
  UnitOfWork(EventBus& bus, Session& session) : bus_(bus), session_(session) {}
  UnitOfWork(const UnitOfWork&) = delete;
  UnitOfWork& operator=(const UnitOfWork&) = delete;

  [[nodiscard]] Session& session() const noexcept { return session_; }
  /// Without the outbox: kept until committed(), and forgotten if that never comes.
  MessageId publish(CloudEvent event, PublishOptions options = {});
  template <Publishable T>
  MessageId publish(const T& content, PublishOptions options = {}) {
    return publish(event_from(content), std::move(options));
  }
  /// The caller has committed: sends what does not use the outbox. Throws what the first failed
  /// one threw, after the others have been sent.
  void committed();

 private:
  friend class EventBus;
  EventBus& bus_;
  Session& session_;
  std::vector<std::pair<CloudEvent, PublishOptions>> direct_;
};

}  // namespace twinbox
