#include "transport/kafka/wire.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "core/encoding.hpp"
#include "core/json.hpp"
#include "core/sha256.hpp"
#include "core/text.hpp"

namespace twinbox::kafka {
namespace {

constexpr std::string_view content_type_header = "content-type";

/// A dead letter gets new values for our headers.
bool is_hop_header(std::string_view name) {
  return name == "twinbox-error" || name == "twinbox-origin";
}

std::optional<std::string> bytes_of(const void* data, std::size_t size) {
  if (data == nullptr) return {};
  return std::string{static_cast<const char*>(data), size};
}

/// `call(name, value)` for each header, in their order; the value may be missing.
template <class Call>
void for_each_header(const rd_kafka_message_t& message, Call call) {
  rd_kafka_headers_t* headers = nullptr;
  if (rd_kafka_message_headers(&message, &headers) != RD_KAFKA_RESP_ERR_NO_ERROR) return;
  const char* name = nullptr;
  const void* value = nullptr;
  std::size_t size = 0;
  for (std::size_t i = 0;
       rd_kafka_header_get_all(headers, i, &name, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR;
       ++i) {
    call(std::string{name}, bytes_of(value, size));
  }
}

std::string topic_of(const rd_kafka_message_t& message) { return rd_kafka_topic_name(message.rkt); }

/// A key is bytes. A key that is not a valid partition key is replaced by its hash, so that its
/// records still keep their order.
std::string key_text(const std::string& key) {
  try {
    return PartitionKey{key}.str();
  } catch (const std::invalid_argument&) {
    const Sha256 hash = sha256(key);
    return "sha256:" + hex({reinterpret_cast<const char*>(hash.data()), hash.size()});
  }
}

/// The cluster's metadata of a record. Of several headers with one name the last counts.
std::string properties_json(const rd_kafka_message_t& message) {
  std::string out = R"({"topic":)";
  append_json_string(out, topic_of(message));
  out += R"(,"partition":)" + std::to_string(message.partition);
  out += R"(,"offset":)" + std::to_string(message.offset);
  rd_kafka_timestamp_type_t kind = RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
  const std::int64_t time = rd_kafka_message_timestamp(&message, &kind);
  if (kind != RD_KAFKA_TIMESTAMP_NOT_AVAILABLE) out += R"(,"timestamp":)" + std::to_string(time);
  if (const auto key = bytes_of(message.key, message.key_len)) {
    out += R"(,"key":)";
    append_json_string(out, *key);
  }
  std::map<std::string, std::optional<std::string>> headers;
  for_each_header(message, [&](std::string name, std::optional<std::string> value) {
    headers.insert_or_assign(std::move(name), std::move(value));
  });
  if (!headers.empty()) out += R"(,"headers":)";
  char before = '{';
  for (const auto& [name, value] : headers) {
    out += before;
    before = ',';
    append_json_string(out, name);
    out += ':';
    if (value) {
      append_json_string(out, *value);
    } else {
      out += "null";
    }
  }
  return out + (headers.empty() ? "}" : "}}");
}

}  // namespace

const EventHeaderFormat& event_header_format() {
  static constexpr std::array<std::string_view, 1> read = {"ce_"};
  static constexpr EventHeaderFormat wire_headers{.written = "ce_", .read = read, .percent = false};
  return wire_headers;
}

Record record_of(const Message& message, const KafkaSinkOptions& options) {
  // The record's own time is its creation time, and a first attempt needs no header.
  WireMessage wire_message = to_wire_message(message, options.form, event_header_format(),
                                             {.created_at = true, .first_attempt = true});
  Record record{.topic = options.topic.empty() ? message.topic.str() : options.topic,
                .key = {},
                .body = std::move(wire_message.body)};
  check_topic("topic", record.topic);
  if (message.partition_key) record.key = message.partition_key->str();
  record.headers.reserve(wire_message.wire_headers.size() + 1);
  if (!wire_message.content_type.empty()) {
    record.headers.emplace_back(content_type_header, std::move(wire_message.content_type));
  }
  std::size_t size = record.body->size() + (record.key ? record.key->size() : 0);
  for (auto& [name, value] : wire_message.wire_headers) {
    size += name.size() + value.size();
    record.headers.emplace_back(std::move(name), std::move(value));
  }
  if (size > options.max_bytes) {
    throw std::invalid_argument("the record has " + std::to_string(size) +
                                " bytes, max_bytes allows " + std::to_string(options.max_bytes));
  }
  const auto created = std::chrono::floor<std::chrono::milliseconds>(message.created_at);
  record.timestamp = std::max<std::int64_t>(0, std::int64_t{created.time_since_epoch().count()});
  return record;
}

std::string position_of(const rd_kafka_message_t& message) {
  return topic_of(message) + "/" + std::to_string(message.partition) + "/" +
         std::to_string(message.offset);
}

Arrival read_arrival(const rd_kafka_message_t& message, const KafkaSourceOptions& options) {
  ReceivedMessage received{.transport = "kafka",
                           .properties = properties_json(message),
                           .body = bytes_of(message.payload, message.len).value_or("")};
  for_each_header(message, [&](std::string name, std::optional<std::string> value) {
    if (name == content_type_header) received.content_type = value.value_or("");
    received.wire_headers.emplace_back(std::move(name), value.value_or(""));
  });
  received.id = position_of(message);
  received.source = options.source.str();
  received.topic = topic_of(message);
  const auto key = bytes_of(message.key, message.key_len);
  if (key && !key->empty()) received.partition_key = key_text(*key);
  return arrival_of(std::move(received), event_header_format());
}

std::string dead_letter_topic_of(const KafkaSourceOptions& options, const std::string& topic) {
  return options.dead_letter_topic.empty() ? topic + ".dead" : options.dead_letter_topic;
}

Record dead_letter_record(const rd_kafka_message_t& message, const KafkaSourceOptions& options,
                          const std::string& error, bool without_reason) {
  Record record{.topic = dead_letter_topic_of(options, topic_of(message)),
                .key = bytes_of(message.key, message.key_len),
                .body = bytes_of(message.payload, message.len)};
  for_each_header(message, [&](std::string name, std::optional<std::string> value) {
    if (!is_hop_header(name)) record.headers.emplace_back(std::move(name), std::move(value));
  });
  if (!without_reason) {
    record.headers.emplace_back("twinbox-error", truncate_error(error));
    record.headers.emplace_back("twinbox-origin", position_of(message));
  }
  record.timestamp = std::max<std::int64_t>(0, rd_kafka_message_timestamp(&message, nullptr));
  return record;
}

}  // namespace twinbox::kafka
