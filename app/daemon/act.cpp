#include "daemon/act.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <variant>

#include "daemon/config_reader.hpp"
#include "daemon/json.hpp"

namespace twinbox::app {
namespace {

namespace json = boost::json;

json::string_view view(std::string_view text) { return {text.data(), text.size()}; }

void refuse_unknown(const json::object& object, std::initializer_list<std::string_view> known) {
  for (const auto& member : object) {
    const std::string_view name{member.key().data(), member.key().size()};
    if (std::ranges::find(known, name) == known.end()) {
      throw Refused(400, std::string{name} + ": there is no such member here");
    }
  }
}

std::optional<Instant> instant_member(const json::object& object, std::string_view name) {
  const std::string text = text_member(object, name);
  if (text.empty()) return {};
  const auto instant = parse_instant(text);
  if (!instant) {
    throw Refused(400, std::string{name} + ": expected a time like 2026-01-31T12:00:00Z");
  }
  return instant;
}

template <class Text>
std::optional<Text> bounded_member(const json::object& object, std::string_view name) {
  std::string text = text_member(object, name);
  if (text.empty()) return {};
  return Text{std::move(text)};
}

std::vector<DutyKey> parse_duties(const json::value& value) {
  if (!value.is_array() || value.as_array().empty() || value.as_array().size() > 10'000) {
    throw Refused(400, "duties: expected a list of 1 to 10000 objects with number and handler");
  }
  std::vector<DutyKey> duties;
  for (const json::value& one : value.as_array()) {
    const json::value* number = one.is_object() ? one.as_object().if_contains("number") : nullptr;
    if (number == nullptr || !number->is_int64()) {
      throw Refused(400, "duties: each has a number, as /v1/messages shows it");
    }
    DutyKey key{.number = number->as_int64()};
    std::string handler = text_member(one.as_object(), "handler");
    if (!handler.empty()) key.handler = HandlerKey{std::move(handler)};
    duties.push_back(std::move(key));
  }
  return duties;
}

/// The group that now looks like this one; its count is of no importance.
DeadGroup parse_group(const json::value& value) {
  if (!value.is_object()) throw Refused(400, "group: expected an object as /v1/groups shows it");
  const json::object& object = value.as_object();
  const std::string handler = text_member(object, "handler");
  return {.topic = text_member(object, "topic"),
          .handler = handler.empty() ? HandlerKey::by_topic() : HandlerKey{handler},
          .error = text_member(object, "error"),
          .count = 0,
          .first_at = {},
          .last_at = {}};
}

using Scope = std::variant<std::vector<DutyKey>, Filter, DeadGroup>;

Scope parse_scope(const json::object& body) {
  const json::value* duties = body.if_contains("duties");
  const json::value* filter = body.if_contains("filter");
  const json::value* group = body.if_contains("group");
  if ((duties != nullptr) + (filter != nullptr) + (group != nullptr) != 1) {
    throw Refused(400, "say what to act on by one of: duties, filter, group");
  }
  if (duties != nullptr) return parse_duties(*duties);
  if (group != nullptr) return parse_group(*group);
  if (!filter->is_object()) throw Refused(400, "filter: expected an object");
  return parse_filter(filter->as_object());
}

Act parse_act(const json::object& body, const std::string& actor) {
  Act act{.actor = actor.empty() ? "http" : actor, .reason = text_member(body, "reason")};
  if (const json::value* limit = body.if_contains("limit")) {
    if (!limit->is_int64() || limit->as_int64() < 1) {
      throw Refused(400, "limit: expected a whole number of at least 1");
    }
    act.limit = limit->as_int64();
  }
  if (const json::value* dry_run = body.if_contains("dry_run")) {
    if (!dry_run->is_bool()) throw Refused(400, "dry_run: expected true or false");
    act.dry_run = dry_run->as_bool();
  }
  return act;
}

Duration parse_delay(const json::object& body) {
  const std::string text = text_member(body, "delay");
  if (text.empty()) return {};
  const auto delay = parse_duration(text);
  if (!delay) throw Refused(400, "delay: expected a time like \"30s\", \"5m\" or \"1h\"");
  return *delay;
}

}  // namespace

json::object parse_body(const HttpRequest& request,
                        std::initializer_list<std::string_view> members) {
  boost::system::error_code error;
  json::value value =
      request.body.empty() ? json::value(json::object{}) : json::parse(view(request.body), error);
  if (error || !value.is_object()) throw Refused(400, "the body is no JSON object");
  refuse_unknown(value.as_object(), members);
  return std::move(value.as_object());
}

std::string text_member(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(view(name));
  if (value == nullptr || value->is_null()) return {};
  if (!value->is_string()) throw Refused(400, std::string{name} + ": expected a text");
  return std::string{value->as_string().data(), value->as_string().size()};
}

Filter parse_filter(const json::object& fields) {
  refuse_unknown(fields, {"state", "topic", "handler", "source", "id", "correlation_id",
                          "error_contains", "created_since", "created_before"});
  Filter filter;
  if (const std::string text = text_member(fields, "state"); !text.empty()) {
    const auto state = parse_state(text);
    if (!state) {
      throw Refused(400,
                    "state: expected one of ready, scheduled, leased, waiting, open, done, "
                    "dead, discarded, marked, seen, any");
    }
    filter.state = *state;
  }
  filter.topic = bounded_member<Topic>(fields, "topic");
  filter.handler = bounded_member<HandlerKey>(fields, "handler");
  filter.source = bounded_member<Source>(fields, "source");
  filter.id = bounded_member<MessageId>(fields, "id");
  filter.correlation_id = bounded_member<CorrelationId>(fields, "correlation_id");
  if (std::string text = text_member(fields, "error_contains"); !text.empty()) {
    filter.error_contains = std::move(text);
  }
  filter.created_since = instant_member(fields, "created_since");
  filter.created_before = instant_member(fields, "created_before");
  return filter;
}

HttpResponse act(const Stores& stores, OperationMemory& memory, bool requeue, const Call& call) {
  const json::object body =
      parse_body(call.request, {"store", "box", "duties", "filter", "group", "delay", "reason",
                                "limit", "dry_run", "operation_id"});
  const Scope scope = parse_scope(body);
  const Act how = parse_act(body, call.actor);
  const Duration delay = parse_delay(body);
  if (!requeue && how.reason.empty()) throw Refused(400, "reason: is needed to discard");
  WorkQueue& queue = find_box(stores, text_member(body, "store"), text_member(body, "box"));
  const std::string id = text_member(body, "operation_id");
  const auto run = [&] {
    Admin admin{queue};
    const std::size_t changed = std::visit(
        [&](const auto& what) {
          return requeue ? admin.requeue(what, delay, how) : admin.discard(what, how);
        },
        scope);
    return answer(json::object{{"changed", changed}, {"dry_run", how.dry_run}});
  };
  if (id.empty() || how.dry_run) return run();
  return memory.once(id, call.request.target + "\n" + call.request.body, run);
}

}  // namespace twinbox::app
