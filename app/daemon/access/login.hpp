// Browser login: a token starts a session, whose id is stored in a cookie that scripts cannot read.
#pragma once

#include "daemon/access/access.hpp"
#include "daemon/http/http_router.hpp"
#include <twinbox/environment.hpp>

namespace twinbox::app {

/// Adds /v1/me, /v1/login and /v1/logout. `access` must outlive the router. Rejected logins are
/// logged (`login_refused`).
void add_login(HttpRouter& router, const Access& access, const Environment& environment);

}  // namespace twinbox::app
