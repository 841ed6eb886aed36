// Dead letters that look alike, and who works on the boxes.
#include <algorithm>
#include <boost/json/array.hpp>

#include "daemon/config/secrets.hpp"
#include "daemon/dashboard/overview.hpp"
#include "daemon/http/json.hpp"

namespace twinbox::app {
namespace {

namespace json = boost::json;

json::string_view view(std::string_view text) { return {text.data(), text.size()}; }

/// The dead letters that `query` is about, as far as a report tells.
std::int64_t dead_of(const BoxReport& report, const GroupsQuery& query) {
  if (query.topic.empty()) return report.counts.all.dead;
  const auto found = report.counts.by_topic.find(std::string{query.topic});
  return found == report.counts.by_topic.end() ? 0 : found->second.dead;
}

/// Rows of a list, as many as fit; the others are counted.
struct Rows {
  json::array rows = {};
  std::int64_t other = 0;

  void add(const std::string& store, BoxKind kind, json::object row) {
    if (rows.size() >= max_workers) {
      ++other;
      return;
    }
    row["store"] = store;
    row["box"] = view(to_string(kind));
    rows.push_back(std::move(row));
  }
};

/// Those who hold leases and have sent no heartbeat are known by their owner alone.
void add_workers(Rows& rows, const BoxReport& report) {
  const std::string& store = report.store->name();
  std::map<Uuid, std::int64_t> holders = report.counts.by_owner;
  for (const Worker& worker : report.workers) {
    rows.add(store, report.kind,
             {{"owner", worker.owner.str()},
              {"name", worker.name},
              {"version", worker.version},
              {"started_at", to_json(worker.started_at)},
              {"seen_at", to_json(worker.seen_at)},
              {"leases", holders[worker.owner.uuid()]},
              {"done", worker.done},
              {"failed", worker.failed}});
    holders.erase(worker.owner.uuid());
  }
  for (const auto& [owner, count] : holders) {
    rows.add(store, report.kind,
             {{"owner", owner.str()},
              {"name", nullptr},
              {"version", nullptr},
              {"started_at", nullptr},
              {"seen_at", nullptr},
              {"leases", count},
              {"done", nullptr},
              {"failed", nullptr}});
  }
  rows.other += report.counts.other_owners.names;
}

}  // namespace

json::object groups_json(const Reports& reports, const GroupsQuery& query) {
  std::optional<Instant> at;
  std::vector<std::pair<const BoxReport*, const DeadGroup*>> found;
  std::int64_t dead = 0;
  for (const auto& report : reports) {
    if ((!query.store.empty() && report->store->name() != query.store) ||
        (query.kind && report->kind != *query.kind)) {
      continue;
    }
    if (report->at) at = std::min(at.value_or(*report->at), *report->at);
    dead += dead_of(*report, query);
    for (const DeadGroup& group : report->dead.groups) {
      if (query.topic.empty() || group.topic == query.topic)
        found.emplace_back(report.get(), &group);
    }
  }
  std::ranges::stable_sort(found, std::greater{},
                           [](const auto& one) { return one.second->last_at; });
  json::array groups;
  for (const auto& [report, group] : found) {
    if (groups.size() >= query.limit) break;
    json::object out = to_json(*group);
    out["store"] = report->store->name();
    out["box"] = view(to_string(report->kind));
    groups.push_back(std::move(out));
    dead -= group->count;
  }
  json::object out{
      {"at", nullptr}, {"groups", std::move(groups)}, {"other", std::max<std::int64_t>(0, dead)}};
  if (at) out["at"] = to_json(*at);
  return out;
}

json::object workers_json(const Reports& reports, const Throughput& throughput,
                          std::string_view store) {
  Rows workers, leases, housekeeping;
  for (const auto& report : reports) {
    const std::string& name = report->store->name();
    if (!store.empty() && name != store) continue;
    add_workers(workers, *report);
    for (const LeaseHolder& holder : report->leases) {
      leases.add(name, report->kind,
                 {{"name", holder.lease.name.str()},
                  {"owner", holder.lease.owner.str()},
                  {"until", to_json(holder.until)}});
    }
  }
  for (const Throughput::ChoreView& chore : throughput.chores()) {
    if (!store.empty() && chore.store != store) continue;
    json::object out{{"chore", view(to_string(chore.report.chore))},
                     {"last_at", to_json(std::chrono::floor<std::chrono::microseconds>(chore.at))},
                     {"rows", chore.report.count},
                     {"end", view(to_string(chore.report.end))},
                     {"error", nullptr}};
    if (!chore.report.error.empty()) out["error"] = without_secrets(chore.report.error);
    housekeeping.add(chore.store, chore.kind, std::move(out));
  }
  return {{"workers", std::move(workers.rows)},
          {"leases", std::move(leases.rows)},
          {"housekeeping", std::move(housekeeping.rows)},
          {"other", json::object{{"workers", workers.other},
                                 {"leases", leases.other},
                                 {"housekeeping", housekeeping.other}}}};
}

}  // namespace twinbox::app
