#include "core/json.hpp"
#include "core/text.hpp"
#include "event/attribute.hpp"
#include "twinbox/event.hpp"

namespace twinbox {
namespace {

/// `properties` with the event's trace context, unless they have one.
std::optional<std::string> headers_of(const CloudEvent& event, std::string_view properties) {
  if (!properties.empty() && !is_json_object(properties)) {
    throw EventError("properties", "not a JSON object; pass one such as {\"tenant\":\"a\"}");
  }
  std::string own;
  for (const std::string_view name : {"traceparent", "tracestate"}) {
    const auto value = event.extension(name);
    if (!value || json_object_has(properties, "traceparent")) continue;
    own += own.empty() ? "" : ",";
    append_json_string(own, name);
    own += ':';
    append_json_string(own, *value);
  }
  if (own.empty()) {
    if (properties.empty()) return std::nullopt;
    return std::string{properties};
  }
  if (properties.empty()) return "{" + own + "}";
  const std::size_t inside = properties.find('{') + 1;
  const bool empty = properties.find_first_not_of(" \t\r\n", inside) == properties.rfind('}');
  return "{" + own + (empty ? "" : ",") + std::string{properties.substr(inside)};
}

/// Turns the error of an id type into one that names the attribute.
template <class Make>
auto attribute(const char* name, Make make) {
  try {
    return make();
  } catch (const EventError&) {
    throw;
  } catch (const std::invalid_argument& error) {
    const std::string_view text = error.what();  // begins with the name of the type
    const std::size_t why = text.find(": ");
    throw EventError(name, std::string{text.substr(why == text.npos ? 0 : why + 2)});
  }
}

MessageExtras extras_of(const CloudEvent& event, std::string_view properties) {
  MessageExtras extras;
  extras.content_type = event_content_type;
  extras.headers = headers_of(event, properties);
  if (auto key = event.extension("partitionkey")) {
    extras.partition_key = attribute("partitionkey", [&] { return PartitionKey{*key}; });
  }
  if (auto id = event.extension("correlationid")) {
    extras.correlation_id = attribute("correlationid", [&] { return CorrelationId::or_none(*id); });
  }
  if (const auto text = event.extension("expirytime")) {
    const auto time = Timestamp::parse(*text);
    if (!time) {
      throw EventError("expirytime", "not an RFC 3339 time; write it like 2018-04-05T17:31:00Z");
    }
    extras.expires_at = time->instant();
  }
  return extras;
}

/// A name that may contain characters that an attribute may not: they become %XX.
std::string clean(std::string_view text, bool as_uri) {
  try {
    check_string("", text);
    if (!as_uri || is_uri(text, false)) return std::string{text};
  } catch (const EventError&) {  // encoded below
  }
  return percent_encode(text, as_uri ? "\"%<>\\^`{|}" : "%");
}

void add_header_context(CloudEvent& event, const Message& message) {
  const auto trace = trace_of(message);
  if (!trace) return;
  event.extensions.emplace("traceparent", trace->traceparent());
  if (!trace->state.empty()) event.extensions.emplace("tracestate", trace->state);
}

CloudEvent wrap(const Message& message) {
  CloudEvent event{.id = clean(message.id.view(), false),
                   .source = clean(message.source.view(), true),
                   .type = clean(message.topic.view(), false)};
  event.time = Timestamp{message.created_at};
  if (message.content_type && is_media_type(*message.content_type)) {
    event.datacontenttype = message.content_type;
  }
  if (!message.payload.empty()) {
    event.data = message.payload;
    event.data_kind =
        event.datacontenttype ? data_kind_of(*event.datacontenttype) : DataKind::binary;
    const bool as_announced = event.data_kind == DataKind::json   ? is_json(event.data)
                              : event.data_kind == DataKind::text ? !find_invalid_utf8(event.data)
                                                                  : true;
    if (!as_announced) event.data_kind = DataKind::binary;
  }
  if (message.partition_key) {
    event.extensions.emplace("partitionkey", clean(message.partition_key->view(), false));
  }
  if (message.correlation_id) {
    event.extensions.emplace("correlationid", clean(message.correlation_id->view(), false));
  }
  add_header_context(event, message);
  return event;
}

bool is_envelope(const Message& message) {
  return message.content_type && media_type(*message.content_type) == event_content_type;
}

}  // namespace

NewMessage to_message(const CloudEvent& event, std::string_view properties) {
  std::string envelope = to_json(event);
  return {.topic = Topic::event_name(event.type),
          .payload = std::move(envelope),
          .id = MessageId::event_id(event.id),
          .source = attribute("source", [&] { return Source{event.source}; }),
          .extras = extras_of(event, properties)};
}

Arrival to_arrival(const CloudEvent& event, std::string_view properties) {
  std::string envelope = to_json(event);
  return {.source = attribute("source", [&] { return Source{event.source}; }),
          .id = MessageId::event_id(event.id),
          .topic = Topic::event_name(event.type),
          .payload = std::move(envelope),
          .extras = extras_of(event, properties),
          .on_duplicate = OnDuplicate::keep_first};
}

CloudEvent event_of(const Message& message) {
  return is_envelope(message) ? event_from_stored(message.payload) : wrap(message);
}

std::optional<std::string> property_of(const Message& message, std::string_view name) {
  if (!message.headers) return std::nullopt;
  const auto parts = split_json_object(*message.headers);
  if (!parts) return std::nullopt;
  for (const JsonPart& part : *parts) {
    if (unescape_json(part.name) != name) continue;
    if (part.value.starts_with('"')) return json_string(part.value);
    return std::string{part.value};
  }
  return std::nullopt;
}

std::optional<TraceContext> trace_of(const Message& message) {
  if (const auto parent = property_of(message, "traceparent")) {
    if (auto context =
            TraceContext::parse(*parent, property_of(message, "tracestate").value_or(""))) {
      return context;
    }
  }
  if (!is_envelope(message)) return std::nullopt;
  try {
    const CloudEvent event = event_from_json(message.payload);
    const auto parent = event.extension("traceparent");
    if (!parent) return std::nullopt;
    return TraceContext::parse(*parent, event.extension("tracestate").value_or(""));
  } catch (const EventError&) {
    return std::nullopt;
  }
}

}  // namespace twinbox
