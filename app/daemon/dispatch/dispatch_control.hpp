// The endpoints that control the dispatchers.
#pragma once

#include "daemon/dispatch/dispatchers.hpp"
#include "daemon/http/http_router.hpp"

namespace twinbox::app {

/// Adds /v1/dispatch… and /v1/routes…; `dispatchers` must outlive the router.
void add_dispatch_control(HttpRouter& router, Dispatchers& dispatchers);

}  // namespace twinbox::app
