// Acts of operators: what to act on, and how far.
#pragma once

#include "daemon/act_runner.hpp"
#include "daemon/redaction.hpp"
#include "daemon/router.hpp"
#include "daemon/stores.hpp"

namespace twinbox::app {

enum class Verb { requeue, discard, postpone };

/// POST /v1/messages/requeue, /discard and /postpone.
HttpResponse act(const Stores& stores, ActRunner& runner, Verb verb, const Call& call);

/// POST /v1/messages/edit. `acted` is told of the box.
HttpResponse edit(const Stores& stores, const Redaction& redaction,
                  const std::function<void(const Store&, BoxKind)>& acted, const Call& call);

}  // namespace twinbox::app
