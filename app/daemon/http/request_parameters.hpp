// What a request asks for: its query and its body, taken apart and checked.
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

// All of them throw HttpProblem, naming the parameter and what was expected.

void refuse_unknown(const RequestTarget& target, std::initializer_list<std::string_view> known);
void refuse_unknown(const boost::json::object& object,
                    std::initializer_list<std::string_view> known);

std::int64_t parse_number(std::string_view name, std::string_view text, std::int64_t low,
                          std::int64_t high);
/// The number of that name in the query, or `otherwise`.
std::int64_t number_of(const RequestTarget& target, std::string_view name, std::int64_t low,
                       std::int64_t high, std::int64_t otherwise);

/// An empty name means the outbox.
BoxKind parse_box(std::string_view text);
/// An empty name means the only store, and is refused where there are several; an empty kind means
/// any.
Store& find_store(const Stores& stores, std::string_view name, std::optional<BoxKind> kind);
/// The box that `?store=` and `?box=` mean.
WorkQueue& find_box(const Stores& stores, const RequestTarget& target);

/// The body of a request as a JSON object with no other members than these.
boost::json::object parse_body(const HttpRequest& request,
                               std::initializer_list<std::string_view> members);
/// A text member; empty when it is not there.
std::string text_member(const boost::json::object& object, std::string_view name);
bool bool_member(const boost::json::object& object, std::string_view name);
std::optional<Instant> instant_member(const boost::json::object& object, std::string_view name);

/// The members `state`, `topic`, `handler`, `source`, `id`, `correlation_id`, `error_contains`,
/// `created_since` and `created_before`, all of them texts.
Filter parse_filter(const boost::json::object& fields);

}  // namespace twinbox::app
