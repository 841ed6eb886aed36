// Parses and checks the query and the body of a request.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/http/http_router.hpp"
#include "daemon/store/stores.hpp"
#include <twinbox/operations.hpp>

namespace twinbox::app {

// All functions throw HttpProblem with the parameter and the expected value.

void refuse_unknown(const RequestTarget& target, std::initializer_list<std::string_view> known);
void refuse_unknown(const boost::json::object& object,
                    std::initializer_list<std::string_view> known);

std::int64_t parse_number(std::string_view name, std::string_view text, std::int64_t low,
                          std::int64_t high);
/// The number `name` in the query, or `otherwise`.
std::int64_t number_of(const RequestTarget& target, std::string_view name, std::int64_t low,
                       std::int64_t high, std::int64_t otherwise);

/// An empty name means the outbox.
BoxKind parse_box(std::string_view text);
/// An empty name means the only store and is refused if there are several; an empty kind means any.
Store& find_store(const Stores& stores, std::string_view name, std::optional<BoxKind> kind);
/// The box selected by `?store=` and `?box=`.
WorkQueue& find_box(const Stores& stores, const RequestTarget& target);

/// The body of a request as a JSON object; other members are refused.
boost::json::object parse_body(const HttpRequest& request,
                               std::initializer_list<std::string_view> members);
/// A string member; empty if missing.
std::string text_member(const boost::json::object& object, std::string_view name);
bool bool_member(const boost::json::object& object, std::string_view name);
std::optional<Instant> instant_member(const boost::json::object& object, std::string_view name);

/// Parses the string members `state`, `topic`, `handler`, `source`, `id`, `correlation_id`,
/// `error_contains`, `created_since` and `created_before`.
Filter parse_filter(const boost::json::object& fields);

}  // namespace twinbox::app
