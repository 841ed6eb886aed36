// A browser logs in: its token begins a session, whose id is a cookie that no script can read.
#pragma once

#include "daemon/access.hpp"
#include "daemon/router.hpp"

namespace twinbox::app {

/// Adds /v1/me, /v1/login and /v1/logout. `access` must outlive the router.
void add_login(Router& router, const Access& access);

}  // namespace twinbox::app
