#include "transport/parcel.hpp"

#include <algorithm>
#include <array>

#include "core/json.hpp"
#include "event/attribute.hpp"
#include "twinbox/trace.hpp"

namespace twinbox {
namespace {

/// How a message came here, which says nothing about it where it goes.
constexpr std::array<std::string_view, 5> of_this_place = {"transport", "http", "rabbitmq", "nats",
                                                           "kafka"};
constexpr std::array<std::string_view, 2> of_the_trace = {"traceparent", "tracestate"};

template <std::size_t n>
bool contains(const std::array<std::string_view, n>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

char lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; }

std::string lower(std::string_view text) {
  std::string out{text};
  std::ranges::transform(out, out.begin(), [](char c) { return lower(c); });
  return out;
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

/// The members of the JSON object `headers`, read once: every message that goes out needs them.
struct Headers {
  std::string own;  ///< what they say about the message itself, as members
  std::string parent, state;

  explicit Headers(std::string_view headers) {
    const auto parts = split_json_object(headers);
    if (!parts) return;
    for (const JsonPart& part : *parts) {
      const std::string name = unescape_json(part.name).value_or("");
      if (name == of_the_trace[0] && parent.empty()) parent = json_string(part.value).value_or("");
      if (name == of_the_trace[1] && state.empty()) state = json_string(part.value).value_or("");
      if (name.empty() || contains(of_this_place, name) || contains(of_the_trace, name)) continue;
      add_member(own, name, part.value);
    }
  }
};

/// Writes labels as their broker wants them.
class LabelWriter {
 public:
  LabelWriter(Parcel& parcel, bool percent) : parcel_(parcel), percent_(percent) {
    parcel_.labels.reserve(12);
  }

  void add(std::string name, std::string_view value) {
    const bool plain = !percent_ || std::ranges::all_of(value, stays);
    add_plain(std::move(name), plain ? std::string{value} : percent_encode(value, "\"%"));
  }
  void add_plain(std::string name, std::string value) {
    parcel_.labels.emplace_back(std::move(name), std::move(value));
  }

 private:
  static bool stays(char c) noexcept { return c > 0x20 && c < 0x7F && c != '"' && c != '%'; }

  Parcel& parcel_;
  bool percent_;
};

void write_raw(Parcel& parcel, LabelWriter& labels, const Message& message, const Said& said) {
  parcel.body = message.payload;
  parcel.content_type = message.content_type.value_or("");
  if (!said.id) labels.add("twinbox-id", message.id.view());
  labels.add("twinbox-source", message.source.view());
  if (!said.topic) labels.add("twinbox-topic", message.topic.view());
  if (!said.created_at) labels.add_plain("twinbox-created-at", Timestamp{message.created_at}.str());
  if (message.correlation_id) labels.add("twinbox-correlation-id", message.correlation_id->view());
  if (message.partition_key) labels.add("twinbox-partition-key", message.partition_key->view());
  if (message.expires_at)
    labels.add_plain("twinbox-expires-at", Timestamp{*message.expires_at}.str());
}

void write_binary(Parcel& parcel, LabelWriter& labels, CloudEvent event, const EventLabels& names) {
  BinaryAttributes attributes = binary_attributes(event);
  for (const auto& [name, value] : attributes.list) {
    labels.add(std::string{names.written} + name, value);
  }
  parcel.content_type = std::move(attributes.content_type);
  parcel.body = std::move(event.data);
}

BodyForm form_of(const Message& message, BodyForm form) {
  if (form != BodyForm::automatic) return form;
  return is_envelope(message) ? BodyForm::binary : BodyForm::raw;
}

// ---- what arrives

int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (lower(c) >= 'a' && lower(c) <= 'f') return lower(c) - 'a' + 10;
  return -1;
}

std::string percent_decode(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const int high = text[at] == '%' && at + 2 < text.size() ? hex_digit(text[at + 1]) : -1;
    const int low = high < 0 ? -1 : hex_digit(text[at + 2]);
    if (low < 0) {
      out += text[at];
      continue;
    }
    out += static_cast<char>(high * 16 + low);
    at += 2;
  }
  return out;
}

/// The attributes of a CloudEvent, as HTTP would bring them: there they are read and checked.
HttpHeaders event_headers(const Delivered& delivered, const EventLabels& events) {
  HttpHeaders headers;
  for (const auto& [name, value] : delivered.labels) {
    const std::string small = lower(name);
    for (const std::string_view prefix : events.read) {
      if (!small.starts_with(prefix)) continue;
      headers.add("ce-" + small.substr(prefix.size()),
                  events.percent ? value : percent_encode(value, "\"%"));
      break;
    }
  }
  if (!delivered.content_type.empty()) headers.add("Content-Type", delivered.content_type);
  return headers;
}

class LabelReader {
 public:
  LabelReader(const Labels& labels, bool percent) : labels_(labels), percent_(percent) {}

  /// Empty: there is none.
  [[nodiscard]] std::string find(std::string_view name) const {
    for (const auto& [key, value] : labels_) {
      if (lower(key) == name) return percent_ ? percent_decode(value) : value;
    }
    return {};
  }

 private:
  const Labels& labels_;
  bool percent_;
};

/// What the message says besides, how it came, and its trace.
std::string headers_of(const Delivered& delivered, const LabelReader& labels) {
  std::string json = "{";
  add_text(json, "transport", delivered.transport);
  if (!delivered.properties.empty()) add_member(json, delivered.transport, delivered.properties);
  const std::string parent = labels.find("traceparent");
  if (const auto trace = TraceContext::parse(parent, labels.find("tracestate"))) {
    add_text(json, "traceparent", trace->traceparent());
    if (!trace->state.empty()) add_text(json, "tracestate", trace->state);
  }
  const Headers sent{labels.find("twinbox-headers")};
  if (!sent.own.empty()) json += "," + sent.own;
  return json + "}";
}

std::string first_of(std::string label, const std::string& other) {
  return label.empty() ? other : std::move(label);
}

Arrival raw_arrival(Delivered delivered, bool percent) {
  const LabelReader labels{delivered.labels, percent};
  const std::string id = first_of(labels.find("twinbox-id"), delivered.id);
  if (id.empty()) {
    throw std::invalid_argument(
        "the delivery has no id, so it could not be told from its repetition; let its sender set a "
        "message id, the header twinbox-id, or send a CloudEvent");
  }
  Arrival arrival{
      .source = Source{first_of(labels.find("twinbox-source"), delivered.source)},
      .id = MessageId::event_id(id),
      .topic = Topic::event_name(first_of(labels.find("twinbox-topic"), delivered.topic)),
      .payload = {},
      .on_duplicate = OnDuplicate::keep_first};
  MessageExtras& extras = arrival.extras;
  extras.correlation_id = CorrelationId::or_none(
      first_of(labels.find("twinbox-correlation-id"), delivered.correlation_id));
  const std::string key = first_of(labels.find("twinbox-partition-key"), delivered.partition_key);
  if (!key.empty()) extras.partition_key = PartitionKey{key};
  if (const auto time = Timestamp::parse(labels.find("twinbox-expires-at"))) {
    extras.expires_at = time->instant();
  }
  if (!delivered.content_type.empty()) extras.content_type = delivered.content_type;
  extras.headers = headers_of(delivered, labels);
  arrival.payload = std::move(delivered.body);
  return arrival;
}

}  // namespace

Parcel parcel_of(const Message& message, BodyForm form, const EventLabels& events,
                 const Said& said) {
  Parcel parcel;
  LabelWriter labels{parcel, events.percent};
  switch (form_of(message, form)) {
    case BodyForm::binary: write_binary(parcel, labels, event_of(message), events); break;
    case BodyForm::structured:
      parcel.body = to_json(event_of(message));
      parcel.content_type = std::string{event_content_type} + "; charset=utf-8";
      break;
    case BodyForm::raw:
    case BodyForm::automatic: write_raw(parcel, labels, message, said); break;
  }
  if (message.attempts > 0 || !said.first_attempt)
    labels.add_plain("twinbox-attempt", std::to_string(std::int64_t{message.attempts} + 1));
  const Headers headers{message.headers ? *message.headers : std::string_view{}};
  if (!headers.own.empty()) labels.add("twinbox-headers", "{" + headers.own + "}");
  auto trace = TraceContext::parse(headers.parent, headers.state);
  if (!trace && is_envelope(message)) trace = trace_of(message);
  if (trace) {
    labels.add_plain("traceparent", trace->traceparent());
    if (!trace->state.empty()) labels.add("tracestate", trace->state);
  }
  return parcel;
}

Message direct_message(const CloudEvent& event) {
  NewMessage made = to_message(event);
  const Instant now = std::chrono::floor<Duration>(std::chrono::system_clock::now());
  return {.work_id = WorkId{0},
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

Arrival arrival_of(Delivered delivered, const EventLabels& events) {
  const HttpHeaders headers = event_headers(delivered, events);
  const auto mode = event_mode(headers);
  if (!mode) return raw_arrival(std::move(delivered), events.percent);
  if (*mode == EventMode::batch) {
    throw EventError("Content-Type",
                     "a batch cannot be acknowledged one by one; send its events "
                     "one by one");
  }
  const CloudEvent event = events_from_http(headers, delivered.body).at(0);
  Arrival arrival = to_arrival(event, headers_of(delivered, {delivered.labels, events.percent}));
  if (!arrival.extras.partition_key && !delivered.partition_key.empty()) {
    arrival.extras.partition_key = PartitionKey{delivered.partition_key};
  }
  return arrival;
}

}  // namespace twinbox
