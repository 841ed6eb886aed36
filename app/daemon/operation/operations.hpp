// The operations API: list, show, requeue, discard and edit messages.
#pragma once

#include <functional>

#include "daemon/config/config.hpp"
#include "daemon/http/http_router.hpp"
#include "daemon/operation/operation_runner.hpp"
#include "daemon/store/stores.hpp"

namespace twinbox::app {

/// Adds /v1/messages…, /v1/operations and /v1/audit. Calls `on_changed` with each changed box. The
/// arguments must outlive the router.
void add_operations(HttpRouter& router, const Stores& stores, OperationRunner& runner,
                    const Config& config,
                    const std::function<void(const Store&, BoxKind)>& on_changed);

}  // namespace twinbox::app
