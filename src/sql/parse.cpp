#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "sql/lexer.hpp"
#include "sql/render.hpp"

namespace twinbox {
namespace {

constexpr std::string_view name_directive = "-- name:";
constexpr std::string_view define_directive = "-- define:";
constexpr std::string_view each_mark = "-- each";
constexpr std::string_view call_mark = "-- call";
constexpr std::string_view one_mark = "-- one";
constexpr std::string_view many_mark = "-- many";

bool is_mark(std::string_view comment) noexcept {
  return comment == each_mark || comment == call_mark || comment == one_mark ||
         comment == many_mark;
}

std::string_view trim(std::string_view text) noexcept {
  while (!text.empty() && is_sql_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_sql_blank(text.back())) text.remove_suffix(1);
  return text;
}

std::uint32_t next_number() noexcept {
  static std::atomic<std::uint32_t> last = 0;
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

bool is_name(std::string_view text) noexcept {
  if (text.empty()) return false;
  for (const char c : text) {
    if ((c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_') return false;
  }
  return true;
}

/// A part of a file: a block or a definition, with its comments removed and its marks kept.
struct Section {
  std::string_view name;
  bool is_definition;
  std::string text = {};
};

[[noreturn]] void fail(const SqlFile& file, std::string_view name, const std::string& reason) {
  std::string where{file.path};
  if (!name.empty()) where.append(": block ").append(name);
  throw std::logic_error(where + ": " + reason);
}

std::vector<Section> sections(const SqlFile& file, Dialect dialect) {
  std::vector<Section> found;
  const auto begin_section = [&](std::string_view name, bool is_definition) {
    const bool has_suffix = is_definition && name.ends_with(':');
    if (!is_name(has_suffix ? name.substr(0, name.size() - 1) : name)) {
      fail(file, {}, "\"" + std::string{name} + "\" is no name, write a-z, 0-9 and _");
    }
    found.push_back({name, is_definition});
  };
  for (std::size_t at = 0; at < file.text.size();) {
    const Token token = next_token(file.text, at, dialect);
    const std::string_view text = file.text.substr(at, token.end - at);
    const std::string_view comment = token.kind == Lexeme::comment ? trim(text) : "";
    if (comment.starts_with(name_directive)) {
      begin_section(trim(comment.substr(name_directive.size())), false);
    } else if (comment.starts_with(define_directive)) {
      begin_section(trim(comment.substr(define_directive.size())), true);
    } else if (token.kind != Lexeme::comment || is_mark(comment)) {
      if (!found.empty()) {
        found.back().text.append(text);
      } else if (!trim(text).empty()) {
        fail(file, {}, "SQL before the first block, give it a line `-- name: …`");
      }
    }
    at = token.end;
  }
  return found;
}

/// True when nothing but blanks and a mark stands between `at` and the end of the line.
bool ends_line(std::string_view text, std::size_t at) noexcept {
  const std::string_view rest = trim(text.substr(at, text.find('\n', at) - at));
  return rest.empty() || rest.starts_with("--");
}

/// Without the lines and line ends that comments left empty. Quoted text is not touched.
std::string without_gaps(std::string_view sql, Dialect dialect) {
  std::string out;
  sql = trim(sql);
  for (std::size_t at = 0; at < sql.size();) {
    const std::size_t end = next_token(sql, at, dialect).end;
    if (sql[at] == '\n') {
      while (!out.empty() && is_sql_blank(out.back())) out.pop_back();
    }
    out.append(sql.substr(at, end - at));
    at = end;
  }
  return out;
}

/// Reads the steps of one rendered block.
class BlockReader {
 public:
  BlockReader(const SqlFile& file, std::string_view name, Dialect dialect)
      : file_(file),
        dialect_(dialect),
        statement_{.name = name, .number = next_number(), .steps = {}} {}

  Statement read(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
      const Token token = next_token(text, at, dialect_);
      if (token.kind == Lexeme::comment) {
        see_mark(trim(text.substr(at, token.end - at)));
      } else if (token.kind == Lexeme::code && text[at] == ';' && ends_line(text, token.end) &&
                 dialect_ != Dialect::sqlserver) {
        finish_step();
      } else {
        sql_.append(text.substr(at, token.end - at));
      }
      at = token.end;
    }
    if (dialect_ == Dialect::sqlserver && !trim(sql_).empty()) finish_step();
    if (!trim(sql_).empty()) refuse("the last statement has no semicolon at a line's end, add it");
    if (!mark_.empty()) refuse("a mark without a statement after it, remove it");
    if (statement_.steps.empty()) refuse("no statement, write one or remove the block");
    return std::move(statement_);
  }

 private:
  void see_mark(std::string_view mark) {
    if (mark == one_mark && dialect_ != Dialect::postgres) {
      refuse("`-- one` is never run outside PostgreSQL, remove it");
    }
    if (mark == many_mark && dialect_ != Dialect::sqlite) {
      refuse("`-- many` is never run outside SQLite, remove it");
    }
    if (!trim(sql_).empty()) refuse("a mark inside a statement, put it before the statement");
    if (!mark_.empty()) refuse("two marks for one statement, keep one");
    mark_ = mark;
  }

  void finish_step() {
    const std::string step_sql = without_gaps(sql_, dialect_);
    if (step_sql.empty()) refuse("an empty statement, remove its semicolon");
    auto [sql, params] = rewrite_parameters(step_sql, dialect_);
    Step step{.sql = std::move(sql), .params = std::move(params), .each = mark_ == each_mark};
    if (mark_ == one_mark) {
      statement_.one.push_back(std::move(step));
    } else if (mark_ == many_mark) {
      statement_.many.push_back(std::move(step));
    } else if (mark_ == call_mark) {
      if (!statement_.call.empty()) refuse("a second `-- call`, keep one");
      statement_.call.push_back(std::move(step));
    } else {
      if (step.each && statement_.steps.empty()) {
        refuse("`-- each` before the first step, put a step that returns rows before it");
      }
      statement_.steps.push_back(std::move(step));
    }
    sql_.clear();
    mark_ = {};
  }

  [[noreturn]] void refuse(const std::string& reason) const {
    fail(file_, statement_.name, reason);
  }

  const SqlFile& file_;
  Dialect dialect_;
  Statement statement_;
  std::string sql_;        ///< of the step being read
  std::string_view mark_;  ///< of the step being read
};

void add_definitions(const SqlFile& file, const std::vector<Section>& parts, Placeholders& known) {
  for (const Section& part : parts) {
    if (part.is_definition && !known.emplace(part.name, trim(part.text)).second) {
      fail(file, {}, "{" + std::string{part.name} + "} is defined already, rename one");
    }
  }
}

bool holds_blocks(const SqlFile& file) noexcept {
  if (file.path.find('/') != std::string_view::npos) return false;
  return file.text.starts_with(name_directive) ||
         file.text.find("\n-- name:") != std::string_view::npos;
}

}  // namespace

void add_definitions(const SqlFile& file, Dialect dialect, Placeholders& values) {
  add_definitions(file, sections(file, dialect), values);
}

std::vector<Statement> parse_statements(const SqlFile& file, Dialect dialect,
                                        const Placeholders& values) {
  const std::vector<Section> parts = sections(file, dialect);
  Placeholders known = values;
  add_definitions(file, parts, known);
  std::vector<Statement> statements;
  for (const Section& part : parts) {
    if (part.is_definition) continue;
    // Rendered before it is parsed: a definition may contain whole statements.
    const std::string where = std::string{file.path} + ": block " + std::string{part.name};
    const std::string text = render_text(part.text, known, where);
    statements.push_back(BlockReader{file, part.name, dialect}.read(text));
  }
  return statements;
}

Statement run_after(const Statement& first, const Statement& statement) {
  Statement both = statement;
  both.number = next_number();
  for (std::vector<Step>* form : {&both.steps, &both.one, &both.call}) {
    if (!form->empty()) form->insert(form->begin(), first.steps.begin(), first.steps.end());
  }
  return both;
}

StatementSet::StatementSet(Dialect dialect, const BoxName& box)
    : StatementSet(dialect, box, embedded_sql(dialect)) {}

StatementSet::StatementSet(Dialect dialect, const BoxName& box, std::span<const SqlFile> files)
    : dialect_(dialect) {
  check_box_name(box, dialect);
  const Placeholders values = placeholders(dialect, box);
  for (const SqlFile& file : files) {
    if (!holds_blocks(file)) continue;
    for (Statement& statement : parse_statements(file, dialect, values)) {
      const std::string_view name = statement.name;
      if (!statements_.emplace(name, std::move(statement)).second) {
        throw std::logic_error(std::string{file.path} + ": block " + std::string{name} +
                               " exists twice, rename one");
      }
    }
  }
}

const Statement& StatementSet::operator[](std::string_view name) const {
  const auto found = statements_.find(name);
  if (found == statements_.end()) {
    throw std::logic_error("statement " + std::string{name} + ": not in the .sql files of " +
                           std::string{to_string(dialect_)} + ", add the block");
  }
  return found->second;
}

std::shared_ptr<const StatementSet> shared_statements(Dialect dialect, const BoxName& box) {
  static std::mutex mutex;
  static std::map<std::pair<Dialect, BoxName>, std::weak_ptr<const StatementSet>> sets;
  const std::scoped_lock lock{mutex};
  if (const auto known = sets[{dialect, box}].lock()) return known;
  auto set = std::make_shared<const StatementSet>(dialect, box);
  std::erase_if(sets, [](const auto& entry) { return entry.second.expired(); });
  sets[{dialect, box}] = set;
  return set;
}

}  // namespace twinbox
