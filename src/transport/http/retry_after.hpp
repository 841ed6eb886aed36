// When a receiver wants the next attempt.
#pragma once

#include <optional>
#include <string_view>

#include "twinbox/environment.hpp"
#include "twinbox/message.hpp"

namespace twinbox {

/// A date of HTTP (RFC 9110, section 5.6.7) in any of its three forms; empty when it is none.
std::optional<Instant> parse_http_date(std::string_view text, Instant now) noexcept;

/// The value of Retry-After: seconds, or a date; a past one is zero. Empty when it is neither, or
/// more than a thousand years.
std::optional<std::chrono::microseconds> parse_retry_after(std::string_view value,
                                                           Instant now) noexcept;

}  // namespace twinbox
