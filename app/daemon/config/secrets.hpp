// Keeps the secrets that this process has read out of its output.
#pragma once

#include <string>
#include <string_view>

namespace twinbox::app {

/// Registers a value read from `env:` or `file:`. Also registers the parts of an address (password,
/// query and, for HTTP, a path of 8 characters or more and its segments that are long or not plain
/// words) and the credential of an `Authorization` header. Values stay registered after a reload
/// because errors may still contain them. Thread-safe.
void remember_secret(std::string_view value);

/// `text` without the registered values, and without the beginning of one at the end of a truncated
/// error. Addresses keep their scheme and host. Thread-safe.
[[nodiscard]] std::string without_secrets(std::string_view text);

}  // namespace twinbox::app
