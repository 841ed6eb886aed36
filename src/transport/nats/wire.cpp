#include "transport/nats/wire.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "core/encoding.hpp"
#include "core/json.hpp"
#include "core/text.hpp"
#include "event/attribute.hpp"
#include "transport/deduplication_key.hpp"
#include "transport/nats/topology.hpp"

namespace twinbox::nats {
namespace {

constexpr const char* id_header = "Nats-Msg-Id";
constexpr const char* own_id_header = "twinbox-id";
constexpr const char* content_type_header = "Content-Type";

bool equal(std::string_view one, std::string_view other) noexcept {
  return std::ranges::equal(one, other, {}, ascii_lower, ascii_lower);
}

/// Control headers of the server for this hop, not of the message: they would be applied again.
bool is_server_header(std::string_view name) noexcept {
  return name.size() > 5 && equal(name.substr(0, 5), "nats-");
}

void set_header(natsMsg& message, const std::string& name, const std::string& value) {
  if (natsMsgHeader_Set(&message, name.c_str(), value.c_str()) != NATS_OK) throw std::bad_alloc();
}

MessagePtr new_message(const std::string& subject, const std::string& reply,
                       std::string_view body) {
  natsMsg* message = nullptr;
  if (natsMsg_Create(&message, subject.c_str(), reply.c_str(), body.data(),
                     static_cast<int>(body.size())) != NATS_OK) {
    throw std::bad_alloc();
  }
  return MessagePtr{message};
}

/// The first value of each name.
WireHeaders first_values(const Headers& headers) {
  WireHeaders wire_headers;
  std::set<std::string_view> seen;
  for (const auto& header : headers.list) {
    if (seen.insert(header.first).second) wire_headers.push_back(header);
  }
  return wire_headers;
}

std::string_view body_of(natsMsg& message) noexcept {
  return {natsMsg_GetData(&message), static_cast<std::size_t>(natsMsg_GetDataLength(&message))};
}

/// It came over a broker, or goes to several handlers.
bool is_forwarded(const Message& message) {
  if (message.handler != HandlerKey::by_topic()) return true;
  constexpr std::array<std::string_view, 3> brokers = {"nats", "rabbitmq", "kafka"};
  return message.headers && std::ranges::any_of(brokers, [&](std::string_view name) {
           return json_object_has(*message.headers, name);
         });
}

/// The deduplication key for a stream. The id alone where that is unique: two senders may use the
/// same ids, and a forwarded message may reach one stream under several subjects.
std::string deduplication_id(const Message& message, const std::string& subject) {
  std::string key = deduplication_key(message);
  if (message.source == Source::none() && !is_forwarded(message)) return key;
  return key + " " + percent_encode(subject, "%");
}

/// The raw value of a member; empty: there is none.
std::string_view member(const std::optional<std::vector<JsonPart>>& object, std::string_view name) {
  if (!object) return {};
  const auto found = std::ranges::find(*object, name, &JsonPart::name);
  return found == object->end() ? std::string_view{} : found->value;
}

/// An event of the binding's first version: all of it in the body, without a header that says so.
bool is_bare_event(std::string_view content_type, const WireHeaders& wire_headers,
                   std::string_view body) {
  if (!content_type.empty()) return false;
  for (const auto& [name, value] : wire_headers) {
    if (equal(name, own_id_header) || equal(std::string_view{name}.substr(0, 3), "ce-")) {
      return false;
    }
  }
  const std::size_t first = body.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && body[first] == '{' &&
         json_object_has(body, "specversion");
}

/// All except the server's, with all of their values. True: they have the message's id, or the body
/// does.
bool copy_own_headers(const Headers& from, std::string_view body, natsMsg& to) {
  WireHeaders own;
  bool has_id = false;
  for (const auto& header : from.list) {
    if (is_server_header(header.first)) continue;
    own.push_back(header);
    has_id = has_id || equal(header.first, own_id_header) || equal(header.first, "ce-id");
  }
  const auto type = std::ranges::find_if(
      own, [](const auto& header) { return equal(header.first, content_type_header); });
  const std::string content_type = type == own.end() ? "" : type->second;
  add_headers(to, std::move(own));
  return has_id || is_bare_event(content_type, from.list, body);
}

/// Newer senders have the type of the data among the other attributes.
void take_content_type(ReceivedMessage& received) {
  for (const auto& [name, value] : received.wire_headers) {
    if (equal(name, content_type_header)) received.content_type = value;
  }
  const auto attribute = std::ranges::find_if(received.wire_headers, [](const auto& header) {
    return equal(header.first, "ce-datacontenttype");
  });
  if (attribute != received.wire_headers.end()) {
    if (!media_type(received.content_type).starts_with("application/cloudevents")) {
      received.content_type = attribute->second;
    }
    received.wire_headers.erase(attribute);
  }
  if (is_bare_event(received.content_type, received.wire_headers, received.body)) {
    received.content_type = event_content_type;
  }
}

std::string properties_json(natsMsg& message, const DeliveryMetadata& metadata,
                            const WireHeaders& wire_headers, const NatsSourceOptions& options) {
  std::string out = R"({"stream":)";
  append_json_string(out, options.stream.name);
  out += R"(,"subject":)";
  append_json_string(out, natsMsg_GetSubject(&message));
  out += R"(,"sequence":)" + std::to_string(metadata.sequence) + R"(,"timestamp":)" +
         std::to_string(metadata.timestamp);
  if (!wire_headers.empty()) {
    out += R"(,"headers":{)";
    for (std::size_t i = 0; i < wire_headers.size(); ++i) {
      if (i > 0) out += ',';
      append_json_string(out, wire_headers[i].first);
      out += ':';
      append_json_string(out, wire_headers[i].second);
    }
    out += '}';
  }
  return out + "}";
}

}  // namespace

const EventHeaderFormat& event_header_format() {
  static constexpr std::array<std::string_view, 1> read = {"ce-"};
  static constexpr EventHeaderFormat wire_headers{.written = "ce-", .read = read, .percent = true};
  return wire_headers;
}

std::string subject_of(const Message& message, const NatsSinkOptions& options) {
  return options.subject.empty() ? options.subject_prefix + message.topic.str() : options.subject;
}

Outgoing outgoing_of(const Message& message, const NatsSinkOptions& options) {
  Outgoing out{.subject = subject_of(message, options), .wire_message = {}, .id = {}};
  out.id = deduplication_id(message, out.subject);
  out.wire_message = to_wire_message(message, options.form, event_header_format(),
                                     {.id = out.id == message.id.view(),
                                      .topic = out.subject == message.topic.view(),
                                      .first_attempt = true});
  if (!is_subject(out.subject)) {
    throw std::invalid_argument("the topic '" + message.topic.str() +
                                "' is no subject of NATS: words between dots, without blanks, * "
                                "and >; set subject, or subject_prefix");
  }
  if (out.wire_message.body.size() > options.max_bytes) {
    throw std::invalid_argument("the body has " + std::to_string(out.wire_message.body.size()) +
                                " bytes, max_bytes allows " + std::to_string(options.max_bytes));
  }
  for (const char c : out.wire_message.content_type) {
    if (static_cast<unsigned char>(c) < 0x20) {
      throw std::invalid_argument("the content type has a control character");
    }
  }
  return out;
}

MessagePtr to_nats_message(const Outgoing& message, const std::string& stream,
                           const std::string& reply) {
  MessagePtr nats_message = new_message(message.subject, reply, message.wire_message.body);
  bool event = false;
  for (const auto& [name, value] : message.wire_message.wire_headers) {
    set_header(*nats_message, name, value);
    event = event || name == "ce-specversion";
  }
  if (!message.wire_message.content_type.empty()) {
    set_header(*nats_message, content_type_header, message.wire_message.content_type);
    if (event) set_header(*nats_message, "ce-datacontenttype", message.wire_message.content_type);
  }
  set_header(*nats_message, id_header, message.id);
  if (!stream.empty()) set_header(*nats_message, "Nats-Expected-Stream", stream);
  return nats_message;
}

PublishAck read_publish_ack(natsMsg& message) {
  if (natsMsg_IsNoResponders(&message)) return {PublishAck::Kind::no_stream};
  const auto answer = split_json_object(body_of(message));
  const std::string_view refusal = member(answer, "error");
  if (refusal.empty()) {
    if (!member(answer, "seq").empty()) return {PublishAck::Kind::stored};
    return {PublishAck::Kind::refused, "an answer that is no acknowledgement of a stream"};
  }
  const auto error = split_json_object(refusal);
  std::string text = json_string(member(error, "description")).value_or("");
  const std::string_view code = member(error, "err_code");
  text += " (" + std::string{code} + ")";
  return {code == std::to_string(JSStreamMessageExceedsMaximumErr) ? PublishAck::Kind::too_large
                                                                   : PublishAck::Kind::refused,
          std::move(text)};
}

std::optional<DeliveryMetadata> delivery_metadata_of(natsMsg& message) {
  jsMsgMetaData* data = nullptr;
  if (natsMsg_GetMetaData(&data, &message) != NATS_OK) return {};
  const DeliveryMetadata metadata{data->Sequence.Stream, data->NumDelivered, data->Timestamp};
  jsMsgMetaData_Destroy(data);
  return metadata;
}

Arrival read_arrival(natsMsg& message, const DeliveryMetadata& metadata,
                     const NatsSourceOptions& options) {
  const Headers headers = read_headers(message);
  if (!headers.fault.empty()) throw std::invalid_argument(headers.fault);
  WireHeaders wire_headers = first_values(headers);
  ReceivedMessage received{.transport = "nats",
                           .properties = properties_json(message, metadata, wire_headers, options),
                           .body = std::string{body_of(message)}};
  received.wire_headers = std::move(wire_headers);
  take_content_type(received);
  received.id = headers.find(id_header);
  received.source = options.source.str();
  received.topic = natsMsg_GetSubject(&message);
  return arrival_of(std::move(received), event_header_format());
}

MessagePtr dead_letter(natsMsg& message, const DeliveryMetadata& metadata,
                       const NatsSourceOptions& options, const std::string& error,
                       const std::string& reply) {
  MessagePtr nats_message = new_message(dead_letter_subject_of(options), reply, body_of(message));
  const Headers headers = read_headers(message);
  const bool has_id = copy_own_headers(headers, body_of(message), *nats_message);
  // A resender needs it, and this one must not count as a duplicate.
  const std::string_view id = headers.find(id_header);
  if (!has_id && !id.empty()) set_header(*nats_message, own_id_header, percent_encode(id, "\"%"));
  set_header(*nats_message, id_header,
             options.stream.name + "." + options.consumer + "." +
                 std::to_string(metadata.sequence) + "." + std::to_string(metadata.timestamp));
  set_header(*nats_message, "twinbox-error", percent_encode(truncate_error(error), "\"%"));
  set_header(*nats_message, "twinbox-stream", options.stream.name);
  set_header(*nats_message, "twinbox-subject", natsMsg_GetSubject(&message));
  return nats_message;
}

MessagePtr dead_letter_without_reason(natsMsg& message, const NatsSourceOptions& options,
                                      const std::string& reply) {
  MessagePtr nats_message = new_message(dead_letter_subject_of(options), reply, body_of(message));
  const Headers headers = read_headers(message);
  if (copy_own_headers(headers, body_of(message), *nats_message)) return nats_message;
  const std::string id{headers.find(id_header)};
  if (id.empty()) return nats_message;
  // Under the server's name it would count as a duplicate of another consumer's dead letter; but
  // the size limit is that of the original, and an encoded one needs more.
  const bool has_room = percent_encode(id, "\"%") == id;
  set_header(*nats_message, has_room ? own_id_header : id_header, id);
  return nats_message;
}

}  // namespace twinbox::nats
