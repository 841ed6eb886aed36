// Handlers of events: by name and version, with the envelope or its content, inside a span.
#pragma once

#include <concepts>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "twinbox/error.hpp"
#include "twinbox/event.hpp"
#include "twinbox/handler.hpp"
#include "twinbox/trace.hpp"

namespace twinbox {

/// What an event is called, and in which version: together its type, `order.placed.v2`.
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
  std::function<CloudEvent(std::string_view)> read;  ///< what it throws means malformed

  static EventFormat json();
};

/// As event_of(message), also for envelopes of this format.
CloudEvent event_of(const Message& message, const EventFormat& format);

/// One call of a handler, as a tracer wants it.
struct HandlerSpan {
  TraceContext context;                ///< of this call; current_trace() during it
  std::optional<TraceContext> parent;  ///< of who published the message
  const Message& message;              ///< borrowed
  Instant started;
  Duration took;
  std::string_view error;  ///< empty: it is done
};

/// Around handlers. The observer is told from many threads; it must be short and must not throw.
struct Tracing {
  std::function<void(const HandlerSpan&)> observer = {};
  Environment environment = {};  ///< its chance makes span ids, its clock the times
};

/// The same handler inside a span: a child of the message's trace, or the first of a new one.
HandlerEntry traced(HandlerEntry entry, Tracing tracing = {});

struct EventHandling {
  EventFormat format = EventFormat::json();
  Tracing tracing = {};
};

/// For the library's own parts: what every handler of events becomes.
using EventCall =
    std::function<Outcome(Session*, const CloudEvent&, const Message&, std::stop_token)>;
HandlerEntry event_entry(EventCall call, bool transactional, EventHandling handling,
                         HandlerOptions options);

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
/// HandlerKey{"mail"}, event_handler([](const CloudEvent& event) { … }))`. A damaged envelope is
/// dead, `malformed`.
template <class F>
requires EventCallable<std::decay_t<F>, CloudEvent> HandlerEntry
event_handler(F&& handler, EventHandling handling = {}, HandlerOptions options = {}) {
  using H = std::decay_t<F>;
  return event_entry(
      [h = H{std::forward<F>(handler)}](Session* session, const CloudEvent& event,
                                        const Message& message, std::stop_token stop) mutable {
        return call_event_handler(h, session, event, message, std::move(stop));
      },
      TransactionalEventCallable<H, CloudEvent>, std::move(handling), std::move(options));
}

/// The handler gets the event's data as a T (see Decode); what cannot be read is dead, `malformed`.
template <Decodable T, class F>
requires EventCallable<std::decay_t<F>, T> HandlerEntry event_handler(F&& handler,
                                                                      EventHandling handling = {},
                                                                      HandlerOptions options = {}) {
  using H = std::decay_t<F>;
  return event_entry(
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
      TransactionalEventCallable<H, T>, std::move(handling), std::move(options));
}

/// Who handles which event. A second handler of the same name and version is refused (UsageError).
class EventHandlers {
 public:
  explicit EventHandlers(EventHandling handling = {}) : handling_(std::move(handling)) {}

  template <class F>
  requires EventCallable<std::decay_t<F>, CloudEvent> EventHandlers& on(
      const EventName& name, F&& handler, HandlerOptions options = {}) {
    return add(name, event_handler(std::forward<F>(handler), handling_, std::move(options)));
  }
  template <Decodable T, class F>
  EventHandlers& on(const EventName& name, F&& handler, HandlerOptions options = {}) {
    return add(name, event_handler<T>(std::forward<F>(handler), handling_, std::move(options)));
  }
  EventHandlers& add(const EventName& name, HandlerEntry entry);

  /// Null: nobody.
  [[nodiscard]] const HandlerEntry* find(const EventName& name) const;
  [[nodiscard]] std::vector<EventName> names() const;
  /// For a Dispatcher.
  [[nodiscard]] const Handlers& handlers() const noexcept { return handlers_; }

 private:
  EventHandling handling_;
  std::map<EventName, Topic> names_;
  Handlers handlers_;
};

}  // namespace twinbox
