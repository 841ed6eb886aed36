// Text as the databases and the source documents count it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace twinbox {

/// The longest error text that is kept, in UTF-16 code units.
inline constexpr std::size_t max_error_length = 4000;

/// One step through a text: a code point, or a piece that is not UTF-8.
struct CodePoint {
  char32_t value;      ///< U+FFFD when not valid
  std::size_t length;  ///< in bytes, at least 1
  bool valid;
};

/// The code point at `at`, which must lie inside `text`. Overlong forms and surrogates are not
/// UTF-8.
CodePoint decode_utf8(std::string_view text, std::size_t at) noexcept;
void append_utf8(std::string& out, char32_t code_point);

/// The offset of the first byte that is not UTF-8; empty for valid UTF-8.
std::optional<std::size_t> find_invalid_utf8(std::string_view text) noexcept;
/// How many UTF-16 code units the text has; a piece that is not UTF-8 counts as one.
std::size_t utf16_length(std::string_view text) noexcept;
/// True when every code point has the Unicode property White_Space; also for an empty text.
bool is_blank(std::string_view text) noexcept;

/// Throws std::invalid_argument, naming `noun` and its bound, unless `text` is UTF-8 without NUL,
/// not empty, not only blanks, and at most `limit` UTF-16 code units long.
void check_text(std::string_view noun, std::string_view text, std::size_t limit);

/// Error text in the form in which it is stored: valid UTF-8 without NUL (each invalid piece
/// becomes U+FFFD), at most max_error_length code units, with a visible mark at the end when it was
/// truncated.
std::string truncate_error(std::string_view text);

}  // namespace twinbox
