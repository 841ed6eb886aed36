// What probes ask: can messages be stored, and how are the boxes?
#pragma once

#include "daemon/access.hpp"
#include "daemon/config.hpp"
#include "daemon/router.hpp"
#include "daemon/stores.hpp"
#include "daemon/time_limits.hpp"
#include "daemon/write_monitor.hpp"

namespace twinbox::app {

/// Adds /health/ready, which asks no store, and /health, which asks each for at most
/// limit.read_time. What is given must outlive the router.
void add_health(Router& router, const Stores& stores, WriteMonitor& writes, TimeLimits& limits,
                const Config& config, const Access& access);

}  // namespace twinbox::app
