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
boost::json::object stores_json(const Reports& reports, const Pulse& pulse,
                                const Dispatching::View& dispatch,
                                const HealthThresholds& thresholds);
/// Of one store, of one kind of box, or of all.
boost::json::object groups_json(const Reports& reports, std::string_view store,
                                std::optional<BoxKind> kind);
boost::json::object workers_json(const Reports& reports, const Pulse& pulse);
boost::json::object chart_json(const History::Chart& chart);

}  // namespace twinbox::app
