// Converts types of the operations API to and from JSON.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <optional>
#include <string_view>

#include <twinbox/http.hpp>
#include <twinbox/operations.hpp>

namespace twinbox::app {

boost::json::value to_json(Instant instant);
boost::json::object to_json(const StateCounts& counts);
boost::json::object to_json(const DeliveryEntry& entry);
/// Without its payload.
boost::json::object to_json(const MessageDetail& detail);
/// The age of a message since its creation while it has open deliveries.
std::optional<Duration> open_for(const MessageDetail& detail, Instant now);
boost::json::object to_json(const AuditEntry& entry);
boost::json::object to_json(const DeadGroup& group);

/// Adds `payload` as text or in base64, `payload_encoding`, and `payload_truncated` if the payload
/// exceeds the limit.
void add_payload(boost::json::object& out, std::string_view payload, std::size_t limit);
std::string base64(std::string_view bytes);
/// Decodes base64 with padding. Empty: invalid.
std::optional<std::string> decode_base64(std::string_view text);

bool is_utf8(std::string_view text);

HttpResponse answer(const boost::json::value& value, int status = 200);
/// Writes numbers as 6 and 0.25; the library would write 6E0 and 2.5E-1.
std::string json_text(const boost::json::value& value);

/// Parses `2026-01-31T12:00:00Z`, with fractions and offsets. Empty: invalid.
std::optional<Instant> parse_instant(std::string_view text);

}  // namespace twinbox::app
