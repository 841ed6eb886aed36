// Secrets as Standard Webhooks writes them.
#pragma once

#include <string>
#include <string_view>

namespace twinbox {

struct Secret {
  enum class Kind { hmac, public_key, private_key };
  Kind kind;
  std::string bytes;  ///< of a private key: its seed
};

/// `whsec_`, `whpk_` or `whsk_` and base64; without a prefix it is an HMAC secret. Throws
/// std::invalid_argument that begins with `which` and never shows the secret.
Secret read_secret(std::string_view text, const std::string& which);

}  // namespace twinbox
