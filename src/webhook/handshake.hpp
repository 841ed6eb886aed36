// Verification requests of senders, and the answers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "twinbox/webhook.hpp"

namespace twinbox {

/// Throws std::invalid_argument unless the handshake fits the scheme and is complete.
void check_handshake(const Handshake& handshake, const SignatureScheme& scheme);

/// The methods of a handshake besides POST: `, OPTIONS`; empty: none.
std::string_view handshake_methods(const Handshake& handshake) noexcept;

/// The answer to an unsigned verification request. Empty: it is none. Throws RequestError.
std::optional<HttpResponse> answer_unsigned_handshake(const Handshake& handshake,
                                                      const HttpRequest& request);

/// The answer to a signed verification request of Slack or Zoom, by the secret that verified it.
/// Empty: `body` is a delivery.
std::optional<HttpResponse> answer_signed_handshake(const Handshake& handshake,
                                                    const SignatureScheme& scheme,
                                                    std::string_view body, std::string_view secret);

}  // namespace twinbox
