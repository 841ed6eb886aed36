// A browser logs in: its token becomes a cookie that no script can read.
#pragma once

#include "daemon/access.hpp"
#include "daemon/router.hpp"

namespace twinbox::app {

/// Adds /v1/me, /v1/login and /v1/logout. `access` must outlive the router; `tls`: the server
/// speaks it itself.
void add_login(Router& router, const Access& access, bool tls);

}  // namespace twinbox::app
