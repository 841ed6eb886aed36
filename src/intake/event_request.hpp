// CloudEvents in requests.
#pragma once

#include "twinbox/event.hpp"
#include "twinbox/intake.hpp"

namespace twinbox {

/// As it is accepted: the envelope, with what is known of the request.
Arrival arrival_of(const CloudEvent& event, const HttpRequest& request,
                   const IntakeOptions& options);

/// Throws EventError, or RequestError for a batch.
CloudEvent one_event(const HttpRequest& request, const IntakeOptions& options);

}  // namespace twinbox
