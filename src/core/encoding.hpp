// Bytes as text: base64, base64url and hexadecimal digits. Decoding is strict, so that bytes have
// one spelling only.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace twinbox {

/// With padding (RFC 4648, section 4).
std::string base64(std::string_view bytes);
/// Without padding (RFC 4648, section 5).
std::string base64url(std::string_view bytes);
/// Lower-case.
std::string hex(std::string_view bytes);

/// Empty unless `text` is exactly what base64() writes: its alphabet, its padding, no spare bits.
std::optional<std::string> decode_base64(std::string_view text);
/// Empty unless `text` is exactly what base64url() writes.
std::optional<std::string> decode_base64url(std::string_view text);
/// Empty unless `text` is an even number of digits; upper-case ones are taken too.
std::optional<std::string> decode_hex(std::string_view text);

}  // namespace twinbox
