#include "sql/lexer.hpp"

#include <algorithm>

namespace twinbox {
namespace {

std::size_t end_or_size(std::string_view sql, std::size_t found, std::size_t length) noexcept {
  return found == std::string_view::npos ? sql.size() : found + length;
}

/// A doubled mark stands for itself; with `escapes`, so does one behind a backslash.
std::size_t end_of_quote(std::string_view sql, std::size_t at, char mark, bool escapes) noexcept {
  for (std::size_t i = at + 1; i < sql.size(); ++i) {
    if (escapes && sql[i] == '\\') {
      ++i;
    } else if (sql[i] == mark) {
      if (i + 1 == sql.size() || sql[i + 1] != mark) return i + 1;
      ++i;
    }
  }
  return sql.size();
}

std::size_t end_of_block_comment(std::string_view sql, std::size_t at, bool nests) noexcept {
  int depth = 0;
  for (std::size_t i = at; i + 1 < sql.size(); ++i) {
    if (sql[i] == '/' && sql[i + 1] == '*' && (depth == 0 || nests)) {
      ++depth;
      ++i;
    } else if (sql[i] == '*' && sql[i + 1] == '/') {
      if (--depth == 0) return i + 2;
      ++i;
    }
  }
  return sql.size();
}

/// The end of a `$tag$ … $tag$` body, or `at` when none begins there (`$1` is a parameter).
std::size_t end_of_dollar_quote(std::string_view sql, std::size_t at) noexcept {
  std::size_t close = at + 1;
  if (close < sql.size() && is_word_start(sql[close])) {
    while (close < sql.size() && is_word_part(sql[close])) ++close;
  }
  if (close >= sql.size() || sql[close] != '$') return at;
  const std::string_view tag = sql.substr(at, close - at + 1);
  return end_or_size(sql, sql.find(tag, close + 1), tag.size());
}

std::size_t end_of_word(std::string_view sql, std::size_t at) noexcept {
  while (at < sql.size() && (is_word_part(sql[at]) || sql[at] == '$')) ++at;
  return at;
}

}  // namespace

bool is_word_start(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

bool is_word_part(char c) noexcept { return is_word_start(c) || (c >= '0' && c <= '9'); }

bool is_sql_blank(char c) noexcept {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}

Token next_token(std::string_view sql, std::size_t at, Dialect dialect) noexcept {
  const bool postgres = dialect == Dialect::postgres;
  const char c = sql[at];
  const char next = at + 1 < sql.size() ? sql[at + 1] : '\0';

  if (c == '-' && next == '-') {
    return {Lexeme::comment, std::min(sql.find('\n', at), sql.size())};
  }
  if (c == '/' && next == '*') {
    return {Lexeme::comment, end_of_block_comment(sql, at, dialect != Dialect::sqlite)};
  }
  if (c == '\'' || c == '"') return {Lexeme::quote, end_of_quote(sql, at, c, false)};
  if (postgres && (c == 'e' || c == 'E') && next == '\'') {
    return {Lexeme::quote, end_of_quote(sql, at + 1, '\'', true)};
  }
  if (!postgres && c == '`') return {Lexeme::quote, end_of_quote(sql, at, c, false)};
  if (!postgres && c == '[') return {Lexeme::quote, end_or_size(sql, sql.find(']', at), 1)};
  if (postgres && c == '$') {
    if (const std::size_t end = end_of_dollar_quote(sql, at); end != at) {
      return {Lexeme::quote, end};
    }
  }
  if (is_word_part(c)) return {Lexeme::word, end_of_word(sql, at)};
  return {Lexeme::code, at + 1};
}

}  // namespace twinbox
