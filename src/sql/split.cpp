#include <algorithm>
#include <array>

#include "core/encoding.hpp"
#include "sql/lexer.hpp"
#include "sql/render.hpp"

namespace twinbox {
namespace {

/// Follows the `begin … end` of triggers and of functions with an SQL body, whose semicolons end
/// nothing. Elsewhere `begin` is a statement of its own.
class BodyDepth {
 public:
  void see(std::string_view text) {
    const std::string word = to_lower(text);
    if (words_ == 0) creates_ = word == "create";
    if (creates_ && words_ < most_words_before_kind &&
        std::find(kinds.begin(), kinds.end(), word) != kinds.end()) {
      has_body_ = true;
    }
    ++words_;
    if (!has_body_) return;
    if (word == "begin" || (word == "case" && depth_ > 0)) ++depth_;
    if (word == "end" && depth_ > 0) --depth_;
  }

  [[nodiscard]] bool inside() const noexcept { return depth_ > 0; }

 private:
  static constexpr std::array<std::string_view, 3> kinds = {"trigger", "function", "procedure"};
  // create or replace constraint trigger
  static constexpr int most_words_before_kind = 4;

  int words_ = 0;
  int depth_ = 0;
  bool creates_ = false;
  bool has_body_ = false;
};

std::string_view trim_end(std::string_view text) noexcept {
  while (!text.empty() && is_sql_blank(text.back())) text.remove_suffix(1);
  return text;
}

std::string_view without_semicolon(std::string_view text) noexcept {
  text = trim_end(text);
  if (text.ends_with(';')) text.remove_suffix(1);
  return text;
}

/// A line that says `go` and nothing else ends a batch, as SQL Server's own tools read it.
std::vector<std::string> split_batches(std::string_view script) {
  std::vector<std::string> batches;
  std::size_t begin = std::string_view::npos;  // of the batch being read
  bool line_begins = true;
  for (std::size_t at = 0; at < script.size();) {
    const Token token = next_token(script, at, Dialect::sqlserver);
    const std::string_view text = script.substr(at, token.end - at);
    const std::string_view rest =
        script.substr(token.end, script.find('\n', token.end) - token.end);
    if (line_begins && to_lower(text) == "go" && trim_end(rest).empty()) {
      if (begin != std::string_view::npos)
        batches.emplace_back(without_semicolon(script.substr(begin, at - begin)));
      begin = std::string_view::npos;
    } else if (begin == std::string_view::npos && token.kind != Lexeme::comment &&
               !is_sql_blank(script[at])) {
      begin = at;
    }
    line_begins = script[at] == '\n';
    at = token.end;
  }
  if (begin != std::string_view::npos)
    batches.emplace_back(without_semicolon(script.substr(begin)));
  return batches;
}

}  // namespace

std::vector<std::string> split_statements(std::string_view script, Dialect dialect) {
  if (dialect == Dialect::sqlserver) return split_batches(script);
  std::vector<std::string> statements;
  std::size_t begin = std::string_view::npos;  // of the statement being read
  BodyDepth body;
  const auto finish = [&](std::size_t end) {
    if (begin != std::string_view::npos) {
      statements.emplace_back(trim_end(script.substr(begin, end - begin)));
    }
    begin = std::string_view::npos;
    body = {};
  };
  for (std::size_t at = 0; at < script.size();) {
    // PostgreSQL's lexical rules contain those that our SQLite scripts use.
    const Token token = next_token(script, at, Dialect::postgres);
    if (token.kind == Lexeme::word) body.see(script.substr(at, token.end - at));
    if (token.kind == Lexeme::code && script[at] == ';' && !body.inside()) {
      finish(at);
    } else if (begin == std::string_view::npos && token.kind != Lexeme::comment &&
               !is_sql_blank(script[at])) {
      begin = at;
    }
    at = token.end;
  }
  finish(script.size());
  return statements;
}

}  // namespace twinbox
