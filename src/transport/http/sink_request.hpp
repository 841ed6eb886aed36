// The request of an HTTP sink, and the outcome of its answer; without a socket.
#pragma once

#include <string>

#include "twinbox/sink.hpp"

namespace twinbox {

/// The request for a message, without signatures. Throws EventError for a message that cannot be
/// sent as an event.
HttpRequest request_of(const Message& message, const HttpSinkOptions& options);

/// The outcome of the answer. `display_name`: the receiver, for errors. Throws ReceiverGone for
/// 410.
Outcome outcome_of(const HttpResponse& response, const HttpSinkOptions& options,
                   const std::string& display_name, Instant now);

}  // namespace twinbox
