// Acts of operators: what to act on, and how far.
#pragma once

#include "daemon/operations.hpp"

namespace twinbox::app {

/// POST /v1/messages/requeue and /discard.
HttpResponse act(const Stores& stores, OperationMemory& memory, bool requeue, const Call& call);

}  // namespace twinbox::app
