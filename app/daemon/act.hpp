// Acts of operators: what to act on, and how far.
#pragma once

#include <boost/json/object.hpp>
#include <string_view>

#include "daemon/operations.hpp"
#include <twinbox/admin.hpp>

namespace twinbox::app {

/// The members `state`, `topic`, `handler`, `source`, `id`, `correlation_id`, `error_contains`,
/// `created_since` and `created_before`, all of them texts. Throws Refused.
Filter parse_filter(const boost::json::object& fields);

/// Empty names mean the first store, and the outbox. Throws Refused.
WorkQueue& find_box(const Stores& stores, std::string_view store, std::string_view box);

/// POST /v1/messages/requeue and /discard.
HttpResponse act(const Stores& stores, OperationMemory& memory, bool requeue, const Call& call);

/// The body of a request as a JSON object with no other members than these. Throws Refused.
boost::json::object parse_body(const HttpRequest& request,
                               std::initializer_list<std::string_view> members);
/// A text member; empty when it is not there. Throws Refused when it is something else.
std::string text_member(const boost::json::object& object, std::string_view name);

}  // namespace twinbox::app
