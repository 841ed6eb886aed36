// Endpoints for probes: whether messages can be stored, and the health of the boxes.
#pragma once

#include "daemon/access/access.hpp"
#include "daemon/config/config.hpp"
#include "daemon/http/http_router.hpp"
#include "daemon/store/stores.hpp"
#include "daemon/store/time_limits.hpp"
#include "daemon/store/write_monitor.hpp"

namespace twinbox::app {

/// Adds /health/ready, which queries no store, and /health, which queries each for at most
/// limit.query_timeout. The arguments must outlive the router.
void add_health(HttpRouter& router, const Stores& stores, WriteMonitor& writes, TimeLimits& limits,
                const Config& config, const Access& access);

}  // namespace twinbox::app
