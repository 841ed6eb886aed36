// Messages as Kafka carries them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "transport/kafka/client.hpp"
#include "transport/wire_message.hpp"

namespace twinbox::kafka {

/// By the CloudEvents binding for Kafka.
const EventHeaderFormat& event_header_format();

/// A record, ready to be produced. A missing value is not the same as an empty one.
struct Record {
  std::string topic;
  std::optional<std::string> key;
  std::optional<std::string> body;
  std::vector<std::pair<std::string, std::optional<std::string>>> headers = {};
  std::int64_t timestamp = 0;  ///< milliseconds since 1970
};

/// Throws std::invalid_argument for what cannot be sent.
Record record_of(const Message& message, const KafkaSinkOptions& options);

/// The position of a record: `topic/partition/offset`.
std::string position_of(const rd_kafka_message_t& message);
/// Throws std::invalid_argument for an invalid message.
Arrival read_arrival(const rd_kafka_message_t& message, const KafkaSourceOptions& options);

/// The topic for the dead letters of a topic.
std::string dead_letter_topic_of(const KafkaSourceOptions& options, const std::string& topic);
/// The record for the dead letters: unchanged, plus the reason and its position. `without_reason`:
/// unchanged, because more would be too large.
Record dead_letter_record(const rd_kafka_message_t& message, const KafkaSourceOptions& options,
                          const std::string& error, bool without_reason);

}  // namespace twinbox::kafka
