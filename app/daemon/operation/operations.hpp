// The operations API: look into the boxes, send again, throw away, correct.
#pragma once

#include <functional>

#include "daemon/config/config.hpp"
#include "daemon/http/http_router.hpp"
#include "daemon/operation/operation_runner.hpp"
#include "daemon/store/stores.hpp"

namespace twinbox::app {

/// Adds /v1/messages…, /v1/operations and /v1/audit. `on_changed` is told of boxes that were
/// changed. What is given must outlive the router.
void add_operations(HttpRouter& router, const Stores& stores, OperationRunner& runner,
                    const Config& config,
                    const std::function<void(const Store&, BoxKind)>& on_changed);

}  // namespace twinbox::app
