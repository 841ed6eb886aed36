#include "daemon/operations.hpp"

#include <algorithm>
#include <boost/json/array.hpp>

#include "daemon/act.hpp"
#include "daemon/json.hpp"
#include "daemon/parameters.hpp"
#include <twinbox/admin.hpp>
#include <twinbox/doctor.hpp>
#include <twinbox/trace.hpp>

namespace twinbox::app {
namespace {

namespace json = boost::json;

Filter filter_of(const Target& target) {
  json::object fields;
  for (const auto& [name, value] : target.query) {
    if (name != "store" && name != "box" && name != "limit" && name != "after")
      fields[name] = value;
  }
  return parse_filter(fields);
}

/// Where a page ends, as `number` or `number.handler`.
std::optional<DutyKey> parse_after(const Target& target) {
  const auto text = target.find("after");
  if (!text) return {};
  const std::size_t dot = std::min(text->find('.'), text->size());
  DutyKey key{.number = parse_number("after", text->substr(0, dot), 0, INT64_MAX)};
  if (dot + 1 < text->size()) key.handler = HandlerKey{std::string{text->substr(dot + 1)}};
  return key;
}

HttpResponse list(const Stores& stores, const Call& call) {
  const Page page = Admin{find_box(stores, call.target)}.list(
      filter_of(call.target), number_of(call.target, "limit", 1, 1000, 50),
      parse_after(call.target));
  json::array messages;
  for (const Entry& entry : page.entries) messages.push_back(to_json(entry));
  json::object out{{"messages", std::move(messages)}, {"next", nullptr}};
  if (page.next) {
    const std::string& handler = page.next->handler.str();
    out["next"] = std::to_string(page.next->number) + (handler.empty() ? "" : "." + handler);
  }
  return answer(out);
}

/// The trace that a message belongs to.
std::optional<std::string> trace_id(const MessageDetail& detail) {
  const auto trace = trace_of({.work_id = WorkId{1},
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

HttpResponse show(const Stores& stores, const DashboardConfig& dashboard, const Call& call) {
  refuse_unknown(call.target, {"store", "box", "source", "payload_limit"});
  const auto limit = number_of(call.target, "payload_limit", 0, 1024 * 1024, 64 * 1024);
  WorkQueue& box = find_box(stores, call.target);
  Admin admin{box};
  const MessageId id{call.target.segments[2]};
  const auto source = call.target.find("source");
  auto detail = source ? admin.get({Source{std::string{*source}}, id}) : admin.get(id);
  if (!detail) throw Refused(404, "there is no message of that id in this box");
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

HttpResponse show_operation(const Stores& stores, const Call& call) {
  refuse_unknown(call.target, {"store", "box"});
  const std::string& id = call.target.segments[2];
  WorkQueue& box = find_box(stores, call.target);
  const auto entry = is_utf8(id) ? Admin{box}.operation(id) : std::nullopt;
  if (!entry) throw Refused(404, "nothing has been asked for under this id in this box");
  return answer(json::object{{"operation_id", id},
                             {"act", entry->act},
                             {"actor", entry->actor},
                             {"reason", entry->reason},
                             {"started_at", to_json(entry->started_at)},
                             {"at", to_json(entry->at)},
                             {"changed", entry->affected},
                             {"finished", entry->finished}});
}

HttpResponse list_audit(const Stores& stores, const Call& call) {
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

void add_operations(Router& router, const Stores& stores, ActRunner& runner, const Config& config,
                    const std::function<void(const Store&, BoxKind)>& acted) {
  const auto add_read = [&](std::string path, std::function<HttpResponse(const Call&)> call) {
    router.add({.method = "GET",
                .path = std::move(path),
                .need = Need::read,
                .call = std::move(call),
                .reads_store = true});
  };
  add_read("/v1/messages", [&stores](const Call& call) { return list(stores, call); });
  add_read("/v1/messages/{id}", [&stores, dashboard = config.dashboard](const Call& call) {
    return show(stores, dashboard, call);
  });
  add_read("/v1/operations/{id}",
           [&stores](const Call& call) { return show_operation(stores, call); });
  add_read("/v1/audit", [&stores](const Call& call) { return list_audit(stores, call); });
  for (const auto& [name, verb] :
       {std::pair{"requeue", Verb::requeue}, std::pair{"discard", Verb::discard},
        std::pair{"postpone", Verb::postpone}}) {
    router.add({"POST", std::string{"/v1/messages/"} + name, Need::operate,
                [&stores, &runner, what = verb](const Call& call) {
                  return act(stores, runner, what, call);
                }});
  }
  router.add({"POST", "/v1/messages/edit", Need::operate,
              [&stores, redaction = Redaction{config.dashboard.redact}, acted](const Call& call) {
                return edit(stores, redaction, acted, call);
              }});
}

}  // namespace twinbox::app
