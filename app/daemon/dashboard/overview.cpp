#include "daemon/dashboard/overview.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <cmath>

#include "daemon/config/secrets.hpp"
#include "daemon/http/json.hpp"
#include <twinbox/event.hpp>

namespace twinbox::app {
namespace {

namespace json = boost::json;

constexpr std::size_t max_reasons = 100;  // of a thousand stores that are away, these will do

json::string_view view(std::string_view text) { return {text.data(), text.size()}; }

/// Due and not finished, as check_health() has it.
std::int64_t pending(const StateCounts& counts) {
  return counts.ready + counts.leased + counts.waiting;
}

struct Reason {
  std::string_view about;  ///< store, dead, key, pending, pause, topic, route
  HealthState state;
  std::string text;
};

std::string waiting_text(std::int64_t waiting) {
  return (waiting == HeldKey::max_counted ? "at least " : "") + std::to_string(waiting) +
         (waiting == 1 ? " waits" : " wait");
}

std::vector<Reason> reasons_of(const BoxReport& report, const HealthThresholds& thresholds) {
  std::vector<Reason> reasons;
  if (!report.error.empty()) {
    reasons.push_back(
        {"store", HealthState::unhealthy, "cannot be queried: " + without_secrets(report.error)});
  } else if (const auto refusal = write_refusal(report.store->database())) {
    reasons.push_back(
        {"store", HealthState::unhealthy, "cannot accept writes: " + without_secrets(*refusal)});
  }
  const StateCounts& counts = report.counts.all;
  const auto more_than = [](std::int64_t count, std::string_view what, std::int64_t threshold) {
    return std::to_string(count) + " " + std::string{what} + ", more than " +
           std::to_string(threshold);
  };
  if (counts.dead > thresholds.dead) {
    reasons.push_back(
        {"dead", HealthState::unhealthy, more_than(counts.dead, "dead letters", thresholds.dead)});
  }
  if (pending(counts) > thresholds.pending) {
    reasons.push_back({"pending", HealthState::degraded,
                       more_than(pending(counts), "pending", thresholds.pending)});
  }
  for (const HeldKey& held : report.held_keys) {
    if (held.requeued) continue;
    reasons.push_back({"dead", HealthState::degraded,
                       "dead letter " + held.id.str() + " blocks partition key " + held.key.str() +
                           ", " + waiting_text(held.waiting) + "; requeue or discard it"});
    if (reasons.size() >= max_reasons) break;
  }
  for (const BlockedKey& blocked : report.blocked_keys) {
    if (reasons.size() >= max_reasons) break;
    reasons.push_back({"key", HealthState::degraded,
                       "partition key " + blocked.key.str() + " waits for " + blocked.id.str() +
                           ", which is due " + Timestamp{blocked.due_at}.str() + ": " +
                           waiting_text(blocked.waiting) +
                           "; postpone it to an earlier time or discard it"});
  }
  return reasons;
}

json::object reason_json(json::value store, json::value box, const Reason& reason) {
  return {{"store", std::move(store)},
          {"box", std::move(box)},
          {"about", view(reason.about)},
          {"status", view(to_string(reason.state))},
          {"text", reason.text}};
}

/// A pause is a reason why nothing is delivered.
void add_paused(json::array& reasons, const Dispatchers::View& dispatch) {
  const auto add = [&](std::string_view about, json::value store, json::value box,
                       std::string text) {
    reasons.push_back(reason_json(std::move(store), std::move(box),
                                  {about, HealthState::degraded, std::move(text)}));
  };
  if (dispatch.paused) add("pause", nullptr, nullptr, "delivery is paused");
  for (const std::string& store : dispatch.paused_stores) {
    add("pause", json::string{store}, nullptr, "delivery is paused");
  }
  for (const std::string& topic : dispatch.paused_topics) {
    add("topic", nullptr, nullptr, "delivery of " + topic + " is paused");
  }
  for (const Dispatchers::RouteView& route : dispatch.routes) {
    if (route.status.enabled || route.status.postponed == 0) continue;  // nothing waits for it
    add("route", nullptr, view(to_string(route.box)),
        "route " + route.status.name + " is disabled: " + route.status.reason);
  }
}

void add(StateCounts& sum, const StateCounts& counts) {
  sum.ready += counts.ready;
  sum.scheduled += counts.scheduled;
  sum.leased += counts.leased;
  sum.waiting += counts.waiting;
  sum.dead += counts.dead;
  sum.oldest_pending = std::max(sum.oldest_pending, counts.oldest_pending);
  sum.oldest_open = std::max(sum.oldest_open, counts.oldest_open);
}

void add_rates(json::object& out, const Rates& rates) {
  const auto rounded = [](double value) { return std::round(value * 10) / 10; };
  out["done_per_minute"] = rounded(rates.done_per_minute);
  out["failed_per_minute"] = rounded(rates.failed_per_minute);
  out["error_rate"] = nullptr;
  if (rates.error_rate) out["error_rate"] = std::round(*rates.error_rate * 1e4) / 1e4;
}

json::object kind_json(BoxKind kind, const Reports& reports, const Throughput& throughput) {
  StateCounts sum;
  for (const auto& report : reports) {
    if (report->kind == kind) add(sum, report->counts.all);
  }
  json::object out{{"box", view(to_string(kind))}, {"counts", to_json(sum)}, {"open", sum.open()}};
  add_rates(out, throughput.rates(kind));
  const Histogram times = throughput.handler_times(kind);
  out["p50_ms"] = nullptr;
  out["p99_ms"] = nullptr;
  if (times.count > 0) {
    out["p50_ms"] = times.p50() / 1000;
    out["p99_ms"] = times.p99() / 1000;
  }
  return out;
}

/// The topics with the most, at most `room`; the others are summed up.
void add_topics(json::object& out, const BoxReport& report, const Throughput& throughput,
                const Dispatchers::View& dispatch, std::size_t room) {
  std::map<std::string, Rates> rates = throughput.topics(report.kind, report.store->name());
  std::map<std::string, StateCounts> counts = report.counts.by_topic;
  Counts::Other other = report.counts.other_topics;
  if (other.names == 0) {  // else what is missing among the counts is one of those
    for (const auto& [topic, rate] : rates) counts.try_emplace(topic);  // busy, with nothing open
  }
  const auto weight = [&](const std::pair<const std::string, StateCounts>* one) {
    const auto rate = rates.find(one->first);
    return std::pair{one->second.open() + one->second.dead,
                     rate == rates.end() ? 0.0 : rate->second.done_per_minute};
  };
  std::vector<const std::pair<const std::string, StateCounts>*> sorted;
  for (const auto& one : counts) sorted.push_back(&one);
  std::ranges::stable_sort(sorted, std::greater{}, weight);
  json::object topics;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const auto& [topic, of_topic] = *sorted[i];
    if (i >= room) {
      ++other.names;
      add(other.counts, of_topic);
      continue;
    }
    json::object one = to_json(of_topic);
    add_rates(one, rates[topic]);
    const auto& paused = dispatch.paused_topics;
    one["paused"] = std::ranges::find(paused, topic) != paused.end();
    topics[topic] = std::move(one);
  }
  out["topics"] = std::move(topics);
  out["other_topics"] = nullptr;
  if (other.names > 0) {
    out["other_topics"] = json::object{{"topics", other.names}, {"counts", to_json(other.counts)}};
  }
}

json::object box_json(const BoxReport& report, const Throughput& throughput,
                      const Dispatchers::View& dispatch, const HealthThresholds& thresholds,
                      std::size_t topics) {
  const auto& paused = dispatch.paused_stores;
  const std::string& store = report.store->name();
  json::object out{{"box", view(to_string(report.kind))},
                   {"at", nullptr},
                   {"status", view(to_string(health_of(report, thresholds)))},
                   {"paused", dispatch.paused || std::ranges::find(paused, store) != paused.end()}};
  add_rates(out, throughput.rates(report.kind, store));
  if (!report.asked) out["error"] = "not queried yet";
  if (!report.error.empty()) {
    out["error"] = without_secrets(report.error);
  } else if (const auto refusal = write_refusal(report.store->database())) {
    out["error"] = "cannot accept writes: " + without_secrets(*refusal);
  }
  if (!report.at) return out;
  out["at"] = to_json(*report.at);
  out["counts"] = to_json(report.counts.all);
  add_topics(out, report, throughput, dispatch, topics);
  return out;
}

/// The reports of the stores on the page, those of one store together, and the name of its last
/// store where more follow.
struct ReportPage {
  std::vector<StatsCollector::Report> reports;
  std::string next;
};

ReportPage cut_page(const Reports& reports, const StoresQuery& page) {
  ReportPage cut;
  const Store* last = nullptr;
  std::size_t stores = 0;
  bool begun = page.after.empty();
  for (const auto& report : reports) {
    const std::string& name = report->store->name();
    if (!page.store.empty() && name != page.store) continue;
    if (!begun || name == page.after) {
      begun = begun || name == page.after;
      continue;
    }
    if (report->store != last && ++stores > page.limit) {
      cut.next = last->name();
      break;
    }
    last = report->store;
    cut.reports.push_back(report);
  }
  return cut;
}

}  // namespace

HealthState health_of(const BoxReport& report, const HealthThresholds& thresholds) {
  HealthState worst = HealthState::healthy;
  for (const Reason& reason : reasons_of(report, thresholds)) {
    worst = std::max(worst, reason.state);
  }
  return worst;
}

json::object overview_json(const Reports& reports, const Throughput& throughput,
                           const Dispatchers::View& dispatch, const HealthThresholds& thresholds) {
  std::optional<Instant> at;
  json::array unhealthy, degraded, boxes;
  std::vector<const Store*> stores, unreachable;
  const auto note = [](std::vector<const Store*>& list, const Store* store) {
    if (std::ranges::find(list, store) == list.end()) list.push_back(store);
  };
  for (const auto& report : reports) {
    note(stores, report->store);
    if (!report->error.empty()) note(unreachable, report->store);
    at = std::max(at, report->at);
    for (const Reason& reason : reasons_of(*report, thresholds)) {
      (reason.state == HealthState::unhealthy ? unhealthy : degraded)
          .push_back(reason_json(json::string{report->store->name()}, view(to_string(report->kind)),
                                 reason));
    }
  }
  add_paused(degraded, dispatch);
  const HealthState status = !unhealthy.empty()  ? HealthState::unhealthy
                             : !degraded.empty() ? HealthState::degraded
                                                 : HealthState::healthy;
  json::array reasons = std::move(unhealthy);
  for (json::value& reason : degraded) reasons.push_back(std::move(reason));
  if (reasons.size() > max_reasons) reasons.resize(max_reasons);
  for (const BoxKind kind : {BoxKind::outbox, BoxKind::inbox}) {
    const bool served =
        std::ranges::any_of(reports, [&](const auto& report) { return report->kind == kind; });
    if (served) boxes.push_back(kind_json(kind, reports, throughput));
  }
  json::object out{{"at", nullptr},
                   {"status", view(to_string(status))},
                   {"reasons", std::move(reasons)},
                   {"stores", stores.size()},
                   {"unreachable", unreachable.size()},
                   {"boxes", std::move(boxes)}};
  if (at) out["at"] = to_json(*at);
  return out;
}

json::object stores_json(const Reports& reports, const Throughput& throughput,
                         const Dispatchers::View& dispatch, const HealthThresholds& thresholds,
                         const StoresQuery& page) {
  const ReportPage cut = cut_page(reports, page);
  const std::size_t topics = std::max<std::size_t>(
      1, StoresQuery::max_topics / std::max<std::size_t>(1, cut.reports.size()));
  json::array stores;
  const Store* last = nullptr;
  for (const auto& report : cut.reports) {
    if (report->store != last) {
      stores.push_back(
          json::object{{"name", report->store->name()},
                       {"dialect", view(to_string(report->store->database().dialect()))},
                       {"boxes", json::array{}}});
    }
    last = report->store;
    stores.back().as_object()["boxes"].as_array().push_back(
        box_json(*report, throughput, dispatch, thresholds, topics));
  }
  json::object out{{"stores", std::move(stores)}, {"next", nullptr}};
  if (!cut.next.empty()) out["next"] = cut.next;
  return out;
}

json::object chart_json(const History::Chart& chart) {
  json::object out{{"step_seconds", chart.step_seconds},
                   {"at", json::array(chart.at.begin(), chart.at.end())}};
  const auto column = [&](const char* name, float HistoryPoint::*member) {
    json::array values;
    for (const std::optional<HistoryPoint>& point : chart.points) {
      if (!point || std::isnan((*point).*member)) {
        values.push_back(nullptr);
      } else {
        values.push_back(std::round(static_cast<double>((*point).*member) * 1000) / 1000);
      }
    }
    out[name] = std::move(values);
  };
  column("done", &HistoryPoint::done_per_minute);
  column("failed", &HistoryPoint::failed_per_minute);
  column("open", &HistoryPoint::open);
  column("dead", &HistoryPoint::dead);
  column("oldest_seconds", &HistoryPoint::oldest_seconds);
  column("p50_ms", &HistoryPoint::p50_ms);
  column("p99_ms", &HistoryPoint::p99_ms);
  return out;
}

}  // namespace twinbox::app
