#include "daemon/operations.hpp"

#include <algorithm>
#include <boost/json/array.hpp>

#include "daemon/act.hpp"
#include "daemon/json.hpp"
#include "daemon/parameters.hpp"
#include <twinbox/admin.hpp>

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

HttpResponse show(const Stores& stores, const Call& call) {
  refuse_unknown(call.target, {"store", "box", "source"});
  Admin admin{find_box(stores, call.target)};
  const MessageId id{call.target.segments[2]};
  const auto source = call.target.find("source");
  const auto detail = source ? admin.get({Source{std::string{*source}}, id}) : admin.get(id);
  if (!detail) throw Refused(404, "there is no message of that id in this box");
  return answer(to_json(*detail));
}

Health health_of(Store& store, BoxKind kind, const HealthThresholds& thresholds) {
  try {
    return check_health(box_of(store, kind), thresholds);
  } catch (const std::exception& error) {
    return {HealthState::unhealthy, {error.what()}};
  }
}

/// Healthy and degraded take requests; unhealthy answers 503, so that probes see it.
HttpResponse ready(const Stores& stores, const HealthThresholds& thresholds) {
  HealthState worst = HealthState::healthy;
  json::array boxes;
  for (const Stores::Entry& entry : stores.all()) {
    for (const BoxKind kind : {BoxKind::outbox, BoxKind::inbox}) {
      if (!serves(entry.boxes, kind)) continue;
      const Health health = health_of(*entry.store, kind, thresholds);
      worst = std::max(worst, health.state);
      json::array reasons;
      for (const std::string& reason : health.reasons) reasons.push_back(json::string{reason});
      boxes.push_back(json::object{{"store", entry.store->name()},
                                   {"box", json::string_view{to_string(kind)}},
                                   {"status", json::string_view{to_string(health.state)}},
                                   {"pending", health.pending},
                                   {"dead", health.dead},
                                   {"reasons", std::move(reasons)}});
    }
  }
  return answer(
      json::object{{"status", json::string_view{to_string(worst)}}, {"boxes", std::move(boxes)}},
      worst == HealthState::unhealthy ? 503 : 200);
}

}  // namespace

HttpResponse OperationMemory::once(const std::string& id, const std::string& content,
                                   const std::function<HttpResponse()>& act) {
  {
    const std::lock_guard lock{mutex_};
    const auto known = operations_.find(id);
    if (known != operations_.end()) {
      if (known->second.content != content) {
        throw Refused(422, "operation_id: was used before for something else");
      }
      if (known->second.running) throw Refused(409, "operation_id: is under way; ask again later");
      return known->second.response;
    }
    operations_[id] = {.content = content, .number = next_};
    order_[next_++] = id;
    if (order_.size() > 1000) {
      operations_.erase(order_.begin()->second);
      order_.erase(order_.begin());
    }
  }
  const auto forget = [&] {
    const std::lock_guard lock{mutex_};
    const auto known = operations_.find(id);
    if (known == operations_.end()) return;
    order_.erase(known->second.number);
    operations_.erase(known);
  };
  try {
    HttpResponse response = act();
    const std::lock_guard lock{mutex_};
    if (const auto known = operations_.find(id); known != operations_.end()) {
      known->second.running = false;
      known->second.response = response;
    }
    return response;
  } catch (...) {
    forget();
    throw;
  }
}

void add_operations(Router& router, const Stores& stores, OperationMemory& memory,
                    const HealthThresholds& health) {
  router.add({"GET", "/health/ready", Need::nothing,
              [&stores, health](const Call&) { return ready(stores, health); }});
  router.add({"GET", "/v1/messages", Need::read,
              [&stores](const Call& call) { return list(stores, call); }});
  router.add({"GET", "/v1/messages/{id}", Need::read,
              [&stores](const Call& call) { return show(stores, call); }});
  for (const std::string verb : {"requeue", "discard"}) {
    router.add(
        {"POST", "/v1/messages/" + verb, Need::operate, [&stores, &memory, verb](const Call& call) {
           return act(stores, memory, verb == "requeue", call);
         }});
  }
}

}  // namespace twinbox::app
