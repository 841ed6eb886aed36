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

/// As the CloudEvents binding for Kafka has it.
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

/// Where a record lies: `topic/partition/offset`.
std::string position_of(const rd_kafka_message_t& message);
/// Throws std::invalid_argument for what is no message.
Arrival read_arrival(const rd_kafka_message_t& message, const KafkaSourceOptions& options);

/// Where the dead letters of a topic go.
std::string dead_letter_topic_of(const KafkaSourceOptions& options, const std::string& topic);
/// The record for the dead letters: as it came, with the reason and its place besides.
/// `without_reason`: as it came, because more would be too large.
Record dead_letter_record(const rd_kafka_message_t& message, const KafkaSourceOptions& options,
                          const std::string& error, bool without_reason);

}  // namespace twinbox::kafka
