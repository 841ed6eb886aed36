// Prints JSON, and indents the JSON of payloads. Messages and deliveries have the form that
// daemon/http/json.hpp gives them.
#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <string_view>

#include "cli/screen.hpp"
#include <twinbox/operations.hpp>

namespace twinbox::cli {

/// As over HTTP; with the counts of finished deliveries if `history` is set.
boost::json::object to_json(const StateCounts& counts, bool history);

/// Prints `value` with two spaces per level and a newline at the end.
void print_json(const Screen& screen, const boost::json::value& value);

/// `text` with two spaces per level; only white space changes. Empty if `text` is not JSON.
std::string indented_json(std::string_view text);

bool is_text(std::string_view bytes);  ///< UTF-8 without control characters but tab and newline
/// Sixteen bytes a line: offset, hexadecimal, text.
std::string hex_dump(std::string_view bytes);

}  // namespace twinbox::cli
