// The embedded files of the dashboard.
#pragma once

#include "daemon/http/http_router.hpp"
#include "dashboard/bundle.hpp"

namespace twinbox::app {

/// Adds `/` and `/assets/{file}`. Without embedded files, or if `enabled` is false, they return 404
/// with the reason. `assets` must outlive the router.
void add_dashboard_files(HttpRouter& router, std::span<const Asset> assets, bool enabled);

}  // namespace twinbox::app
