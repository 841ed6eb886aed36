// The secret values that this process has read, and how they are kept out of what it prints.
#pragma once

#include <string>
#include <string_view>

namespace twinbox::app {

/// Registers a value that came from `env:` or `file:`. Of an address also its parts: password,
/// query and, over HTTP, a path of 8 characters or more and those of its segments that are long or
/// no plain words; of an `Authorization` the credential behind its scheme. A value stays registered
/// after a reload: errors may still mention it. Thread-safe.
void remember_secret(std::string_view value);

/// `text` with every registered value cut out, and the beginning of one where a sink has cut an
/// error. Addresses keep their scheme and host. Thread-safe.
[[nodiscard]] std::string without_secrets(std::string_view text);

}  // namespace twinbox::app
