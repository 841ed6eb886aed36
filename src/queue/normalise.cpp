#include <cctype>

#include "twinbox/operations.hpp"

namespace twinbox {
namespace {

bool is_hex(char c) noexcept { return std::isxdigit(static_cast<unsigned char>(c)) != 0; }
bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
bool is_word(char c) noexcept {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// The end of a quoted part that begins at `at`, or `at` when the quotation mark is never closed.
std::size_t quoted_end(std::string_view text, std::size_t at) noexcept {
  const std::size_t close = text.find(text[at], at + 1);
  return close == std::string_view::npos ? at : close + 1;
}

/// The end of a run of hexadecimal digits and hyphens that is an id: at least 8 long, with a digit
/// in it.
std::size_t id_end(std::string_view text, std::size_t at) noexcept {
  std::size_t end = at;
  bool digit = false;
  while (end < text.size() && (is_hex(text[end]) || text[end] == '-'))
    digit |= is_digit(text[end++]);
  const bool whole = end == text.size() || !is_word(text[end]);
  return whole && digit && end - at >= 8 ? end : at;
}

std::size_t number_end(std::string_view text, std::size_t at) noexcept {
  std::size_t end = at;
  while (end < text.size() && is_digit(text[end])) ++end;
  return end;
}

}  // namespace

std::string normalise_error(std::string_view error) {
  static constexpr std::size_t longest = 300;
  // Grouping dead letters reads no more of it.
  static constexpr std::size_t longest_read = 500;
  if (error.size() > longest_read) {
    std::size_t end = longest_read;
    while (end > 0 && (static_cast<unsigned char>(error[end]) & 0xC0U) == 0x80U) --end;
    error = error.substr(0, end);
  }
  std::string out;
  for (std::size_t at = 0; at < error.size();) {
    const char c = error[at];
    const bool inside_character = (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
    if (out.size() >= longest && !inside_character) break;
    const bool word_begins = at == 0 || !is_word(error[at - 1]);
    if (c == '\n' || c == '\r') break;  // what follows the first line is a trace
    if (const std::size_t end = c == '"' || c == '\'' ? quoted_end(error, at) : at; end > at) {
      out += "'…'";
      at = end;
    } else if (const std::size_t id = word_begins && is_hex(c) ? id_end(error, at) : at; id > at) {
      out += '#';
      at = id;
    } else if (is_digit(c)) {
      out += '#';
      at = number_end(error, at);
    } else {
      out += c;
      ++at;
    }
  }
  return out;
}

}  // namespace twinbox
