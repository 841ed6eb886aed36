// Separates code from quotation marks and comments in SQL text.
#pragma once

#include <cstddef>
#include <string_view>

#include "twinbox/session.hpp"

namespace twinbox {

enum class Lexeme {
  code,     ///< one character
  word,     ///< an unquoted word or number
  quote,    ///< a literal, a quoted identifier or a `$tag$` body, with its marks
  comment,  ///< to the end of its line (without the line break) or of its block
};

struct Token {
  Lexeme kind;
  std::size_t end;  ///< one past its last character
};

/// The token that begins at `at`, which must lie inside `sql` and not inside another token.
Token next_token(std::string_view sql, std::size_t at, Dialect dialect) noexcept;

bool is_word_start(char c) noexcept;
bool is_word_part(char c) noexcept;
/// ASCII blanks only: what separates tokens.
bool is_sql_blank(char c) noexcept;

}  // namespace twinbox
