// The intakes of the library, mounted: outbox, inbox, events, webhooks, a sidecar's topics.
#pragma once

#include <functional>

#include "daemon/config.hpp"
#include "daemon/router.hpp"
#include "daemon/sinks.hpp"
#include "daemon/stores.hpp"
#include <twinbox/environment.hpp>
#include <twinbox/observer.hpp>

namespace twinbox::app {

/// Told of calls within requests, as dispatchers tell of theirs.
using InlineObserver = std::function<DispatchObserver()>;

/// `stores` must outlive the router. Throws std::invalid_argument naming the endpoint that cannot
/// be.
void add_intakes(Router& router, const Config& config, const Stores& stores, SinkMaker& sinks,
                 const InlineObserver& observer, const Environment& environment);

}  // namespace twinbox::app
