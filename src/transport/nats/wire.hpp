// Messages as NATS carries them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "transport/nats/connection.hpp"
#include "transport/nats/headers.hpp"
#include "transport/wire_message.hpp"

namespace twinbox::nats {

/// By the CloudEvents binding for NATS: `ce-…`, as over HTTP.
const EventHeaderFormat& event_header_format();

/// A message, ready to be published.
struct Outgoing {
  std::string subject;
  WireMessage wire_message;
  std::string id;  ///< the stream's deduplication key
};

/// Where it goes.
std::string subject_of(const Message& message, const NatsSinkOptions& options);
/// Throws std::invalid_argument for what cannot be sent.
Outgoing outgoing_of(const Message& message, const NatsSinkOptions& options);
/// Throws std::bad_alloc.
MessagePtr to_nats_message(const Outgoing& message, const std::string& stream,
                           const std::string& reply);

/// A stream's answer to a publish.
struct PublishAck {
  enum class Kind {
    stored,     ///< or it was there already
    no_stream,  ///< no stream takes the subject
    too_large,  ///< for the stream
    refused,    ///< for another reason
  };
  Kind kind;
  std::string text = {};  ///< the stream's words
};
PublishAck read_publish_ack(natsMsg& message);

/// The origin of a delivery, from its reply subject.
struct DeliveryMetadata {
  std::uint64_t sequence;   ///< in the stream
  std::uint64_t delivered;  ///< how often, this time counted
  std::int64_t timestamp;   ///< when the stream stored it, in nanoseconds
};
/// Empty: it is no delivery of a consumer.
std::optional<DeliveryMetadata> delivery_metadata_of(natsMsg& message);

/// Throws std::invalid_argument for an invalid message.
Arrival read_arrival(natsMsg& message, const DeliveryMetadata& metadata,
                     const NatsSourceOptions& options);

/// A delivery for the dead letters, unchanged, plus the reason.
MessagePtr dead_letter(natsMsg& message, const DeliveryMetadata& metadata,
                       const NatsSourceOptions& options, const std::string& error,
                       const std::string& reply);
/// The same without the reason, where that would be too large.
MessagePtr dead_letter_without_reason(natsMsg& message, const NatsSourceOptions& options,
                                      const std::string& reply);

}  // namespace twinbox::nats
