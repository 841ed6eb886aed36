// What senders ask before they send, and the answers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "twinbox/webhook.hpp"

namespace twinbox {

/// Throws std::invalid_argument unless the handshake goes with the scheme and lacks nothing.
void check_handshake(const Handshake& handshake, const SignatureScheme& scheme);

/// What a handshake asks for besides POST: `, OPTIONS`; empty: nothing.
std::string_view handshake_methods(const Handshake& handshake) noexcept;

/// The answer to a question that no signature comes with. Empty: it is none. Throws RequestError.
std::optional<HttpResponse> answer_unsigned_handshake(const Handshake& handshake,
                                                      const HttpRequest& request);

/// The answer of Slack and Zoom to a question that was verified, by the secret that verified it.
/// Empty: `body` is none, but a delivery.
std::optional<HttpResponse> answer_signed_handshake(const Handshake& handshake,
                                                    const SignatureScheme& scheme,
                                                    std::string_view body, std::string_view secret);

}  // namespace twinbox
