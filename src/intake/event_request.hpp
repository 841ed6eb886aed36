// CloudEvents in requests.
#pragma once

#include "twinbox/event.hpp"
#include "twinbox/intake.hpp"

namespace twinbox {

/// The form in which it is accepted: the envelope, with the metadata of the request.
Arrival arrival_of(const CloudEvent& event, const HttpRequest& request,
                   const IntakeOptions& options);

/// Throws EventError, or RequestError for a batch.
CloudEvent one_event(const HttpRequest& request, const IntakeOptions& options);

}  // namespace twinbox
