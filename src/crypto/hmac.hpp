// Message authentication codes, constant-time comparison, and random bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace twinbox {

enum class HashFunction { sha1, sha256, sha512 };

/// HMAC (RFC 2104) of `data`, as bytes. Throws std::runtime_error when the crypto library refuses.
std::string hmac(HashFunction function, std::string_view key, std::string_view data);

/// Runs in a time that depends on the lengths alone.
bool constant_time_equal(std::string_view a, std::string_view b) noexcept;

/// From the system's source, fit for secrets. Throws std::runtime_error when there is none.
std::string random_bytes(std::size_t count);

}  // namespace twinbox
