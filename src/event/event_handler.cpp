#include <charconv>

#include "core/text.hpp"
#include "event/attribute.hpp"
#include "twinbox/event_bus.hpp"

namespace twinbox {
namespace {

constexpr std::size_t max_version_digits = 9;

Outcome call_with_event(const detail::EventHandlerCall& call, const EventFormat& format,
                        Session* session, const Message& message, std::stop_token stop) {
  std::optional<CloudEvent> event;
  try {
    event.emplace(event_of(message, format));
  } catch (const std::exception& error) {
    return Outcome::malformed(error.what());
  }
  return call(session, *event, message, std::move(stop));
}

/// The error of a call; empty: none.
std::string_view error_of(const Outcome& outcome) noexcept {
  return outcome.kind() == Outcome::Kind::retry || outcome.kind() == Outcome::Kind::dead
             ? std::string_view{outcome.reason()}
             : std::string_view{};
}

/// One call inside a span.
template <class Call>
Outcome call_in_span(const Tracing& tracing, const Message& message, Call&& call) {
  const std::optional<TraceContext> parent = trace_of(message);
  const TraceContext context =
      parent ? parent->child(tracing.environment) : TraceContext::start(tracing.environment);
  const auto now = [&] {
    return tracing.environment.now().value_or(
        std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now()));
  };
  const Instant started = now();
  const auto clock = std::chrono::steady_clock::now();
  const auto notify = [&](std::string_view error) {
    if (!tracing.observer) return;
    const auto took =
        std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - clock);
    tracing.observer({context, parent, message, started, took, error});
  };
  const TraceScope scope{context};
  try {
    Outcome outcome = call();
    notify(error_of(outcome));
    return outcome;
  } catch (const std::exception& error) {
    notify(text_of(error));
    throw;
  } catch (...) {
    notify("the handler threw something that is no std::exception");
    throw;
  }
}

}  // namespace

std::string EventName::type() const {
  if (version < 1 || std::to_string(version).size() > max_version_digits) {
    throw EventError("version", std::to_string(version) + ", 1 to 999999999 are allowed");
  }
  std::string type = name + ".v" + std::to_string(version);
  check_not_empty("event name", name, 500);
  check_not_empty("event name with its version", type, 500);
  return type;
}

std::optional<EventName> EventName::of(std::string_view type) {
  const std::size_t dot = type.rfind(".v");
  if (dot == std::string_view::npos || dot == 0) return std::nullopt;
  const std::string_view digits = type.substr(dot + 2);
  if (digits.empty() || digits.size() > max_version_digits || digits.front() == '0') {
    return std::nullopt;
  }
  int version = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), version);
  if (error != std::errc{} || end != digits.data() + digits.size() || version < 1) {
    return std::nullopt;
  }
  return EventName{std::string{type.substr(0, dot)}, version};
}

EventFormat EventFormat::json() {
  return {std::string{event_content_type}, [](const CloudEvent& event) { return to_json(event); },
          [](std::string_view text) { return event_from_stored(text); }};
}

CloudEvent event_of(const Message& message, const EventFormat& format) {
  const bool is_of_format =
      message.content_type && media_type(*message.content_type) == media_type(format.content_type);
  return is_of_format ? format.read(message.payload) : event_of(message);
}

HandlerEntry traced(HandlerEntry entry, Tracing tracing) {
  if (auto* call = std::get_if<MessageHandler>(&entry.call)) {
    entry.call = MessageHandler{[call = std::move(*call), tracing = std::move(tracing)](
                                    const Message& message, std::stop_token stop) {
      return call_in_span(tracing, message, [&] { return call(message, std::move(stop)); });
    }};
  } else if (auto* in_session = std::get_if<TransactionalHandler>(&entry.call)) {
    entry.call =
        TransactionalHandler{[call = std::move(*in_session), tracing = std::move(tracing)](
                                 Session& session, const Message& message, std::stop_token stop) {
          return call_in_span(tracing, message,
                              [&] { return call(session, message, std::move(stop)); });
        }};
  }
  return entry;  // a batch has as many traces as messages, so its handler is left unchanged
}

HandlerEntry detail::make_event_entry(detail::EventHandlerCall call, bool transactional,
                                      EventHandlerOptions event_options, HandlerOptions options) {
  HandlerEntry entry;
  entry.options = std::move(options);
  if (transactional) {
    entry.call =
        TransactionalHandler{[call = std::move(call), format = std::move(event_options.format)](
                                 Session& session, const Message& message, std::stop_token stop) {
          return call_with_event(call, format, &session, message, std::move(stop));
        }};
  } else {
    entry.call = MessageHandler{[call = std::move(call), format = std::move(event_options.format)](
                                    const Message& message, std::stop_token stop) {
      return call_with_event(call, format, nullptr, message, std::move(stop));
    }};
  }
  return traced(std::move(entry), std::move(event_options.tracing));
}

EventHandlers& EventHandlers::add(const EventName& name, HandlerEntry entry) {
  const Topic topic = name.topic();
  handlers_.add(topic, std::move(entry));
  names_.emplace(name, topic);
  return *this;
}

const HandlerEntry* EventHandlers::find(const EventName& name) const {
  const auto found = names_.find(name);
  return found == names_.end() ? nullptr : handlers_.find(HandlerKey::by_topic(), found->second);
}

std::vector<EventName> EventHandlers::names() const {
  std::vector<EventName> all;
  for (const auto& [name, topic] : names_) all.push_back(name);
  return all;
}

}  // namespace twinbox
