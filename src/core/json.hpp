// The subset of JSON (RFC 8259) that the library itself needs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace twinbox {

/// Objects and arrays may be nested this deep, the outermost one counted.
inline constexpr int max_json_depth = 64;

/// True when `text` is one JSON object and nothing else: strict grammar, valid UTF-8, bounded
/// depth.
bool is_json_object(std::string_view text) noexcept;

/// True when `text` is one JSON value of any kind and nothing else.
bool is_json(std::string_view text) noexcept;

/// A member of an object, or an element of an array, as it is written.
struct JsonPart {
  std::string_view name;  ///< between its quotation marks, with its escapes; empty in an array
  std::string_view value;
};

/// The parts of the outermost object, or array; empty when `text` is not one.
std::optional<std::vector<JsonPart>> split_json_object(std::string_view text);
std::optional<std::vector<JsonPart>> split_json_array(std::string_view text);

/// The text that the inside of a JSON string stands for; empty when it has an unpaired surrogate.
/// `inside` must come from valid JSON.
std::optional<std::string> unescape_json(std::string_view inside);
/// The same for a whole value; empty also when it is no string.
std::optional<std::string> json_string(std::string_view value);

/// True when the JSON object `text` has a member of this name, written without escapes.
bool json_object_has(std::string_view text, std::string_view member) noexcept;

/// Appends `text` as a JSON string with its quotation marks. What is not UTF-8 becomes U+FFFD.
void append_json_string(std::string& out, std::string_view text);

}  // namespace twinbox
