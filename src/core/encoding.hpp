// Bytes as text: base64, base64url, hexadecimal digits, percent encoding. Decoding is strict, so
// that bytes have one spelling only.
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

/// The value of a hexadecimal digit; -1 for any other character.
int hex_digit(char c) noexcept;

/// Writes control characters, blanks, bytes above 0x7E and `others` as %XX.
std::string percent_encode(std::string_view text, std::string_view others);
/// Empty if a % has no two hexadecimal digits behind it.
std::optional<std::string> percent_decode(std::string_view text);
/// Keeps a % that has no two hexadecimal digits behind it.
std::string percent_decode_lenient(std::string_view text);

/// Of ASCII letters; every other byte stays as it is.
constexpr char ascii_lower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
}
std::string to_lower(std::string_view text);

}  // namespace twinbox
