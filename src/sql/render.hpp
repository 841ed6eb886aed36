// Turns the .sql files into statements for one dialect and one box.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sql/embedded.hpp"
#include "sql/statement.hpp"

namespace twinbox {

/// The schema and table of a box, such as {"infra", "outbox"}.
struct BoxName {
  std::string schema;
  std::string table;

  auto operator<=>(const BoxName&) const = default;
};

/// `"…"`, with quotation marks inside doubled.
std::string quote_identifier(std::string_view name);
/// `'…'`, with quotation marks inside doubled.
std::string quote_text(std::string_view text);

/// Throws std::invalid_argument with the reason and the bound when a name is invalid in `dialect`.
void check_box_name(const BoxName& box, Dialect dialect);

/// The values of `{word}`. A key that ends in a colon, such as `name:`, stands for `{name:suffix}`:
/// its value is an identifier without the closing quotation mark, which follows the suffix, or has
/// a `%` in place of the suffix.
using Placeholders = std::map<std::string, std::string, std::less<>>;

/// `box` must have passed check_box_name.
Placeholders placeholders(Dialect dialect, const BoxName& box);

/// Replaces every placeholder and leaves parameters alone: for migrations and functions. A
/// replacement may hold placeholders itself, except inside quotation marks, where a box's own name
/// may stand. Throws std::logic_error with `where` and the placeholder when it is unknown.
std::string render_text(std::string_view text, const Placeholders& values,
                        std::string_view where = "sql");

/// The statements of a script, without their semicolons and the comments before them. A semicolon
/// inside quotation marks, a `$tag$` body, a comment or the `begin … end` of a trigger ends
/// nothing. On SQL Server: its batches, each of which ends at a line `go`.
std::vector<std::string> split_statements(std::string_view script,
                                          Dialect dialect = Dialect::postgres);

/// Writes parameters as the dialect does (SQLite and SQL Server `@name`, PostgreSQL `$1` in order
/// of first use) and names them in that order. `@name` inside quotation marks and comments is no
/// parameter, nor is a variable of SQL Server's that `declare @name` makes, one for each `declare`.
std::pair<std::string, std::vector<std::string>> rewrite_parameters(std::string_view sql,
                                                                    Dialect dialect);

/// The blocks of one file, in its order. A block begins with a line `-- name: <word>`; its steps
/// end with a semicolon at a line's end (on SQL Server a block is one step); the lines `-- each`,
/// `-- one`, `-- many` and `-- call` refer to the step that follows. A line `-- define: <word>`
/// makes the text after it, up to the next block or definition, a placeholder of this file or, in
/// define.sql, of all files; `-- define: <word>:` one with a suffix. Other comments are dropped.
/// Names borrow from `file.text`. Throws std::logic_error with file and block.
std::vector<Statement> parse_statements(const SqlFile& file, Dialect dialect,
                                        const Placeholders& values);

/// `statement` with the steps of `first` before its own, in every form that it has on PostgreSQL.
Statement run_after(const Statement& first, const Statement& statement);

/// The file's own definitions become placeholders of `values`. Throws as parse_statements.
void add_definitions(const SqlFile& file, Dialect dialect, Placeholders& values);

/// Every statement of a box, rendered.
class StatementSet {
 public:
  /// Throws std::invalid_argument as check_box_name does.
  StatementSet(Dialect dialect, const BoxName& box);
  /// From the given files, whose texts must outlive this. Files in folders (schema, function,
  /// print) and files without a block are no statements and are skipped.
  StatementSet(Dialect dialect, const BoxName& box, std::span<const SqlFile> files);

  /// Throws std::logic_error when there is no such statement.
  [[nodiscard]] const Statement& operator[](std::string_view name) const;
  [[nodiscard]] bool contains(std::string_view name) const { return statements_.contains(name); }
  [[nodiscard]] auto begin() const noexcept { return statements_.begin(); }
  [[nodiscard]] auto end() const noexcept { return statements_.end(); }

 private:
  Dialect dialect_;
  std::map<std::string_view, Statement, std::less<>> statements_;
};

/// The statements of a box, rendered once for all boxes of that name: a thousand databases share
/// one set. Thread-safe.
std::shared_ptr<const StatementSet> shared_statements(Dialect dialect, const BoxName& box);

}  // namespace twinbox
