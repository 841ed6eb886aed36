#include "transport/wire_message.hpp"

#include <algorithm>
#include <array>

#include "core/json.hpp"
#include "event/attribute.hpp"
#include "twinbox/event.hpp"

namespace twinbox {
namespace {

/// The headers of a message's past transport, which do not apply at its destination.
constexpr std::array<std::string_view, 5> hop_headers = {"transport", "http", "rabbitmq", "nats",
                                                         "kafka"};
constexpr std::array<std::string_view, 2> trace_headers = {"traceparent", "tracestate"};

template <std::size_t n>
bool contains(const std::array<std::string_view, n>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

bool is_envelope(const Message& message) {
  return message.content_type && media_type(*message.content_type) == event_content_type;
}

void add_member(std::string& json, std::string_view name, std::string_view value) {
  if (!json.empty() && json.back() != '{') json += ',';
  append_json_string(json, name);
  json += ':';
  json += value;
}

void add_text(std::string& json, std::string_view name, std::string_view text) {
  std::string value;
  append_json_string(value, text);
  add_member(json, name, value);
}

/// The members of the JSON object `headers`, parsed once: every outgoing message needs them.
struct StoredHeaders {
  std::string own;  ///< the message's own ones, as members
  std::string parent, state;

  explicit StoredHeaders(std::string_view headers) {
    const auto parts = split_json_object(headers);
    if (!parts) return;
    for (const JsonPart& part : *parts) {
      const std::string name = unescape_json(part.name).value_or("");
      if (name == trace_headers[0] && parent.empty()) parent = json_string(part.value).value_or("");
      if (name == trace_headers[1] && state.empty()) state = json_string(part.value).value_or("");
      if (name.empty() || contains(hop_headers, name) || contains(trace_headers, name)) continue;
      add_member(own, name, part.value);
    }
  }
};

/// Writes headers in the form of their broker.
class HeaderWriter {
 public:
  HeaderWriter(WireMessage& wire_message, bool percent)
      : wire_message_(wire_message), percent_(percent) {
    wire_message_.wire_headers.reserve(12);
  }

  void add(std::string name, std::string_view value) {
    const bool plain = !percent_ || std::ranges::all_of(value, stays);
    add_plain(std::move(name), plain ? std::string{value} : percent_encode(value, "\"%"));
  }
  void add_plain(std::string name, std::string value) {
    wire_message_.wire_headers.emplace_back(std::move(name), std::move(value));
  }

 private:
  static bool stays(char c) noexcept { return c > 0x20 && c < 0x7F && c != '"' && c != '%'; }

  WireMessage& wire_message_;
  bool percent_;
};

void write_raw(WireMessage& wire_message, HeaderWriter& wire_headers, const Message& message,
               const NativeFields& native) {
  wire_message.body = message.payload;
  wire_message.content_type = message.content_type.value_or("");
  if (!native.id) wire_headers.add("twinbox-id", message.id.view());
  wire_headers.add("twinbox-source", message.source.view());
  if (!native.topic) wire_headers.add("twinbox-topic", message.topic.view());
  if (!native.created_at)
    wire_headers.add_plain("twinbox-created-at", Timestamp{message.created_at}.str());
  if (message.correlation_id)
    wire_headers.add("twinbox-correlation-id", message.correlation_id->view());
  if (message.partition_key)
    wire_headers.add("twinbox-partition-key", message.partition_key->view());
  if (message.expires_at)
    wire_headers.add_plain("twinbox-expires-at", Timestamp{*message.expires_at}.str());
}

void write_binary(WireMessage& wire_message, HeaderWriter& wire_headers, CloudEvent event,
                  const EventHeaderFormat& names) {
  BinaryAttributes attributes = binary_attributes(event);
  for (const auto& [name, value] : attributes.list) {
    wire_headers.add(std::string{names.written} + name, value);
  }
  wire_message.content_type = std::move(attributes.content_type);
  wire_message.body = std::move(event.data);
}

BodyFormat format_of(const Message& message, BodyFormat form) {
  if (form != BodyFormat::automatic) return form;
  return is_envelope(message) ? BodyFormat::binary : BodyFormat::raw;
}

// ---- incoming

/// The attributes of a CloudEvent as HTTP headers, whose parser reads and checks them.
HttpHeaders event_headers(const ReceivedMessage& received, const EventHeaderFormat& events) {
  HttpHeaders headers;
  for (const auto& [name, value] : received.wire_headers) {
    const std::string small = to_lower(name);
    for (const std::string_view prefix : events.read) {
      if (!small.starts_with(prefix)) continue;
      headers.add("ce-" + small.substr(prefix.size()),
                  events.percent ? value : percent_encode(value, "\"%"));
      break;
    }
  }
  if (!received.content_type.empty()) headers.add("Content-Type", received.content_type);
  return headers;
}

class HeaderReader {
 public:
  HeaderReader(const WireHeaders& wire_headers, bool percent)
      : wire_headers_(wire_headers), percent_(percent) {}

  /// Empty: there is none.
  [[nodiscard]] std::string find(std::string_view name) const {
    for (const auto& [key, value] : wire_headers_) {
      if (to_lower(key) == name) return percent_ ? percent_decode_lenient(value) : value;
    }
    return {};
  }

 private:
  const WireHeaders& wire_headers_;
  bool percent_;
};

/// The additional fields of the message, its transport, and its trace.
std::string headers_of(const ReceivedMessage& received, const HeaderReader& wire_headers) {
  std::string json = "{";
  add_text(json, "transport", received.transport);
  if (!received.properties.empty()) add_member(json, received.transport, received.properties);
  const std::string parent = wire_headers.find("traceparent");
  if (const auto trace = TraceContext::parse(parent, wire_headers.find("tracestate"))) {
    add_text(json, "traceparent", trace->traceparent());
    if (!trace->state.empty()) add_text(json, "tracestate", trace->state);
  }
  const StoredHeaders sent{wire_headers.find("twinbox-headers")};
  if (!sent.own.empty()) json += "," + sent.own;
  return json + "}";
}

/// A compressed or encrypted body is none that a handler or an HTTP sink could read. What senders
/// write besides, such as the charset `utf-8`, changes no byte. Several are listed with commas; one
/// library writes `gzip:UTF-8`.
void refuse_encoded(const ReceivedMessage& received) {
  static constexpr std::array<std::string_view, 18> codings = {
      "gzip", "x-gzip", "deflate", "zlib",    "zip",  "br",   "zstd", "compress", "x-compress",
      "lz4",  "snappy", "bzip2",   "x-bzip2", "bzip", "lzma", "xz",   "dcb",      "aes128gcm"};
  const auto refuse = [](std::string_view encoding) {
    const std::string text = to_lower(encoding);
    for (std::string_view rest = text; !rest.empty();) {
      const std::string_view one = rest.substr(0, rest.find_first_of(",: ;"));
      if (contains(codings, one)) {
        throw std::invalid_argument("the body has the content encoding '" + text +
                                    "', which is not decoded here; let its sender publish it "
                                    "without one");
      }
      rest.remove_prefix(std::min(one.size() + 1, rest.size()));
    }
  };
  refuse(received.content_encoding);
  for (const auto& [name, value] : received.wire_headers) {
    if (to_lower(name) == "content-encoding") refuse(value);
  }
}

std::string first_non_empty(std::string header, const std::string& other) {
  return header.empty() ? other : std::move(header);
}

Arrival raw_arrival(ReceivedMessage received, bool percent) {
  const HeaderReader wire_headers{received.wire_headers, percent};
  const std::string id = first_non_empty(wire_headers.find("twinbox-id"), received.id);
  if (id.empty()) {
    throw std::invalid_argument(
        "the delivery has no id, so it could not be told from its repetition; let its sender set a "
        "message id, the header twinbox-id, or send a CloudEvent");
  }
  Arrival arrival{
      .source = Source{first_non_empty(wire_headers.find("twinbox-source"), received.source)},
      .id = MessageId::event_id(id),
      .topic =
          Topic::event_name(first_non_empty(wire_headers.find("twinbox-topic"), received.topic)),
      .payload = {},
      .on_duplicate = OnDuplicate::keep_first};
  MessageExtras& extras = arrival.extras;
  extras.correlation_id = CorrelationId::or_none(
      first_non_empty(wire_headers.find("twinbox-correlation-id"), received.correlation_id));
  const std::string key =
      first_non_empty(wire_headers.find("twinbox-partition-key"), received.partition_key);
  if (!key.empty()) extras.partition_key = PartitionKey{key};
  if (const auto time = Timestamp::parse(wire_headers.find("twinbox-expires-at"))) {
    extras.expires_at = time->instant();
  }
  if (!received.content_type.empty()) extras.content_type = received.content_type;
  extras.headers = headers_of(received, wire_headers);
  arrival.payload = std::move(received.body);
  return arrival;
}

}  // namespace

WireMessage to_wire_message(const Message& message, BodyFormat form,
                            const EventHeaderFormat& events, const NativeFields& native) {
  WireMessage wire_message;
  HeaderWriter wire_headers{wire_message, events.percent};
  switch (format_of(message, form)) {
    case BodyFormat::binary:
      write_binary(wire_message, wire_headers, event_of(message), events);
      break;
    case BodyFormat::structured:
      wire_message.body = to_json(event_of(message));
      wire_message.content_type = std::string{event_content_type} + "; charset=utf-8";
      break;
    case BodyFormat::raw:
    case BodyFormat::automatic: write_raw(wire_message, wire_headers, message, native); break;
  }
  if (message.attempts > 0 || !native.first_attempt)
    wire_headers.add_plain("twinbox-attempt", std::to_string(std::int64_t{message.attempts} + 1));
  const StoredHeaders headers{message.headers ? *message.headers : std::string_view{}};
  if (!headers.own.empty()) wire_headers.add("twinbox-headers", "{" + headers.own + "}");
  auto trace = TraceContext::parse(headers.parent, headers.state);
  if (!trace && is_envelope(message)) trace = trace_of(message);
  if (trace) {
    wire_headers.add_plain("traceparent", trace->traceparent());
    if (!trace->state.empty()) wire_headers.add("tracestate", trace->state);
  }
  return wire_message;
}

Message direct_message(const CloudEvent& event) {
  NewMessage made = to_message(event);
  const Instant now = std::chrono::floor<Duration>(std::chrono::system_clock::now());
  return {.delivery_id = DeliveryId{0},
          .epoch = 0,
          .handler = HandlerKey::by_topic(),
          .attempts = 0,
          .expiries = 0,
          .requeues = 0,
          .visible_at = now,
          .lease_until = now,
          .last_error = {},
          .source = made.source.value_or(Source::none()),
          .id = *made.id,
          .topic = made.topic,
          .payload = std::move(made.payload),
          .content_type = made.extras.content_type,
          .headers = made.extras.headers,
          .correlation_id = made.extras.correlation_id,
          .partition_key = made.extras.partition_key,
          .hash = {},
          .due_at = {},
          .expires_at = made.extras.expires_at,
          .created_at = now,
          .last_seen_at = now,
          .seen_count = 1,
          .content_version = 1};
}

Arrival arrival_of(ReceivedMessage received, const EventHeaderFormat& events) {
  refuse_encoded(received);
  const HttpHeaders headers = event_headers(received, events);
  const auto mode = content_mode(headers);
  if (!mode) return raw_arrival(std::move(received), events.percent);
  if (*mode == ContentMode::batch) {
    throw EventError("Content-Type",
                     "a batch cannot be acknowledged one by one; send its events "
                     "one by one");
  }
  const CloudEvent event = events_from_http(headers, received.body).at(0);
  Arrival arrival =
      to_arrival(event, headers_of(received, {received.wire_headers, events.percent}));
  if (!arrival.extras.partition_key && !received.partition_key.empty()) {
    arrival.extras.partition_key = PartitionKey{received.partition_key};
  }
  return arrival;
}

}  // namespace twinbox
