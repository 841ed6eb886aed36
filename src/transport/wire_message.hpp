// The broker-independent form of a message.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "twinbox/event.hpp"
#include "twinbox/message.hpp"
#include "twinbox/sink.hpp"

namespace twinbox {

/// Names and values, in their order. Names of incoming headers are compared without regard to case.
using WireHeaders = std::vector<std::pair<std::string, std::string>>;

/// How a broker's headers carry the attributes of a CloudEvent.
struct EventHeaderFormat {
  std::string_view written;                ///< prefix of outgoing headers
  std::span<const std::string_view> read;  ///< prefixes of incoming headers, in lower case
  bool percent;                            ///< values are visible ASCII, everything else is %XX
};

struct WireMessage {
  std::string body;
  std::string content_type = {};  ///< empty: none
  WireHeaders wire_headers = {};
};

/// The values without a header: a server reads and stores every one of them.
struct NativeFields {
  bool id = false;
  bool topic = false;
  bool created_at = false;
  bool first_attempt = false;
};

/// Throws EventError for a message that cannot be sent as an event.
WireMessage to_wire_message(const Message& message, BodyFormat form,
                            const EventHeaderFormat& events, const NativeFields& native = {});

/// An event that is sent without an outbox, as a message that has been claimed now. Throws
/// EventError for an invalid event.
Message direct_message(const CloudEvent& event);

/// A broker's delivery. Empty texts: the broker has no value.
struct ReceivedMessage {
  std::string_view transport;  ///< the broker's name
  std::string properties;      ///< its other properties, as a JSON object
  std::string body;
  std::string content_type = {};
  std::string content_encoding = {};  ///< the broker's own; a header `content-encoding` counts, too
  WireHeaders wire_headers = {};
  std::string id = {};
  std::string source = {};
  std::string topic = {};
  std::string correlation_id = {};
  std::string partition_key = {};
};

/// An event, or a message whose attributes are `twinbox-…` headers, or what the broker says. Throws
/// std::invalid_argument for what is no message: without an id, damaged, too long, compressed.
Arrival arrival_of(ReceivedMessage received, const EventHeaderFormat& events);

}  // namespace twinbox
