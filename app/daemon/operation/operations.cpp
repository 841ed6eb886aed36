#include "daemon/operation/operations.hpp"

#include <algorithm>
#include <boost/json/array.hpp>

#include "daemon/http/json.hpp"
#include "daemon/http/request_parameters.hpp"
#include "daemon/operation/message_operations.hpp"
#include <twinbox/event.hpp>
#include <twinbox/health.hpp>
#include <twinbox/operations.hpp>

namespace twinbox::app {
namespace {

namespace json = boost::json;

Filter filter_of(const RequestTarget& target) {
  json::object fields;
  for (const auto& [name, value] : target.query) {
    if (name != "store" && name != "box" && name != "limit" && name != "after")
      fields[name] = value;
  }
  return parse_filter(fields);
}

/// The cursor at the end of a page: `number` or `number.handler`.
std::optional<DeliveryKey> parse_after(const RequestTarget& target) {
  const auto text = target.find("after");
  if (!text) return {};
  const std::size_t dot = std::min(text->find('.'), text->size());
  DeliveryKey key{.number = parse_number("after", text->substr(0, dot), 0, INT64_MAX)};
  if (dot + 1 < text->size()) key.handler = HandlerKey{std::string{text->substr(dot + 1)}};
  return key;
}

HttpResponse list(const Stores& stores, const EndpointRequest& call) {
  const Page page = Admin{find_box(stores, call.target)}.list(
      filter_of(call.target), number_of(call.target, "limit", 1, 1000, 50),
      parse_after(call.target));
  json::array messages;
  for (const DeliveryEntry& entry : page.entries) messages.push_back(to_json(entry));
  json::object out{{"messages", std::move(messages)}, {"next", nullptr}};
  if (page.next) {
    const std::string& handler = page.next->handler.str();
    out["next"] = std::to_string(page.next->number) + (handler.empty() ? "" : "." + handler);
  }
  return answer(out);
}

/// The trace of a message.
std::optional<std::string> trace_id(const MessageDetail& detail) {
  const auto trace = trace_of({.delivery_id = DeliveryId{1},
                               .epoch = 0,
                               .handler = HandlerKey::by_topic(),
                               .attempts = 0,
                               .expiries = 0,
                               .requeues = 0,
                               .visible_at = {},
                               .lease_until = {},
                               .last_error = {},
                               .source = detail.message.source,
                               .id = detail.message.id,
                               .topic = detail.message.topic.value_or(Topic{"-"}),
                               .payload = detail.payload,
                               .content_type = detail.message.content_type,
                               .headers = detail.headers,
                               .correlation_id = {},
                               .partition_key = {},
                               .hash = {},
                               .due_at = {},
                               .expires_at = {},
                               .created_at = {},
                               .last_seen_at = {},
                               .seen_count = 1,
                               .content_version = 1});
  if (!trace) return {};
  return trace->trace_id_text();
}

HttpResponse show(const Stores& stores, const DashboardConfig& dashboard,
                  const EndpointRequest& call) {
  refuse_unknown(call.target, {"store", "box", "source", "payload_limit"});
  const auto limit = number_of(call.target, "payload_limit", 0, 1024 * 1024, 64 * 1024);
  WorkQueue& box = find_box(stores, call.target);
  Admin admin{box};
  const MessageId id{call.target.segments[2]};
  const auto source = call.target.find("source");
  auto detail = source ? admin.get({Source{std::string{*source}}, id}) : admin.get(id);
  if (!detail) throw HttpProblem(404, "this box has no message with this id");
  json::object out = to_json(*detail);
  out["open_seconds"] = nullptr;
  if (const auto open = open_for(*detail, clock_of(box.database())))
    out["open_seconds"] = static_cast<double>(open->count()) / 1e6;
  out["trace_id"] = nullptr;
  out["trace_link"] = nullptr;
  if (const auto trace = trace_id(*detail)) {
    out["trace_id"] = *trace;
    if (std::string link = dashboard.trace_link; !link.empty()) {
      out["trace_link"] = link.replace(link.find("{trace_id}"), 10, *trace);
    }
  }
  out["payload_size"] = detail->payload.size();
  json::array redacted;
  for (const std::string& pointer : Redaction{dashboard.redact}.apply(detail->payload)) {
    redacted.push_back(json::string{pointer});
  }
  out["redacted"] = std::move(redacted);
  add_payload(out, detail->payload, static_cast<std::size_t>(limit));
  return answer(out);
}

HttpResponse show_operation(const Stores& stores, const EndpointRequest& call) {
  refuse_unknown(call.target, {"store", "box"});
  const std::string& id = call.target.segments[2];
  WorkQueue& box = find_box(stores, call.target);
  const auto entry = is_utf8(id) ? Admin{box}.operation(id) : std::nullopt;
  if (!entry) throw HttpProblem(404, "this box has no operation with this id");
  return answer(json::object{{"operation_id", id},
                             {"action", entry->action},
                             {"actor", entry->actor},
                             {"reason", entry->reason},
                             {"started_at", to_json(entry->started_at)},
                             {"at", to_json(entry->at)},
                             {"changed", entry->affected},
                             {"finished", entry->finished}});
}

HttpResponse list_audit(const Stores& stores, const EndpointRequest& call) {
  refuse_unknown(call.target, {"store", "box", "limit", "after"});
  std::optional<std::int64_t> after;
  if (const auto text = call.target.find("after")) {
    after = parse_number("after", *text, 0, INT64_MAX);
  }
  const AuditPage page = Admin{find_box(stores, call.target)}.audit(
      number_of(call.target, "limit", 1, 1000, 50), after);
  json::array entries;
  for (const AuditEntry& entry : page.entries) entries.push_back(to_json(entry));
  json::object out{{"entries", std::move(entries)}, {"next", nullptr}};
  if (page.next) out["next"] = std::to_string(*page.next);
  return answer(out);
}

}  // namespace

void add_operations(HttpRouter& router, const Stores& stores, OperationRunner& runner,
                    const Config& config,
                    const std::function<void(const Store&, BoxKind)>& on_changed) {
  const auto add_read = [&](std::string path,
                            std::function<HttpResponse(const EndpointRequest&)> call) {
    router.add({.method = "GET",
                .path = std::move(path),
                .need = RequiredAccess::read,
                .call = std::move(call),
                .reads_store = true});
  };
  add_read("/v1/messages", [&stores](const EndpointRequest& call) { return list(stores, call); });
  add_read("/v1/messages/{id}",
           [&stores, dashboard = config.dashboard](const EndpointRequest& call) {
             return show(stores, dashboard, call);
           });
  add_read("/v1/operations/{id}",
           [&stores](const EndpointRequest& call) { return show_operation(stores, call); });
  add_read("/v1/audit",
           [&stores](const EndpointRequest& call) { return list_audit(stores, call); });
  for (const auto& [name, verb] :
       {std::pair{"requeue", Verb::requeue}, std::pair{"discard", Verb::discard},
        std::pair{"postpone", Verb::postpone}}) {
    router.add({"POST", std::string{"/v1/messages/"} + name, RequiredAccess::operate,
                [&stores, &runner, what = verb](const EndpointRequest& call) {
                  return run_operation(stores, runner, what, call);
                }});
  }
  router.add(
      {"POST", "/v1/messages/edit", RequiredAccess::operate,
       [&stores, redaction = Redaction{config.dashboard.redact}, on_changed](
           const EndpointRequest& call) { return edit(stores, redaction, on_changed, call); }});
}

}  // namespace twinbox::app
