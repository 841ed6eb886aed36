// The intakes of the library, mounted: outbox, inbox, events, webhooks, a sidecar's topics.
#pragma once

#include <functional>
#include <stop_token>
#include <string>

#include "daemon/config/config.hpp"
#include "daemon/config/owned_sources.hpp"
#include "daemon/dispatch/sinks.hpp"
#include "daemon/http/http_router.hpp"
#include "daemon/store/stores.hpp"
#include <twinbox/dispatcher.hpp>
#include <twinbox/environment.hpp>
#include <twinbox/webhook.hpp>

namespace twinbox::app {

/// What handlers within requests have in common with those of dispatchers.
struct InlineCalls {
  std::function<DispatchObserver()> observer;  ///< receives their events
  /// True while an operator has switched inline calls off.
  std::function<bool(const std::string& store, const std::string& topic)> switched_off;
  std::stop_token stop = {};  ///< requested: running calls see their stop token
};

/// `stores` must outlive the router. `senders` are the tokens whose names are sources of their own.
/// Throws std::invalid_argument naming the endpoint that cannot be.
void add_intakes(HttpRouter& router, const Config& config, const Stores& stores, SinkFactory& sinks,
                 const InlineCalls& calls, SourceNames senders, const Environment& environment);

}  // namespace twinbox::app
