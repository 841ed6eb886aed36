// What probes ask: can messages be stored, and how are the boxes?
#pragma once

#include "daemon/access/access.hpp"
#include "daemon/config/config.hpp"
#include "daemon/http/http_router.hpp"
#include "daemon/store/stores.hpp"
#include "daemon/store/time_limits.hpp"
#include "daemon/store/write_monitor.hpp"

namespace twinbox::app {

/// Adds /health/ready, which asks no store, and /health, which asks each for at most
/// limit.query_timeout. What is given must outlive the router.
void add_health(HttpRouter& router, const Stores& stores, WriteMonitor& writes, TimeLimits& limits,
                const Config& config, const Access& access);

}  // namespace twinbox::app
