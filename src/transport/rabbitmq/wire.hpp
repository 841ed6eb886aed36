// Messages as AMQP 0-9-1 carries them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "transport/rabbitmq/connection.hpp"
#include "transport/wire_message.hpp"

namespace twinbox::rabbitmq {

/// By the CloudEvents binding for AMQP, and by other senders' conventions.
const EventHeaderFormat& event_header_format();

/// The number that identifies a returned message on its connection.
inline constexpr std::string_view sequence_header = "twinbox-sequence";

/// A message, ready to be published.
struct Outgoing {
  std::string routing_key;
  WireMessage wire_message;
  std::string message_id;       ///< empty: too long for the property, and only in the headers
  std::string correlation_id;   ///< the same
  std::string type;             ///< the same
  std::uint64_t timestamp = 0;  ///< seconds since 1970
};

/// Throws std::invalid_argument for what cannot be sent.
Outgoing outgoing_of(const Message& message, const RabbitSinkOptions& options);

/// Sends it as persistent and mandatory. Throws BrokerError.
void publish(Connection& connection, const std::string& exchange, const Outgoing& message,
             std::uint64_t sequence);
/// The sequence of a returned message, if it has one. Reads its frames.
std::optional<std::uint64_t> read_returned(Connection& connection);

/// Throws std::invalid_argument for an invalid message.
Arrival read_arrival(const amqp_envelope_t& envelope, const RabbitSourceOptions& options);

/// Sends a delivery to the dead letters, unchanged, plus the reason and its sequence, as far as
/// they fit.
void publish_dead_letter(Connection& connection, const RabbitSourceOptions& options,
                         const amqp_envelope_t& envelope, const std::string& error,
                         std::uint64_t sequence);

}  // namespace twinbox::rabbitmq
