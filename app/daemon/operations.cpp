#include "daemon/operations.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <charconv>

#include "daemon/act.hpp"
#include "daemon/json.hpp"
#include <twinbox/admin.hpp>

namespace twinbox::app {
namespace {

namespace json = boost::json;

BoxKind parse_box(std::string_view text) {
  if (text.empty() || text == "outbox") return BoxKind::outbox;
  if (text == "inbox") return BoxKind::inbox;
  throw Refused(400, "box: expected outbox or inbox");
}

std::int64_t parse_number(std::string_view name, std::string_view text, std::int64_t low,
                          std::int64_t high) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < low || number > high) {
    throw Refused(400, std::string{name} + ": expected a whole number from " + std::to_string(low) +
                           " to " + std::to_string(high));
  }
  return number;
}

/// The box that `?store=` and `?box=` mean.
WorkQueue& chosen(const Stores& stores, const Target& target) {
  return find_box(stores, target.find("store").value_or(""), target.find("box").value_or(""));
}

void refuse_unknown(const Target& target, std::initializer_list<std::string_view> known) {
  for (const auto& [name, value] : target.query) {
    if (std::ranges::find(known, std::string_view{name}) == known.end()) {
      throw Refused(400, "there is no parameter '" + name + "' here");
    }
  }
}

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
  const auto limit = call.target.find("limit");
  const Page page = Admin{chosen(stores, call.target)}.list(
      filter_of(call.target), limit ? parse_number("limit", *limit, 1, 1000) : 50,
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
  Admin admin{chosen(stores, call.target)};
  const MessageId id{call.target.segments[2]};
  const auto source = call.target.find("source");
  const auto detail = source ? admin.get({Source{std::string{*source}}, id}) : admin.get(id);
  if (!detail) throw Refused(404, "there is no message of that id in this box");
  return answer(to_json(*detail));
}

HttpResponse list_groups(const Stores& stores, const Call& call) {
  refuse_unknown(call.target, {"store", "box"});
  json::array groups;
  for (const DeadGroup& group : Admin{chosen(stores, call.target)}.dead_groups()) {
    groups.push_back(to_json(group));
  }
  return answer(json::object{{"groups", std::move(groups)}});
}

json::object box_json(Store& store, BoxKind kind) {
  json::object out{{"box", json::string_view{to_string(kind)}}};
  try {
    const Counts counts = Admin{box_of(store, kind)}.counts();
    out["counts"] = to_json(counts.all);
    json::object topics;
    for (const auto& [topic, of_topic] : counts.by_topic) topics[topic] = to_json(of_topic);
    out["topics"] = std::move(topics);
  } catch (const std::exception& error) {
    out["error"] = error.what();
  }
  return out;
}

HttpResponse list_stores(const Stores& stores, const Call&) {
  json::array list;
  for (const Stores::Entry& entry : stores.all()) {
    json::array boxes;
    for (const BoxKind kind : {BoxKind::outbox, BoxKind::inbox}) {
      if (serves(entry.boxes, kind)) boxes.push_back(box_json(*entry.store, kind));
    }
    list.push_back(
        json::object{{"name", entry.store->name()},
                     {"dialect", json::string_view{to_string(entry.store->database().dialect())}},
                     {"boxes", std::move(boxes)}});
  }
  return answer(json::object{{"stores", std::move(list)}});
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

WorkQueue& find_box(const Stores& stores, std::string_view store, std::string_view box) {
  const BoxKind kind = parse_box(box);
  Store* found = stores.find(store, kind);
  if (found == nullptr) {
    throw Refused(404, "there is no store '" + std::string{store} + "' with an " +
                           std::string{to_string(kind)} + " here; /v1/stores lists them");
  }
  return app::box_of(*found, kind);
}

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
  router.add({"GET", "/v1/stores", Need::read,
              [&stores](const Call& call) { return list_stores(stores, call); }});
  router.add({"GET", "/v1/messages", Need::read,
              [&stores](const Call& call) { return list(stores, call); }});
  router.add({"GET", "/v1/messages/{id}", Need::read,
              [&stores](const Call& call) { return show(stores, call); }});
  router.add({"GET", "/v1/groups", Need::read,
              [&stores](const Call& call) { return list_groups(stores, call); }});
  for (const std::string verb : {"requeue", "discard"}) {
    router.add(
        {"POST", "/v1/messages/" + verb, Need::operate, [&stores, &memory, verb](const Call& call) {
           return act(stores, memory, verb == "requeue", call);
         }});
  }
}

}  // namespace twinbox::app
