// Converts the library's results to JSON, and indents the JSON of payloads.
#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <string_view>

#include "cli/screen.hpp"
#include <twinbox/operations.hpp>

namespace twinbox::cli {

boost::json::value to_json(const std::optional<Instant>& instant);
boost::json::value to_json(const std::optional<Duration>& duration);  ///< milliseconds
boost::json::object to_json(const StateCounts& counts, bool history);
boost::json::object to_json(const MessageView& message);
boost::json::object to_json(const DeliveryView& delivery);
boost::json::object to_json(const FailedAttempt& attempt);
boost::json::object to_json(const MessageDetail& detail);

/// Prints `value` with two spaces per level and a newline at the end.
void print_json(const Screen& screen, const boost::json::value& value);

/// `text` with two spaces per level; only white space changes. Empty if `text` is not JSON.
std::string indented_json(std::string_view text);

bool is_text(std::string_view bytes);  ///< UTF-8 without control characters but tab and newline
/// Sixteen bytes a line: offset, hexadecimal, text.
std::string hex_dump(std::string_view bytes);

}  // namespace twinbox::cli
