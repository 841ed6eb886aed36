// What an HTTP sink says, and what it makes of the answer; without a socket.
#pragma once

#include <string>

#include "twinbox/sink.hpp"

namespace twinbox {

/// The request for a message, without signatures. Throws EventError for a message that cannot be
/// sent as an event.
HttpRequest request_of(const Message& message, const HttpSinkOptions& options);

/// What the answer means. `display_name`: the receiver, as errors name it. Throws ReceiverGone for
/// 410.
Outcome outcome_of(const HttpResponse& response, const HttpSinkOptions& options,
                   const std::string& display_name, Instant now);

}  // namespace twinbox
