// The operations API: look into the boxes, send again, throw away, correct.
#pragma once

#include <functional>

#include "daemon/act_runner.hpp"
#include "daemon/config.hpp"
#include "daemon/router.hpp"
#include "daemon/stores.hpp"

namespace twinbox::app {

/// Adds /v1/messages…, /v1/operations and /v1/audit. `acted` is told of boxes that were changed.
/// What is given must outlive the router.
void add_operations(Router& router, const Stores& stores, ActRunner& runner, const Config& config,
                    const std::function<void(const Store&, BoxKind)>& acted);

}  // namespace twinbox::app
