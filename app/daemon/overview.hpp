// The dashboard's answers as JSON, out of what is known already: none of them asks a store.
#pragma once

#include <boost/json/object.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "daemon/census.hpp"
#include "daemon/dispatching.hpp"
#include "daemon/history.hpp"
#include "daemon/pulse.hpp"
#include <twinbox/health.hpp>

namespace twinbox::app {

using Reports = std::vector<CensusTaker::Report>;

/// How a box is, judged by its last numbers as check_health() does.
HealthState judge(const BoxReport& report, const HealthThresholds& thresholds);

boost::json::object overview_json(const Reports& reports, const Pulse& pulse,
                                  const Dispatching::View& dispatch,
                                  const HealthThresholds& thresholds);
/// A page of stores: at most `limit`, behind the store `after`; or one store.
struct StoresPage {
  std::size_t limit = 100;
  std::string_view after = {};
  std::string_view store = {};

  static constexpr std::size_t most_stores = 1000;
  /// Topics of all its boxes together; the further ones of each box are summed up.
  static constexpr std::size_t most_topics = 2000;
};
boost::json::object stores_json(const Reports& reports, const Pulse& pulse,
                                const Dispatching::View& dispatch,
                                const HealthThresholds& thresholds, const StoresPage& page = {});

/// Of one store, of one kind of box, of one topic, or of all: the newest `limit`.
struct GroupsWanted {
  std::string_view store = {};
  std::optional<BoxKind> kind = {};
  std::string_view topic = {};
  std::size_t limit = 100;

  static constexpr std::size_t most_groups = 1000;
};
boost::json::object groups_json(const Reports& reports, const GroupsWanted& wanted);

/// Of one store, or of all: at most `most_workers` rows in each list.
inline constexpr std::size_t most_workers = 1000;
boost::json::object workers_json(const Reports& reports, const Pulse& pulse,
                                 std::string_view store = {});
boost::json::object chart_json(const History::Chart& chart);

}  // namespace twinbox::app
