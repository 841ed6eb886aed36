// The dashboard's files, as they were built in.
#pragma once

#include "daemon/http/http_router.hpp"
#include "dashboard/bundle.hpp"

namespace twinbox::app {

/// Adds `/` and `/assets/{file}`. Where nothing was built in, or `enabled` is false, they answer
/// 404 with the reason. `assets` must outlive the router.
void add_dashboard_files(HttpRouter& router, std::span<const Asset> assets, bool enabled);

}  // namespace twinbox::app
