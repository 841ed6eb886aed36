#include "daemon/operation/message_operations.hpp"

#include <boost/json/array.hpp>
#include <type_traits>
#include <variant>

#include "daemon/config/config_reader.hpp"
#include "daemon/http/json.hpp"
#include "daemon/http/request_parameters.hpp"
#include <twinbox/error.hpp>
#include <twinbox/operations.hpp>

namespace twinbox::app {
namespace {

namespace json = boost::json;

std::vector<DeliveryKey> parse_deliveries(const json::value& value) {
  if (!value.is_array() || value.as_array().empty() || value.as_array().size() > 10'000) {
    throw HttpProblem(400,
                      "deliveries: expected a list of 1 to 10000 objects with number and handler");
  }
  std::vector<DeliveryKey> deliveries;
  for (const json::value& one : value.as_array()) {
    const json::value* number = one.is_object() ? one.as_object().if_contains("number") : nullptr;
    if (number == nullptr || !number->is_int64()) {
      throw HttpProblem(
          400, "deliveries: expected a number in each object, as returned by /v1/messages");
    }
    DeliveryKey key{.number = number->as_int64()};
    std::string handler = text_member(one.as_object(), "handler");
    if (!handler.empty()) key.handler = HandlerKey{std::move(handler)};
    deliveries.push_back(std::move(key));
  }
  return deliveries;
}

/// The group that now looks like this one; its count is of no importance.
DeadGroup parse_group(const json::value& value) {
  if (!value.is_object())
    throw HttpProblem(400, "group: expected an object as returned by /v1/dead_letter_groups");
  const json::object& object = value.as_object();
  const std::string handler = text_member(object, "handler");
  return {.topic = text_member(object, "topic"),
          .handler = handler.empty() ? HandlerKey::by_topic() : HandlerKey{handler},
          .error = text_member(object, "error"),
          .count = 0,
          .first_at = {},
          .last_at = {}};
}

using Selection = std::variant<std::vector<DeliveryKey>, Filter, DeadGroup>;

Selection parse_selection(const json::object& body) {
  const json::value* deliveries = body.if_contains("deliveries");
  const json::value* filter = body.if_contains("filter");
  const json::value* group = body.if_contains("group");
  if ((deliveries != nullptr) + (filter != nullptr) + (group != nullptr) != 1) {
    throw HttpProblem(400, "expected exactly one of deliveries, filter, group");
  }
  if (deliveries != nullptr) return parse_deliveries(*deliveries);
  if (group != nullptr) return parse_group(*group);
  if (!filter->is_object()) throw HttpProblem(400, "filter: expected an object");
  for (const auto& member : filter->as_object()) {
    // A script whose variable is not set means one topic, and would get all of them.
    if (member.value().is_string() && member.value().as_string().empty()) {
      throw HttpProblem(400, std::string{member.key()} + ": is empty; leave it out or set a value");
    }
  }
  return parse_filter(filter->as_object());
}

Operation parse_operation(const json::object& body, const std::string& actor) {
  Operation operation{.actor = actor.empty() ? "http" : actor,
                      .reason = text_member(body, "reason")};
  if (const json::value* limit = body.if_contains("limit")) {
    if (!limit->is_int64() || limit->as_int64() < 1) {
      throw HttpProblem(400, "limit: expected a whole number of at least 1");
    }
    operation.limit = limit->as_int64();
  }
  operation.dry_run = bool_member(body, "dry_run");
  return operation;
}

Duration parse_delay(const json::object& body) {
  const std::string text = text_member(body, "delay");
  if (text.empty()) return {};
  const auto delay = parse_duration(text);
  if (!delay) throw HttpProblem(400, "delay: expected a duration like \"30s\", \"5m\" or \"1h\"");
  return *delay;
}

When parse_when(const json::object& body) {
  const auto until = instant_member(body, "until");
  const bool delayed = !text_member(body, "delay").empty();
  if (delayed == until.has_value()) {
    throw HttpProblem(400, "expected exactly one of delay, until");
  }
  if (until) return *until;
  return parse_delay(body);
}

/// The verbs, each with everything that a selection can be.
std::size_t perform(Admin& admin, Verb verb, const Selection& selection, const json::object& body,
                    const Operation& how) {
  return std::visit(
      [&](const auto& what) -> std::size_t {
        switch (verb) {
          case Verb::requeue: return admin.requeue(what, parse_delay(body), how);
          case Verb::discard: return admin.discard(what, how);
          case Verb::postpone: break;
        }
        if constexpr (std::is_same_v<decltype(what), const DeadGroup&>) {
          throw HttpProblem(400,
                            "group: dead letters cannot be postponed; requeue them with a delay");
        } else {
          return admin.postpone(what, parse_when(body), how);
        }
      },
      selection);
}

/// What the request asks for can be known before anything is done.
void check(Verb verb, const Selection& selection, const json::object& body, const Operation& how) {
  if (verb == Verb::discard && how.reason.empty() && !how.dry_run) {
    throw HttpProblem(400, "reason: is required to discard");
  }
  if (verb == Verb::postpone) {
    parse_when(body);
    if (std::holds_alternative<DeadGroup>(selection)) {
      throw HttpProblem(400, "group: dead letters cannot be postponed; requeue them with a delay");
    }
  }
  parse_delay(body);
}

json::object result_json(const std::string& id, const OperationRunner::Result& result,
                         bool dry_run) {
  json::object out{{"operation_id", nullptr},
                   {"changed", result.changed},
                   {"finished", result.finished},
                   {"dry_run", dry_run}};
  if (!id.empty()) out["operation_id"] = id;
  return out;
}

/// An id of the client, or one made here so that its progress can be asked for.
std::string operation_id(const json::object& body, const Environment& environment) {
  std::string id = text_member(body, "operation_id");
  return id.empty() ? MessageId::make(environment).str() : id;
}

/// Runs an operation; an id that belongs to another operation is answered with a conflict.
template <class Call>
auto reject_reused_id(Admin& admin, const std::string& id, Call call) {
  try {
    return call();
  } catch (const UsageError& error) {
    if (admin.operation(id)) throw HttpProblem(422, error.what());
    throw;
  }
}

}  // namespace

HttpResponse run_operation(const Stores& stores, OperationRunner& runner, Verb verb,
                           const EndpointRequest& call) {
  const json::object body =
      parse_body(call.request, {"store", "box", "deliveries", "filter", "group", "delay", "until",
                                "reason", "limit", "dry_run", "operation_id"});
  if (verb != Verb::postpone && body.contains("until")) {
    throw HttpProblem(400, "until: unknown member; see /openapi.json");
  }
  const Selection selection = parse_selection(body);
  Operation how = parse_operation(body, call.actor);
  check(verb, selection, body, how);
  const BoxKind kind = parse_box(text_member(body, "box"));
  Store& store = find_store(stores, text_member(body, "store"), kind);
  if (how.dry_run) {
    Admin admin{box_of(store, kind)};
    return answer(result_json("", {perform(admin, verb, selection, body, how), true}, true));
  }
  const std::string id = operation_id(body, {});
  how.operation_id = id;
  const OperationRunner::Result result = runner.run(
      {&store, kind, id}, call.request.target + "\n" + call.request.body,
      [&store, kind, verb, selection, body,
       how](const OperationRunner::OnProgress& on_progress) mutable {
        Admin admin{box_of(store, kind)};
        how.on_progress = on_progress;
        return reject_reused_id(admin, how.operation_id,
                                [&] { return perform(admin, verb, selection, body, how); });
      });
  return answer(result_json(id, result, false), result.finished ? 200 : 202);
}

HttpResponse edit(const Stores& stores, const Redaction& redaction,
                  const std::function<void(const Store&, BoxKind)>& on_changed,
                  const EndpointRequest& call) {
  const json::object body = parse_body(
      call.request, {"store", "box", "number", "payload", "payload_base64", "headers",
                     "content_type", "content_version", "requeue", "reason", "operation_id"});
  const auto whole = [&](const char* name, std::int64_t most) {
    const json::value* value = body.if_contains(name);
    if (value == nullptr || !value->is_int64() || value->as_int64() < 0 ||
        value->as_int64() > most) {
      throw HttpProblem(
          400, std::string{name} + ": expected a whole number, as returned by /v1/messages");
    }
    return value->as_int64();
  };
  const std::int64_t number = whole("number", INT64_MAX);
  Admin::Edit change{.content_version = static_cast<int>(whole("content_version", INT32_MAX)),
                     .requeue = bool_member(body, "requeue")};
  if (body.contains("payload") && body.contains("payload_base64")) {
    throw HttpProblem(400, "payload: give either payload or payload_base64");
  }
  if (body.contains("payload")) change.payload = text_member(body, "payload");
  if (body.contains("payload_base64")) {
    change.payload = decode_base64(text_member(body, "payload_base64"));
    if (!change.payload) throw HttpProblem(400, "payload_base64: expected base64");
  }
  if (body.contains("headers")) change.headers = text_member(body, "headers");
  if (body.contains("content_type")) change.content_type = text_member(body, "content_type");
  if (!change.payload && !change.headers && !change.content_type) {
    throw HttpProblem(400,
                      "expected at least one of payload, payload_base64, headers, content_type");
  }
  if (change.payload) redaction.refuse_mask(*change.payload);
  const BoxKind kind = parse_box(text_member(body, "box"));
  Store& store = find_store(stores, text_member(body, "store"), kind);
  Admin admin{box_of(store, kind)};
  const std::string id = operation_id(body, {});
  Operation how{.actor = call.actor.empty() ? "http" : call.actor,
                .reason = text_member(body, "reason"),
                .operation_id = id};
  const Admin::Edited edited =
      reject_reused_id(admin, id, [&] { return admin.edit(number, change, how); });
  on_changed(store, kind);
  if (!edited.content_version) throw HttpProblem(404, "this box has no message with this number");
  if (!edited && *edited.content_version != *change.content_version) {
    throw HttpProblem(409, "the message was edited in the meantime and now has content version " +
                               std::to_string(*edited.content_version) + "; reload it");
  }
  if (!edited) throw HttpProblem(409, "the message is finished, or a worker holds it; reload it");
  json::object out = result_json(id, {1, true}, false);
  out["content_version"] = *edited.content_version;
  return answer(out);
}

}  // namespace twinbox::app
