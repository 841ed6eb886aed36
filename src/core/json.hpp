// As much JSON (RFC 8259) as the library itself needs.
#pragma once

#include <string>
#include <string_view>

namespace twinbox {

/// Objects and arrays may be nested this deep, the outermost one counted.
inline constexpr int max_json_depth = 64;

/// True when `text` is one JSON object and nothing else: strict grammar, valid UTF-8, bounded
/// depth.
bool is_json_object(std::string_view text) noexcept;

/// True when the JSON object `text` has a member of this name, written without escapes.
bool json_object_has(std::string_view text, std::string_view member) noexcept;

/// Appends `text` as a JSON string with its quotation marks. What is not UTF-8 becomes U+FFFD.
void append_json_string(std::string& out, std::string_view text);

}  // namespace twinbox
