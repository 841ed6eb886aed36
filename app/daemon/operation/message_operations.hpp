// Endpoints for operations on messages.
#pragma once

#include "daemon/http/http_router.hpp"
#include "daemon/operation/operation_runner.hpp"
#include "daemon/operation/redaction.hpp"
#include "daemon/store/stores.hpp"

namespace twinbox::app {

enum class Verb { requeue, discard, postpone };

/// POST /v1/messages/requeue, /discard and /postpone.
HttpResponse run_operation(const Stores& stores, OperationRunner& runner, Verb verb,
                           const EndpointRequest& call);

/// POST /v1/messages/edit. Calls `on_changed` with the box.
HttpResponse edit(const Stores& stores, const Redaction& redaction,
                  const std::function<void(const Store&, BoxKind)>& on_changed,
                  const EndpointRequest& call);

}  // namespace twinbox::app
