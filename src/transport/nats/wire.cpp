#include "transport/nats/wire.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "core/json.hpp"
#include "core/text.hpp"
#include "event/attribute.hpp"
#include "transport/nats/topology.hpp"
#include "transport/repetition_key.hpp"

namespace twinbox::nats {
namespace {

constexpr const char* id_header = "Nats-Msg-Id";
constexpr const char* own_id_header = "twinbox-id";
constexpr const char* content_type_header = "Content-Type";

char lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; }

bool equal(std::string_view one, std::string_view other) noexcept {
  return std::ranges::equal(one, other, {}, lower, lower);
}

/// Of the server and this trip, not of the message: they would be obeyed again.
bool is_of_server(std::string_view name) noexcept {
  return name.size() > 5 && equal(name.substr(0, 5), "nats-");
}

void set_header(natsMsg& message, const std::string& name, const std::string& value) {
  if (natsMsgHeader_Set(&message, name.c_str(), value.c_str()) != NATS_OK) throw std::bad_alloc();
}

Letter new_letter(const std::string& subject, const std::string& reply, std::string_view body) {
  natsMsg* message = nullptr;
  if (natsMsg_Create(&message, subject.c_str(), reply.c_str(), body.data(),
                     static_cast<int>(body.size())) != NATS_OK) {
    throw std::bad_alloc();
  }
  return Letter{message};
}

/// The first value of each name.
Labels first_values(const Headers& headers) {
  Labels labels;
  std::set<std::string_view> seen;
  for (const auto& label : headers.list) {
    if (seen.insert(label.first).second) labels.push_back(label);
  }
  return labels;
}

std::string_view body_of(natsMsg& message) noexcept {
  return {natsMsg_GetData(&message), static_cast<std::size_t>(natsMsg_GetDataLength(&message))};
}

/// It came over a broker, or goes to several handlers.
bool travels_further(const Message& message) {
  if (message.handler != HandlerKey::by_topic()) return true;
  constexpr std::array<std::string_view, 3> brokers = {"nats", "rabbitmq", "kafka"};
  return message.headers && std::ranges::any_of(brokers, [&](std::string_view name) {
           return json_object_has(*message.headers, name);
         });
}

/// What a stream knows repetitions by. The id alone where that says enough: two senders may use the
/// same ids, and what travels further may come to one stream under several subjects.
std::string repetition_id(const Message& message, const std::string& subject) {
  std::string key = repetition_key(message);
  if (message.source == Source::none() && !travels_further(message)) return key;
  return key + " " + percent_encode(subject, "%");
}

/// The value of a member, as it is written; empty: there is none.
std::string_view member(const std::optional<std::vector<JsonPart>>& object, std::string_view name) {
  if (!object) return {};
  const auto found = std::ranges::find(*object, name, &JsonPart::name);
  return found == object->end() ? std::string_view{} : found->value;
}

/// An event of the binding's first version: all of it in the body, and no header that says so.
bool is_bare_event(std::string_view content_type, const Labels& labels, std::string_view body) {
  if (!content_type.empty()) return false;
  for (const auto& [name, value] : labels) {
    if (equal(name, own_id_header) || equal(std::string_view{name}.substr(0, 3), "ce-")) {
      return false;
    }
  }
  const std::size_t first = body.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && body[first] == '{' &&
         json_object_has(body, "specversion");
}

/// All but the server's, with all of their values. True: they say what the message's id is, or the
/// body does.
bool copy_own_headers(const Headers& from, std::string_view body, natsMsg& to) {
  Labels own;
  bool has_id = false;
  for (const auto& label : from.list) {
    if (is_of_server(label.first)) continue;
    own.push_back(label);
    has_id = has_id || equal(label.first, own_id_header) || equal(label.first, "ce-id");
  }
  const auto type = std::ranges::find_if(
      own, [](const auto& label) { return equal(label.first, content_type_header); });
  const std::string content_type = type == own.end() ? "" : type->second;
  add_headers(to, std::move(own));
  return has_id || is_bare_event(content_type, from.list, body);
}

/// Newer senders have the type of the data among the other attributes.
void take_content_type(Delivered& delivered) {
  for (const auto& [name, value] : delivered.labels) {
    if (equal(name, content_type_header)) delivered.content_type = value;
  }
  const auto attribute = std::ranges::find_if(
      delivered.labels, [](const auto& label) { return equal(label.first, "ce-datacontenttype"); });
  if (attribute != delivered.labels.end()) {
    if (!media_type(delivered.content_type).starts_with("application/cloudevents")) {
      delivered.content_type = attribute->second;
    }
    delivered.labels.erase(attribute);
  }
  if (is_bare_event(delivered.content_type, delivered.labels, delivered.body)) {
    delivered.content_type = event_content_type;
  }
}

std::string properties_json(natsMsg& message, const Origin& origin, const Labels& labels,
                            const NatsSourceOptions& options) {
  std::string out = R"({"stream":)";
  append_json_string(out, options.stream.name);
  out += R"(,"subject":)";
  append_json_string(out, natsMsg_GetSubject(&message));
  out += R"(,"sequence":)" + std::to_string(origin.sequence) + R"(,"timestamp":)" +
         std::to_string(origin.timestamp);
  if (!labels.empty()) {
    out += R"(,"headers":{)";
    for (std::size_t i = 0; i < labels.size(); ++i) {
      if (i > 0) out += ',';
      append_json_string(out, labels[i].first);
      out += ':';
      append_json_string(out, labels[i].second);
    }
    out += '}';
  }
  return out + "}";
}

}  // namespace

const EventLabels& event_labels() {
  static constexpr std::array<std::string_view, 1> read = {"ce-"};
  static constexpr EventLabels labels{.written = "ce-", .read = read, .percent = true};
  return labels;
}

std::string subject_of(const Message& message, const NatsSinkOptions& options) {
  return options.subject.empty() ? options.subject_prefix + message.topic.str() : options.subject;
}

Outgoing outgoing_of(const Message& message, const NatsSinkOptions& options) {
  Outgoing out{.subject = subject_of(message, options), .parcel = {}, .id = {}};
  out.id = repetition_id(message, out.subject);
  out.parcel = parcel_of(message, options.form, event_labels(),
                         {.id = out.id == message.id.view(),
                          .topic = out.subject == message.topic.view(),
                          .first_attempt = true});
  if (!is_subject(out.subject)) {
    throw std::invalid_argument("the topic '" + message.topic.str() +
                                "' is no subject of NATS: words between dots, without blanks, * "
                                "and >; set subject, or subject_prefix");
  }
  if (out.parcel.body.size() > options.max_bytes) {
    throw std::invalid_argument("the body has " + std::to_string(out.parcel.body.size()) +
                                " bytes, max_bytes allows " + std::to_string(options.max_bytes));
  }
  for (const char c : out.parcel.content_type) {
    if (static_cast<unsigned char>(c) < 0x20) {
      throw std::invalid_argument("the content type has a control character");
    }
  }
  return out;
}

Letter letter_of(const Outgoing& message, const std::string& stream, const std::string& reply) {
  Letter letter = new_letter(message.subject, reply, message.parcel.body);
  bool event = false;
  for (const auto& [name, value] : message.parcel.labels) {
    set_header(*letter, name, value);
    event = event || name == "ce-specversion";
  }
  if (!message.parcel.content_type.empty()) {
    set_header(*letter, content_type_header, message.parcel.content_type);
    if (event) set_header(*letter, "ce-datacontenttype", message.parcel.content_type);
  }
  set_header(*letter, id_header, message.id);
  if (!stream.empty()) set_header(*letter, "Nats-Expected-Stream", stream);
  return letter;
}

Answer read_answer(natsMsg& message) {
  if (natsMsg_IsNoResponders(&message)) return {Answer::Kind::no_stream};
  const auto answer = split_json_object(body_of(message));
  const std::string_view refusal = member(answer, "error");
  if (refusal.empty()) {
    if (!member(answer, "seq").empty()) return {Answer::Kind::stored};
    return {Answer::Kind::refused, "an answer that is no acknowledgement of a stream"};
  }
  const auto error = split_json_object(refusal);
  std::string text = json_string(member(error, "description")).value_or("");
  const std::string_view code = member(error, "err_code");
  text += " (" + std::string{code} + ")";
  return {code == std::to_string(JSStreamMessageExceedsMaximumErr) ? Answer::Kind::too_large
                                                                   : Answer::Kind::refused,
          std::move(text)};
}

std::optional<Origin> origin_of(natsMsg& message) {
  jsMsgMetaData* data = nullptr;
  if (natsMsg_GetMetaData(&data, &message) != NATS_OK) return {};
  const Origin origin{data->Sequence.Stream, data->NumDelivered, data->Timestamp};
  jsMsgMetaData_Destroy(data);
  return origin;
}

Arrival read_arrival(natsMsg& message, const Origin& origin, const NatsSourceOptions& options) {
  const Headers headers = read_headers(message);
  if (!headers.fault.empty()) throw std::invalid_argument(headers.fault);
  Labels labels = first_values(headers);
  Delivered delivered{.transport = "nats",
                      .properties = properties_json(message, origin, labels, options),
                      .body = std::string{body_of(message)}};
  delivered.labels = std::move(labels);
  take_content_type(delivered);
  delivered.id = headers.find(id_header);
  delivered.source = options.source.str();
  delivered.topic = natsMsg_GetSubject(&message);
  return arrival_of(std::move(delivered), event_labels());
}

Letter dead_letter(natsMsg& message, const Origin& origin, const NatsSourceOptions& options,
                   const std::string& error, const std::string& reply) {
  Letter letter = new_letter(dead_subject(options), reply, body_of(message));
  const Headers headers = read_headers(message);
  const bool has_id = copy_own_headers(headers, body_of(message), *letter);
  // Who sends it again from there needs it, and this one must not pass for a repetition.
  const std::string_view id = headers.find(id_header);
  if (!has_id && !id.empty()) set_header(*letter, own_id_header, percent_encode(id, "\"%"));
  set_header(*letter, id_header,
             options.stream.name + "." + options.consumer + "." + std::to_string(origin.sequence) +
                 "." + std::to_string(origin.timestamp));
  set_header(*letter, "twinbox-error", percent_encode(cut_error(error), "\"%"));
  set_header(*letter, "twinbox-stream", options.stream.name);
  set_header(*letter, "twinbox-subject", natsMsg_GetSubject(&message));
  return letter;
}

Letter bare_dead_letter(natsMsg& message, const NatsSourceOptions& options,
                        const std::string& reply) {
  Letter letter = new_letter(dead_subject(options), reply, body_of(message));
  const Headers headers = read_headers(message);
  if (copy_own_headers(headers, body_of(message), *letter)) return letter;
  const std::string id{headers.find(id_header)};
  if (id.empty()) return letter;
  // Under the server's name it would pass for a repetition of another consumer's dead letter; but
  // there is only as much room as it came with, and an encoded one needs more.
  const bool has_room = percent_encode(id, "\"%") == id;
  set_header(*letter, has_room ? own_id_header : id_header, id);
  return letter;
}

}  // namespace twinbox::nats
