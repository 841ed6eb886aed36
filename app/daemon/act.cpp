#include "daemon/act.hpp"

#include <boost/json/array.hpp>
#include <variant>

#include "daemon/config_reader.hpp"
#include "daemon/json.hpp"
#include "daemon/parameters.hpp"
#include <twinbox/admin.hpp>

namespace twinbox::app {
namespace {

namespace json = boost::json;

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
  act.dry_run = bool_member(body, "dry_run");
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

HttpResponse act(const Stores& stores, OperationMemory& memory, bool requeue, const Call& call) {
  const json::object body =
      parse_body(call.request, {"store", "box", "duties", "filter", "group", "delay", "reason",
                                "limit", "dry_run", "operation_id"});
  const Scope scope = parse_scope(body);
  const Act how = parse_act(body, call.actor);
  const Duration delay = parse_delay(body);
  if (!requeue && how.reason.empty()) throw Refused(400, "reason: is needed to discard");
  const BoxKind kind = parse_box(text_member(body, "box"));
  Store& store = find_store(stores, text_member(body, "store"), kind);
  WorkQueue& queue = box_of(store, kind);
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
