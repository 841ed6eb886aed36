// A browser logs in: its token begins a session, whose id is a cookie that no script can read.
#pragma once

#include "daemon/access/access.hpp"
#include "daemon/http/http_router.hpp"
#include <twinbox/environment.hpp>

namespace twinbox::app {

/// Adds /v1/me, /v1/login and /v1/logout. `access` must outlive the router. Logins that are refused
/// are logged (`login_refused`).
void add_login(HttpRouter& router, const Access& access, const Environment& environment);

}  // namespace twinbox::app
