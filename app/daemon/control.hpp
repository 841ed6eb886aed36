// The part of the operations API that speaks to the dispatchers.
#pragma once

#include "daemon/dispatching.hpp"
#include "daemon/router.hpp"

namespace twinbox::app {

/// Adds /v1/dispatch… and /v1/routes…; `dispatching` must outlive the router.
void add_control(Router& router, Dispatching& dispatching);

}  // namespace twinbox::app
