// The event bus: events by name and version, published in the transaction of the change that they
// announce.
#pragma once

#include <concepts>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "twinbox/channel.hpp"
#include "twinbox/error.hpp"
#include "twinbox/event.hpp"
#include "twinbox/handler.hpp"
#include "twinbox/inbox.hpp"
#include "twinbox/outbox.hpp"

namespace twinbox {

// Handlers of events: by name and version, with the envelope or its content, inside a span.

/// The name and the version of an event: together its type, `order.placed.v2`.
struct EventName {
  std::string name;
  int version = 1;  ///< 1 to 999'999'999

  /// `name.v1`, at most 500 characters. Throws EventError.
  [[nodiscard]] std::string type() const;
  [[nodiscard]] Topic topic() const { return Topic::event_name(type()); }
  /// Empty: the type has no version.
  static std::optional<EventName> of(std::string_view type);

  auto operator<=>(const EventName&) const = default;
};

/// How envelopes are written into a store and read from it.
struct EventFormat {
  std::string content_type;
  std::function<std::string(const CloudEvent&)> write;
  std::function<CloudEvent(std::string_view)> read;  ///< an exception means malformed

  static EventFormat json();
};

/// As event_of(message), also for envelopes of this format.
CloudEvent event_of(const Message& message, const EventFormat& format);

/// One call of a handler, for a tracer.
struct HandlerSpan {
  TraceContext context;                ///< of this call; current_trace() during it
  std::optional<TraceContext> parent;  ///< of the message's publisher
  const Message& message;              ///< borrowed
  Instant started;
  Duration took;
  std::string_view error;  ///< empty: it succeeded
};

/// Called around handlers, from many threads; the observer must be short and must not throw.
struct Tracing {
  std::function<void(const HandlerSpan&)> observer = {};
  Environment environment = {};  ///< its randomness makes span ids, its clock the times
};

/// The same handler inside a span: a child of the message's trace, or the first of a new one.
HandlerEntry traced(HandlerEntry entry, Tracing tracing = {});

struct EventHandlerOptions {
  EventFormat format = EventFormat::json();
  Tracing tracing = {};
};

namespace detail {
/// Every event handler becomes one of these.
using EventHandlerCall =
    std::function<Outcome(Session*, const CloudEvent&, const Message&, std::stop_token)>;
HandlerEntry make_event_entry(EventHandlerCall call, bool transactional,
                              EventHandlerOptions event_options, HandlerOptions options);
}  // namespace detail

template <class F, class C>
concept TransactionalEventCallable = std::invocable<F&, Session&, const C&> ||
    std::invocable<F&, Session&, const C&, const Message&>;
/// A callable of (const C&), (const C&, const Message&), (const C&, const Message&,
/// std::stop_token) or, transactional, (Session&, const C&) and (Session&, const C&, const
/// Message&), which returns Outcome or void. C is CloudEvent or the content.
template <class F, class C>
concept EventCallable =
    std::invocable<F&, const C&> || std::invocable<F&, const C&, const Message&> ||
    std::invocable<F&, const C&, const Message&, std::stop_token> ||
    TransactionalEventCallable<F, C>;

template <class C, class F>
Outcome call_event_handler(F& f, Session* session, const C& content, const Message& message,
                           std::stop_token stop) {
  const auto call = [&]() -> decltype(auto) {
    if constexpr (std::invocable<F&, Session&, const C&, const Message&>) {
      return f(*session, content, message);
    } else if constexpr (std::invocable<F&, Session&, const C&>) {
      return f(*session, content);
    } else if constexpr (std::invocable<F&, const C&, const Message&, std::stop_token>) {
      return f(content, message, std::move(stop));
    } else if constexpr (std::invocable<F&, const C&, const Message&>) {
      return f(content, message);
    } else {
      return f(content);
    }
  };
  if constexpr (std::is_void_v<decltype(call())>) {
    call();
    return Outcome::done();
  } else {
    return call();
  }
}

/// A handler for Handlers::add or Channel::add: `channel.add(EventName{"order.placed"}.topic(),
/// HandlerKey{"mail"}, event_handler([](const CloudEvent& event) { … }))`. A damaged envelope
/// becomes a dead letter, `malformed`.
template <class F>
requires EventCallable<std::decay_t<F>, CloudEvent> HandlerEntry
event_handler(F&& handler, EventHandlerOptions event_options = {}, HandlerOptions options = {}) {
  using H = std::decay_t<F>;
  return detail::make_event_entry(
      [h = H{std::forward<F>(handler)}](Session* session, const CloudEvent& event,
                                        const Message& message, std::stop_token stop) mutable {
        return call_event_handler(h, session, event, message, std::move(stop));
      },
      TransactionalEventCallable<H, CloudEvent>, std::move(event_options), std::move(options));
}

/// The handler gets the event's data as a T (see Decode); unreadable data becomes a dead letter,
/// `malformed`.
template <Decodable T, class F>
requires EventCallable<std::decay_t<F>, T> HandlerEntry
event_handler(F&& handler, EventHandlerOptions event_options = {}, HandlerOptions options = {}) {
  using H = std::decay_t<F>;
  return detail::make_event_entry(
      [h = H{std::forward<F>(handler)}](Session* session, const CloudEvent& event,
                                        const Message& message, std::stop_token stop) mutable {
        std::optional<T> content;
        try {
          content.emplace(Decode<T>::from(event.data));
        } catch (const std::exception& error) {
          return Outcome::malformed(std::string{text_of(error)});
        } catch (...) {
          return Outcome::malformed("the data cannot be decoded");
        }
        return call_event_handler(h, session, *content, message, std::move(stop));
      },
      TransactionalEventCallable<H, T>, std::move(event_options), std::move(options));
}

/// The handlers of events. A second handler of the same name and version is refused (UsageError).
class EventHandlers {
 public:
  explicit EventHandlers(EventHandlerOptions event_options = {})
      : options_(std::move(event_options)) {}

  template <class F>
  requires EventCallable<std::decay_t<F>, CloudEvent> EventHandlers& on(
      const EventName& name, F&& handler, HandlerOptions options = {}) {
    return add(name, event_handler(std::forward<F>(handler), options_, std::move(options)));
  }
  template <Decodable T, class F>
  EventHandlers& on(const EventName& name, F&& handler, HandlerOptions options = {}) {
    return add(name, event_handler<T>(std::forward<F>(handler), options_, std::move(options)));
  }
  EventHandlers& add(const EventName& name, HandlerEntry entry);

  /// Null: no handler.
  [[nodiscard]] const HandlerEntry* find(const EventName& name) const;
  [[nodiscard]] std::vector<EventName> names() const;
  /// For a Dispatcher.
  [[nodiscard]] const Handlers& handlers() const noexcept { return handlers_; }

 private:
  EventHandlerOptions options_;
  std::map<EventName, Topic> names_;
  Handlers handlers_;
};

/// A T that can be published: it has a name (`static EventName event_name()`) and an encoding
/// (Encode).
template <class T>
concept Publishable = Encodable<T> && requires {
  { T::event_name() } -> std::convertible_to<EventName>;
};

/// The event with `content` as its data, JSON unless Encode names another `content_type`; the bus
/// adds id, source and time.
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
  std::string source = {};                   ///< of events without a source
  EventFormat format = EventFormat::json();  ///< how envelopes are stored
  /// Sends an event immediately, for publish without the outbox. publish() throws its exceptions.
  std::function<void(const CloudEvent&)> transport = {};
};

struct PublishOptions {
  /// False: sent immediately. The event may be LOST when the process or the receiver fails, and is
  /// sent even if the transaction is rolled back. (Not so where a local channel has an inbox.)
  bool use_outbox = true;
  std::string properties = {};  ///< a JSON object that is added to the headers; see property_of
  std::optional<InstantArg> due_at = {};  ///< with the outbox: not earlier
};

/// Where an event for a channel of this process goes.
enum class LocalDestination {
  inbox_only,
  inbox_and_outbox,  ///< other processes receive it too
};

/// Describe it first (local), then use it: thread-safe from then on. Every publish fills in missing
/// fields: a UUID v7 as the id, the source, the time, and the trace of this thread (current_trace).
/// Throws EventError, DatabaseError.
class EventBus {
 public:
  /// `outbox` must outlive it.
  explicit EventBus(Outbox& outbox, EventBusOptions options = {});

  /// A shortcut: events of this type go directly to the channel's inbox, in the transaction that
  /// publishes them. The inbox must be in the outbox's database. A channel without an inbox
  /// receives events published without the outbox, and calls its handlers immediately. Throws
  /// UsageError.
  EventBus& local(const Topic& type, Channels& channels, std::string channel,
                  LocalDestination destination = LocalDestination::inbox_only);

  /// In your transaction. Returns the event's id.
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

  /// Runs `work` in one transaction of the outbox's database: its writes and its events are
  /// committed together when it returns, or not at all when it throws.
  void in_transaction(const std::function<void(class UnitOfWork&)>& work);

  [[nodiscard]] Outbox& outbox() const noexcept { return outbox_; }

 private:
  friend class UnitOfWork;
  struct LocalChannel {
    Channels* channels;
    std::string channel;
    bool has_inbox;
    LocalDestination destination;
  };
  void complete(CloudEvent& event) const;
  [[nodiscard]] const LocalChannel* find_local(const CloudEvent& event) const;
  void write(Session& session, const CloudEvent& event, const PublishOptions& options);
  void send(Session* session, const CloudEvent& event, const PublishOptions& options);
  void send_all(const std::vector<std::pair<CloudEvent, PublishOptions>>& events);
  [[nodiscard]] NewMessage message_of(const CloudEvent& event, const PublishOptions& options) const;
  [[nodiscard]] Arrival arrival_of(const CloudEvent& event, const PublishOptions& options) const;

  Outbox& outbox_;
  EventBusOptions options_;
  std::map<std::string, LocalChannel, std::less<>> local_;
};

/// Business writes and events in one transaction of yours. Not thread-safe.
class UnitOfWork {
 public:
  /// `session` has the transaction; you end it.
  UnitOfWork(EventBus& bus, Session& session) : bus_(bus), session_(session) {}
  UnitOfWork(const UnitOfWork&) = delete;
  UnitOfWork& operator=(const UnitOfWork&) = delete;

  [[nodiscard]] Session& session() const noexcept { return session_; }
  /// Without the outbox: kept until committed(), and dropped if you never call it.
  MessageId publish(CloudEvent event, PublishOptions options = {});
  template <Publishable T>
  MessageId publish(const T& content, PublishOptions options = {}) {
    return publish(event_from(content), std::move(options));
  }
  /// Call it after your commit: sends the events that do not use the outbox. Throws the first
  /// error, after the other events have been sent.
  void committed();

 private:
  friend class EventBus;
  EventBus& bus_;
  Session& session_;
  std::vector<std::pair<CloudEvent, PublishOptions>> direct_;
};

// Outbox and inbox as the stores of an event bus: events under names of up to 500 characters, ids
// of up to 256.

/// An event to store.
struct EventRecord {
  MessageId id;                                      ///< MessageId::event_id
  Topic name;                                        ///< Topic::event_name
  std::string data;                                  ///< the serialised envelope
  std::optional<std::string> extra_properties = {};  ///< a JSON object
  Source source = Source::none();
};

enum class EventStatus { pending, processed, discarded };

/// A stored event.
struct StoredEvent {
  EventRecord event;
  EventStatus status = EventStatus::pending;
  Instant created_at;
  std::optional<Instant> handled_at = {};
  int retry_count = 0;
  std::optional<Instant> next_retry_at = {};
  std::string last_error = {};
  std::optional<Lease> lease = {};  ///< set by EventOutboxStore::unprocessed: update needs it
  std::int64_t number = 0;          ///< remove needs it
};

/// The outcome of a claimed event.
struct EventUpdate {
  EventStatus status = EventStatus::pending;  ///< pending: retry it
  std::string error = {};
  std::optional<Duration> retry_after = {};  ///< empty: by the retry policy
};

/// Thread-safe. `outbox` must outlive it. With a leading Session a call is part of your
/// transaction.
class EventOutboxStore {
 public:
  EventOutboxStore(Outbox& outbox, OwnerToken owner, Duration lease = std::chrono::seconds{30});

  void store(const EventRecord& event);
  void store(Session& session, const EventRecord& event);
  /// Leases up to `batch` due events. An event that has failed `max_retries` times becomes dead
  /// instead.
  std::vector<StoredEvent> unprocessed(std::int64_t batch, int max_retries);
  std::vector<StoredEvent> unprocessed(Session& session, std::int64_t batch, int max_retries);
  /// Events that were finished before `cutoff`, oldest first.
  std::vector<StoredEvent> processed(Instant cutoff, std::int64_t batch);
  std::vector<StoredEvent> processed(Session& session, Instant cutoff, std::int64_t batch);
  /// False: this worker no longer holds the event.
  bool update(const StoredEvent& event, const EventUpdate& update);
  bool update(Session& session, const StoredEvent& event, const EventUpdate& update);
  /// Deletes finished events. Returns how many.
  std::size_t remove(std::span<const StoredEvent> events);
  std::size_t remove(Session& session, std::span<const StoredEvent> events);

 private:
  Outbox& outbox_;
  OwnerToken owner_;
  Duration lease_;
};

/// Thread-safe. `inbox` must outlive it. With a leading Session a call is part of your transaction.
class EventInboxStore {
 public:
  EventInboxStore(Inbox& inbox, OwnerToken owner, Duration lease = std::chrono::seconds{30});

  bool has_processed(const MessageId& id, const Source& source = Source::none());
  bool has_processed(Session& session, const MessageId& id, const Source& source = Source::none());
  void mark_processed(const EventRecord& event);
  void mark_processed(Session& session, const EventRecord& event);
  std::optional<StoredEvent> get(const MessageId& id, const Source& source = Source::none());
  std::optional<StoredEvent> get(Session& session, const MessageId& id,
                                 const Source& source = Source::none());
  /// Stores an event that has not been handled yet.
  void insert(const EventRecord& event);
  void insert(Session& session, const EventRecord& event);
  /// Processed and discarded are final, even for an event that a worker holds. Pending stores an
  /// unknown event, counts a failure and sets the next retry. False: the event is finished, leased
  /// by a worker, or (for processed and discarded) unknown.
  bool update(const EventRecord& event, const EventUpdate& update);
  bool update(Session& session, const EventRecord& event, const EventUpdate& update);
  /// Events that were processed or discarded before `cutoff`, oldest first.
  std::vector<StoredEvent> for_cleanup(Instant cutoff, std::int64_t batch);
  std::vector<StoredEvent> for_cleanup(Session& session, Instant cutoff, std::int64_t batch);
  std::size_t remove(std::span<const StoredEvent> events);
  std::size_t remove(Session& session, std::span<const StoredEvent> events);

 private:
  Inbox& inbox_;
  OwnerToken owner_;
  Duration lease_;
};

}  // namespace twinbox
