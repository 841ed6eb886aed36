#include "transport/rabbitmq/wire.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "core/json.hpp"
#include "core/text.hpp"
#include "transport/rabbitmq/topology.hpp"

namespace twinbox::rabbitmq {
namespace {

/// Of a short string, as AMQP has them for properties and routing keys.
constexpr std::size_t short_limit = 255;
constexpr std::size_t name_limit = 128;
/// Properties must fit into one frame; half of one leaves room for what the broker adds.
constexpr std::size_t labels_limit = 60'000;
constexpr int depth_limit = 8;
constexpr std::uint8_t persistent = 2;

std::string if_short(std::string_view text) {
  return text.size() <= short_limit ? std::string{text} : std::string{};
}

amqp_table_entry_t text_entry(std::string_view name, std::string_view value) {
  amqp_table_entry_t entry{};
  entry.key = bytes_of(name);
  entry.value.kind = AMQP_FIELD_KIND_UTF8;
  entry.value.value.bytes = bytes_of(value);
  return entry;
}

amqp_table_entry_t number_entry(std::string_view name, std::uint64_t value) {
  amqp_table_entry_t entry{};
  entry.key = bytes_of(name);
  entry.value.kind = AMQP_FIELD_KIND_I64;
  entry.value.value.i64 = static_cast<std::int64_t>(value);
  return entry;
}

void set_text(amqp_basic_properties_t& properties, amqp_bytes_t& property, amqp_flags_t flag,
              std::string_view value) {
  if (value.empty()) return;
  property = bytes_of(value);
  properties._flags |= flag;
}

void set_headers(amqp_basic_properties_t& properties, std::vector<amqp_table_entry_t>& entries) {
  properties.headers = {static_cast<int>(entries.size()), entries.data()};
  properties._flags |= AMQP_BASIC_HEADERS_FLAG;
}

/// Into one frame, which is all that properties get.
bool fits(const Connection& connection, amqp_basic_properties_t& properties) {
  constexpr std::size_t around = 20;  // what a frame and a header need besides
  std::string room(static_cast<std::size_t>(amqp_get_frame_max(connection.state())) - around, '\0');
  return amqp_encode_properties(AMQP_BASIC_CLASS, &properties, bytes_of(room)) >= 0;
}

void send(Connection& connection, std::string_view exchange, std::string_view routing_key,
          const amqp_basic_properties_t& properties, amqp_bytes_t body) {
  connection.check(amqp_basic_publish(connection.state(), Connection::channel, bytes_of(exchange),
                                      bytes_of(routing_key), 1, 0, &properties, body),
                   "publishing");
}

/// A value in a property needs no header: the broker reads and stores every header.
void drop_repeated(Outgoing& out, int attempts) {
  std::erase_if(out.wire_message.wire_headers, [&](const auto& header) {
    const std::string& name = header.first;
    if (name == "twinbox-id") return !out.message_id.empty();
    if (name == "twinbox-topic") return !out.type.empty();
    if (name == "twinbox-correlation-id") return !out.correlation_id.empty();
    if (name == "twinbox-attempt") return attempts == 0;
    return name == "twinbox-created-at";
  });
}

// ---- incoming

/// The shortest text that is this number again; empty: it is none.
template <class Number>
std::optional<std::string> floating_text(Number value) {
  if (!std::isfinite(value)) return {};
  std::array<char, 32> room{};
  const auto end = std::to_chars(room.data(), room.data() + room.size(), value).ptr;
  return std::string{room.data(), end};
}

/// As written: 1999 with two places is 19.99.
std::string decimal_text(const amqp_decimal_t& decimal) {
  std::string text = std::to_string(decimal.value);
  const std::size_t places = decimal.decimals;
  if (places == 0) return text;
  if (text.size() <= places) text.insert(0, places + 1 - text.size(), '0');
  return text.insert(text.size() - places, ".");
}

std::optional<std::string> number_text(const amqp_field_value_t& field) {
  switch (field.kind) {
    case AMQP_FIELD_KIND_I8: return std::to_string(field.value.i8);
    case AMQP_FIELD_KIND_U8: return std::to_string(field.value.u8);
    case AMQP_FIELD_KIND_I16: return std::to_string(field.value.i16);
    case AMQP_FIELD_KIND_U16: return std::to_string(field.value.u16);
    case AMQP_FIELD_KIND_I32: return std::to_string(field.value.i32);
    case AMQP_FIELD_KIND_U32: return std::to_string(field.value.u32);
    case AMQP_FIELD_KIND_I64: return std::to_string(field.value.i64);
    case AMQP_FIELD_KIND_U64:
    case AMQP_FIELD_KIND_TIMESTAMP: return std::to_string(field.value.u64);
    case AMQP_FIELD_KIND_F32: return floating_text(field.value.f32);
    case AMQP_FIELD_KIND_F64: return floating_text(field.value.f64);
    case AMQP_FIELD_KIND_DECIMAL: return decimal_text(field.value.decimal);
    case AMQP_FIELD_KIND_BOOLEAN: return field.value.boolean != 0 ? "true" : "false";
    default: return {};
  }
}

/// RFC 3339, as attributes of events are written; the number itself beyond the year 9999.
std::string time_text(std::uint64_t seconds) {
  constexpr std::uint64_t last = 253'402'300'799;
  if (seconds > last) return std::to_string(seconds);
  return Timestamp{Instant{std::chrono::seconds{static_cast<std::int64_t>(seconds)}}}.str();
}

/// The canonical text of a native value, for attributes; empty: it has none.
std::optional<std::string> field_text(const amqp_field_value_t& field) {
  if (field.kind == AMQP_FIELD_KIND_TIMESTAMP) return time_text(field.value.u64);
  if (field.kind == AMQP_FIELD_KIND_UTF8 || field.kind == AMQP_FIELD_KIND_BYTES) {
    return std::string{view_of(field.value.bytes)};
  }
  return number_text(field);
}

void append_json(std::string& out, const amqp_field_value_t& field, int depth);

void append_json(std::string& out, const amqp_table_t& table, int depth) {
  out += '{';
  for (int i = 0; i < table.num_entries; ++i) {
    if (i > 0) out += ',';
    append_json_string(out, view_of(table.entries[i].key));
    out += ':';
    append_json(out, table.entries[i].value, depth + 1);
  }
  out += '}';
}

void append_json(std::string& out, const amqp_field_value_t& field, int depth) {
  if (const auto number = number_text(field)) {
    out += *number;
  } else if (const auto text = field_text(field)) {
    append_json_string(out, *text);
  } else if (depth < depth_limit && field.kind == AMQP_FIELD_KIND_TABLE) {
    append_json(out, field.value.table, depth);
  } else if (depth < depth_limit && field.kind == AMQP_FIELD_KIND_ARRAY) {
    out += '[';
    for (int i = 0; i < field.value.array.num_entries; ++i) {
      if (i > 0) out += ',';
      append_json(out, field.value.array.entries[i], depth + 1);
    }
    out += ']';
  } else {
    out += "null";  // void, numbers that are not finite, and values nested too deeply
  }
}

std::string_view property(const amqp_basic_properties_t& properties, amqp_flags_t flag,
                          const amqp_bytes_t& value) {
  return (properties._flags & flag) != 0 ? view_of(value) : std::string_view{};
}

/// The broker's metadata of a delivery: where it was published, its properties and its headers.
std::string properties_json(const amqp_envelope_t& envelope) {
  const amqp_basic_properties_t& has = envelope.message.properties;
  std::string out = "{";
  const auto begin = [&](std::string_view name) {
    if (out.size() > 1) out += ',';
    append_json_string(out, name);
    out += ':';
  };
  const auto add = [&](std::string_view name, std::string_view value) {
    if (value.empty()) return;
    begin(name);
    append_json_string(out, value);
  };
  const auto add_number = [&](std::string_view name, amqp_flags_t flag, std::uint8_t value) {
    if ((has._flags & flag) == 0) return;
    begin(name);
    out += std::to_string(value);
  };
  add("exchange", view_of(envelope.exchange));
  add("routing_key", view_of(envelope.routing_key));
  add("message_id", property(has, AMQP_BASIC_MESSAGE_ID_FLAG, has.message_id));
  add("correlation_id", property(has, AMQP_BASIC_CORRELATION_ID_FLAG, has.correlation_id));
  add("type", property(has, AMQP_BASIC_TYPE_FLAG, has.type));
  add("app_id", property(has, AMQP_BASIC_APP_ID_FLAG, has.app_id));
  add("user_id", property(has, AMQP_BASIC_USER_ID_FLAG, has.user_id));
  add("reply_to", property(has, AMQP_BASIC_REPLY_TO_FLAG, has.reply_to));
  add("content_encoding", property(has, AMQP_BASIC_CONTENT_ENCODING_FLAG, has.content_encoding));
  add("expiration", property(has, AMQP_BASIC_EXPIRATION_FLAG, has.expiration));
  add_number("priority", AMQP_BASIC_PRIORITY_FLAG, has.priority);
  add_number("delivery_mode", AMQP_BASIC_DELIVERY_MODE_FLAG, has.delivery_mode);
  if ((has._flags & AMQP_BASIC_TIMESTAMP_FLAG) != 0) {
    add("timestamp", std::to_string(has.timestamp));
  }
  if ((has._flags & AMQP_BASIC_HEADERS_FLAG) != 0 && has.headers.num_entries > 0) {
    begin("headers");
    append_json(out, has.headers, 0);
  }
  return out + "}";
}

/// Headers that a dead letter must not keep: ours get new values, and by CC and BCC the broker
/// would deliver copies to queues that had it already.
bool is_hop_header(std::string_view name) {
  constexpr std::array<std::string_view, 5> names = {sequence_header, "twinbox-error",
                                                     "twinbox-queue", "CC", "BCC"};
  return std::ranges::find(names, name) != names.end();
}

std::string first_non_empty(std::string_view one, std::string_view other) {
  return std::string{one.empty() ? other : one};
}

}  // namespace

const EventHeaderFormat& event_header_format() {
  static constexpr std::array<std::string_view, 4> read = {"cloudevents_", "cloudevents:", "ce-",
                                                           "ce_"};
  static constexpr EventHeaderFormat wire_headers{
      .written = "cloudEvents_", .read = read, .percent = false};
  return wire_headers;
}

Outgoing outgoing_of(const Message& message, const RabbitSinkOptions& options) {
  Outgoing out{
      .routing_key = options.routing_key.empty() ? message.topic.str() : options.routing_key,
      .wire_message = to_wire_message(message, options.form, event_header_format()),
      .message_id = if_short(message.id.view()),
      .correlation_id = {},
      .type = if_short(message.topic.view()),
      .timestamp = 0};
  if (message.correlation_id) out.correlation_id = if_short(message.correlation_id->view());
  drop_repeated(out, message.attempts);
  const auto created = std::chrono::floor<std::chrono::seconds>(message.created_at);
  out.timestamp = static_cast<std::uint64_t>(
      std::max<std::int64_t>(0, std::int64_t{created.time_since_epoch().count()}));
  if (out.routing_key.size() > short_limit) {
    throw std::invalid_argument("the routing key has " + std::to_string(out.routing_key.size()) +
                                " bytes, RabbitMQ takes 255");
  }
  if (out.wire_message.content_type.size() > short_limit) {
    throw std::invalid_argument("the content type is longer than RabbitMQ takes, 255 bytes");
  }
  std::size_t size = 0;
  for (const auto& [name, value] : out.wire_message.wire_headers) {
    if (name.size() > name_limit) {
      throw std::invalid_argument("the header '" + name.substr(0, 40) +
                                  "…' has a longer name than RabbitMQ takes, 128 bytes");
    }
    size += name.size() + value.size() + 16;
  }
  if (size > labels_limit) {
    throw std::invalid_argument("the headers have " + std::to_string(size) + " bytes, at most " +
                                std::to_string(labels_limit) + " can be sent");
  }
  if (out.wire_message.body.size() > options.max_bytes) {
    throw std::invalid_argument("the body has " + std::to_string(out.wire_message.body.size()) +
                                " bytes, max_bytes allows " + std::to_string(options.max_bytes));
  }
  return out;
}

void publish(Connection& connection, const std::string& exchange, const Outgoing& message,
             std::uint64_t sequence) {
  std::vector<amqp_table_entry_t> entries;
  entries.reserve(message.wire_message.wire_headers.size() + 1);
  for (const auto& [name, value] : message.wire_message.wire_headers)
    entries.push_back(text_entry(name, value));
  entries.push_back(number_entry(sequence_header, sequence));
  amqp_basic_properties_t has{};
  set_headers(has, entries);
  set_text(has, has.content_type, AMQP_BASIC_CONTENT_TYPE_FLAG, message.wire_message.content_type);
  set_text(has, has.message_id, AMQP_BASIC_MESSAGE_ID_FLAG, message.message_id);
  set_text(has, has.correlation_id, AMQP_BASIC_CORRELATION_ID_FLAG, message.correlation_id);
  set_text(has, has.type, AMQP_BASIC_TYPE_FLAG, message.type);
  has.delivery_mode = persistent;
  has.timestamp = message.timestamp;
  has._flags |= AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_TIMESTAMP_FLAG;
  send(connection, exchange, message.routing_key, has, bytes_of(message.wire_message.body));
}

std::optional<std::uint64_t> read_returned(Connection& connection) {
  amqp_message_t message;
  connection.check(amqp_read_message(connection.state(), Connection::channel, &message, 0),
                   "reading a returned message");
  std::optional<std::uint64_t> sequence;
  const amqp_basic_properties_t& has = message.properties;
  if ((has._flags & AMQP_BASIC_HEADERS_FLAG) != 0) {
    for (int i = 0; i < has.headers.num_entries; ++i) {
      const amqp_table_entry_t& entry = has.headers.entries[i];
      if (view_of(entry.key) == sequence_header && entry.value.kind == AMQP_FIELD_KIND_I64) {
        sequence = static_cast<std::uint64_t>(entry.value.value.i64);
      }
    }
  }
  amqp_destroy_message(&message);
  return sequence;
}

Arrival read_arrival(const amqp_envelope_t& envelope, const RabbitSourceOptions& options) {
  const amqp_basic_properties_t& has = envelope.message.properties;
  ReceivedMessage received{.transport = "rabbitmq",
                           .properties = properties_json(envelope),
                           .body = std::string{view_of(envelope.message.body)}};
  received.content_type = property(has, AMQP_BASIC_CONTENT_TYPE_FLAG, has.content_type);
  received.content_encoding = property(has, AMQP_BASIC_CONTENT_ENCODING_FLAG, has.content_encoding);
  if ((has._flags & AMQP_BASIC_HEADERS_FLAG) != 0) {
    for (int i = 0; i < has.headers.num_entries; ++i) {
      const amqp_table_entry_t& entry = has.headers.entries[i];
      if (auto text = field_text(entry.value)) {
        received.wire_headers.emplace_back(view_of(entry.key), std::move(*text));
      }
    }
  }
  received.id = property(has, AMQP_BASIC_MESSAGE_ID_FLAG, has.message_id);
  received.source =
      first_non_empty(property(has, AMQP_BASIC_APP_ID_FLAG, has.app_id), options.source.view());
  received.topic =
      first_non_empty(property(has, AMQP_BASIC_TYPE_FLAG, has.type), view_of(envelope.routing_key));
  received.correlation_id = property(has, AMQP_BASIC_CORRELATION_ID_FLAG, has.correlation_id);
  return arrival_of(std::move(received), event_header_format());
}

void publish_dead_letter(Connection& connection, const RabbitSourceOptions& options,
                         const amqp_envelope_t& envelope, const std::string& error,
                         std::uint64_t sequence) {
  const std::string why = truncate_error(error);
  amqp_basic_properties_t has = envelope.message.properties;
  std::vector<amqp_table_entry_t> entries;
  if ((has._flags & AMQP_BASIC_HEADERS_FLAG) != 0) {
    for (int i = 0; i < has.headers.num_entries; ++i) {
      const std::string_view name = view_of(has.headers.entries[i].key);
      if (!is_hop_header(name)) entries.push_back(has.headers.entries[i]);
    }
  }
  const std::size_t own = entries.size();
  entries.push_back(number_entry(sequence_header, sequence));
  entries.push_back(text_entry("twinbox-queue", options.queue));
  entries.push_back(text_entry("twinbox-error", why));
  set_headers(has, entries);
  has.delivery_mode = persistent;
  has._flags |= AMQP_BASIC_DELIVERY_MODE_FLAG;
  // A broker refuses a message in the name of another user, and a dead letter does not expire.
  has._flags &= ~static_cast<amqp_flags_t>(AMQP_BASIC_USER_ID_FLAG | AMQP_BASIC_EXPIRATION_FLAG);
  while (entries.size() > own && !fits(connection, has)) {
    entries.pop_back();
    set_headers(has, entries);
  }
  const std::string& exchange = options.dead_letter_exchange;
  const std::string key = exchange.empty() ? dead_letter_queue(options.queue)
                                           : std::string{view_of(envelope.routing_key)};
  send(connection, exchange, key, has, envelope.message.body);
}

}  // namespace twinbox::rabbitmq
