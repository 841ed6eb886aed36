// The intakes of the library, mounted: outbox, inbox, webhooks.
#pragma once

#include "daemon/config.hpp"
#include "daemon/router.hpp"
#include "daemon/stores.hpp"
#include <twinbox/environment.hpp>

namespace twinbox::app {

/// `stores` must outlive the router. Throws std::invalid_argument naming the endpoint that cannot
/// be.
void add_intakes(Router& router, const Config& config, const Stores& stores,
                 const Environment& environment);

}  // namespace twinbox::app
