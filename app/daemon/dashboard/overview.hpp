// The dashboard's responses as JSON, built from snapshots without querying a store.
#pragma once

#include <boost/json/object.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "daemon/dispatch/dispatchers.hpp"
#include "daemon/stats/history.hpp"
#include "daemon/stats/stats_collector.hpp"
#include "daemon/stats/throughput.hpp"
#include <twinbox/health.hpp>

namespace twinbox::app {

using Reports = std::vector<StatsCollector::Report>;

/// The health of a box, judged by its latest numbers like check_health().
HealthState health_of(const BoxReport& report, const HealthThresholds& thresholds);

boost::json::object overview_json(const Reports& reports, const Throughput& throughput,
                                  const Dispatchers::View& dispatch,
                                  const HealthThresholds& thresholds);
/// A page of at most `limit` stores after the store `after`; or one store.
struct StoresQuery {
  std::size_t limit = 100;
  std::string_view after = {};
  std::string_view store = {};

  static constexpr std::size_t max_stores = 1000;
  /// Number of topics of all boxes; the others of each box are summed up.
  static constexpr std::size_t max_topics = 2000;
};
boost::json::object stores_json(const Reports& reports, const Throughput& throughput,
                                const Dispatchers::View& dispatch,
                                const HealthThresholds& thresholds, const StoresQuery& page = {});

/// Of one store, of one kind of box, of one topic, or of all: the newest `limit`.
struct GroupsQuery {
  std::string_view store = {};
  std::optional<BoxKind> kind = {};
  std::string_view topic = {};
  std::size_t limit = 100;

  static constexpr std::size_t max_groups = 1000;
};
boost::json::object groups_json(const Reports& reports, const GroupsQuery& query);

/// Of one store, or of all: at most `max_workers` rows in each list.
inline constexpr std::size_t max_workers = 1000;
boost::json::object workers_json(const Reports& reports, const Throughput& throughput,
                                 std::string_view store = {});
boost::json::object chart_json(const History::Chart& chart);

}  // namespace twinbox::app
