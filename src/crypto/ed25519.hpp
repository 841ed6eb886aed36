// Ed25519 (RFC 8032). Keys and signatures are bytes: 32 for a seed, 32 for a public key, 64 for a
// signature.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace twinbox {

inline constexpr std::size_t ed25519_key_size = 32;
inline constexpr std::size_t ed25519_signature_size = 64;

/// Throw std::invalid_argument for a key of another length.
std::string ed25519_sign(std::string_view seed, std::string_view data);
std::string ed25519_public_key(std::string_view seed);
/// False for a signature of another length too.
bool ed25519_verify(std::string_view public_key, std::string_view data, std::string_view signature);

}  // namespace twinbox
