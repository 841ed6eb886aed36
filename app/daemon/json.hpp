// Pieces of the operations API as JSON, and back.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <optional>
#include <string_view>

#include <twinbox/admin.hpp>
#include <twinbox/http.hpp>

namespace twinbox::app {

boost::json::value to_json(Instant instant);
boost::json::object to_json(const StateCounts& counts);
boost::json::object to_json(const Entry& entry);
boost::json::object to_json(const MessageDetail& detail);
boost::json::object to_json(const DeadGroup& group);

bool is_utf8(std::string_view text);

HttpResponse answer(const boost::json::value& value, int status = 200);

/// `2026-01-31T12:00:00Z`, with fractions and offsets. Empty: it is none.
std::optional<Instant> parse_instant(std::string_view text);

}  // namespace twinbox::app
