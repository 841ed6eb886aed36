#include "sql/render.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "core/text.hpp"
#include "sql/lexer.hpp"
#include "sql/notify_channel.hpp"

namespace twinbox {
namespace {

constexpr std::size_t max_schema_bytes = 63;
// PostgreSQL cuts identifiers at 63 bytes; ours end in suffixes of up to 23.
constexpr std::size_t max_table_bytes = 40;
constexpr std::string_view default_schema = "infra";
constexpr int max_nesting = 8;

std::string quote(std::string_view text, char mark) {
  std::string quoted{mark};
  for (const char c : text) {
    if (c == mark) quoted += mark;
    quoted += c;
  }
  return quoted += mark;
}

[[noreturn]] void refuse(std::string_view part, const std::string& reason) {
  throw std::invalid_argument(std::string{part} + " name: " + reason);
}

bool starts_with_letters(std::string_view name, std::string_view lower_prefix) noexcept {
  return name.size() >= lower_prefix.size() &&
         std::equal(lower_prefix.begin(), lower_prefix.end(), name.begin(), [](char a, char b) {
           return a == (b >= 'A' && b <= 'Z' ? static_cast<char>(b - 'A' + 'a') : b);
         });
}

/// True when the text could end a `$tag$` body that it is rendered into.
bool has_dollar_tag(std::string_view text) noexcept {
  for (std::size_t at = text.find('$'); at != std::string_view::npos; at = text.find('$', at + 1)) {
    std::size_t end = at + 1;
    while (end < text.size() && is_word_part(text[end])) ++end;
    if (end < text.size() && text[end] == '$') return true;
  }
  return false;
}

void check_name(std::string_view part, std::string_view name, std::size_t limit, Dialect dialect) {
  if (name.empty()) {
    refuse(part, "empty, 1 to " + std::to_string(limit) + " bytes are needed");
  }
  if (name.size() > limit) {
    refuse(part, std::to_string(name.size()) + " bytes, at most " + std::to_string(limit) +
                     " are allowed");
  }
  if (name.find('\0') != std::string_view::npos) refuse(part, "contains NUL, leave it out");
  if (find_invalid_utf8(name)) refuse(part, "not UTF-8, only UTF-8 text is allowed");
  if (dialect == Dialect::sqlite && name.find('.') != std::string_view::npos) {
    refuse(part, "contains a dot, which SQLite tables need between schema and table; leave it out");
  }
  if (dialect == Dialect::sqlite && starts_with_letters(name, "sqlite_")) {
    refuse(part, "begins with sqlite_, which SQLite keeps for itself; choose another");
  }
  if (dialect == Dialect::postgres && has_dollar_tag(name)) {
    refuse(part,
           "contains two dollar signs that PostgreSQL reads as a quotation mark; leave one out");
  }
}

/// The prefixes of the names of one box, before the closing quotation mark.
struct Prefix {
  std::string qualified;  ///< of tables and functions
  std::string bare;    ///< of indexes and triggers, which PostgreSQL puts into the table's schema
  std::string schema;  ///< of what all boxes of a schema share
};

Prefix prefix_of(Dialect dialect, const BoxName& box) {
  const auto unclosed = [](std::string_view name) {
    std::string quoted = quote_identifier(name);
    quoted.pop_back();
    return quoted;
  };
  if (dialect == Dialect::sqlite) {
    const std::string schema = box.schema == default_schema ? "" : box.schema + ".";
    const std::string name = unclosed(schema + box.table);
    return {name, name, unclosed(schema)};
  }
  const std::string schema = quote_identifier(box.schema) + ".";
  return {schema + unclosed(box.table), unclosed(box.table), schema + '"'};
}

bool is_placeholder_part(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == ':';
}

/// The word of the placeholder that opens at `at`; empty when this is a brace and nothing more.
std::string_view placeholder_at(std::string_view text, std::size_t at) noexcept {
  std::size_t end = at + 1;
  while (end < text.size() && is_placeholder_part(text[end])) ++end;
  if (end >= text.size() || text[end] != '}' || end == at + 1) return {};
  const char first = text[at + 1];
  if ((first < 'a' || first > 'z') && first != '_') return {};
  return text.substr(at + 1, end - at - 1);
}

class Expansion {
 public:
  Expansion(const Placeholders& values, std::string_view where) : values_(values), where_(where) {}

  void expand(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) at = expand_at(text, at);
  }

  std::string take() { return std::move(out_); }

 private:
  std::size_t expand_at(std::string_view text, std::size_t at) {
    if (text[at] == '{') {
      if (const std::string_view word = placeholder_at(text, at); !word.empty()) {
        replace(word);
        return at + word.size() + 2;
      }
    }
    out_ += text[at];
    return at + 1;
  }

  void replace(std::string_view word) {
    if (const auto found = values_.find(word); found != values_.end() && !word.ends_with(':')) {
      expand_replacement(found->second, word);
      return;
    }
    if (const std::size_t colon = word.find(':'); colon != std::string_view::npos) {
      const auto found = values_.find(word.substr(0, colon + 1));
      const std::string_view suffix = word.substr(colon + 1);
      if (found != values_.end() && !suffix.empty() && suffix.find(':') == std::string_view::npos) {
        // An identifier contains a name that the user chose, and may contain any character.
        if (found->second.starts_with('"')) {
          out_.append(found->second).append(suffix) += '"';
        } else {
          std::string expression = found->second;
          expand_replacement(expression.replace(expression.find('%'), 1, suffix), word);
        }
        return;
      }
    }
    throw std::logic_error(std::string{where_} + ": unknown placeholder {" + std::string{word} +
                           "}, use one that placeholders() defines");
  }

  /// Quoted parts are unchanged: they contain names that the user chose.
  void expand_replacement(std::string_view text, std::string_view word) {
    if (++nesting_ > max_nesting) {
      throw std::logic_error(std::string{where_} + ": placeholder {" + std::string{word} +
                             "} leads back to itself, replace it by SQL");
    }
    for (std::size_t at = 0; at < text.size();) {
      const Token token = next_token(text, at, Dialect::postgres);
      if (token.kind == Lexeme::quote || token.kind == Lexeme::word) {
        out_.append(text.substr(at, token.end - at));
        at = token.end;
      } else {
        at = expand_at(text, at);
      }
    }
    --nesting_;
  }

  const Placeholders& values_;
  std::string_view where_;
  std::string out_;
  int nesting_ = 0;
};

void add_postgres(Placeholders& values, const BoxName& box) {
  const NotifyChannel channel = channel_of(box);
  values["wake_channel"] = quote_text(channel.name);
  values["wake_lock"] = quote_text(std::to_string(channel.notify_lock));
  values["wake_other_lock"] = quote_text(std::to_string(channel.other_notify_lock));
}

void add_sqlserver(Placeholders& values, const BoxName& box) {
  // Without the N a name would be read in the code page of the database.
  for (const char* text :
       {"schema_text", "table_text", "message_text", "work_text", "failure_text", "audit_text"})
    values[text] = "N" + values[text];
  values["lock_text"] = "N" + quote_text(box.schema + "." + box.table + " ");
  // For a statement that is in quotation marks itself.
  const std::string schema = quote_text(values["schema"]);
  values["schema_inside_text"] = schema.substr(1, schema.size() - 2);
}

}  // namespace

std::string quote_identifier(std::string_view name) { return quote(name, '"'); }

std::string quote_text(std::string_view text) { return quote(text, '\''); }

void check_box_name(const BoxName& box, Dialect dialect) {
  check_name("schema", box.schema, max_schema_bytes, dialect);
  check_name("table", box.table, max_table_bytes, dialect);
  if (dialect == Dialect::postgres && box.schema.starts_with("pg_")) {
    refuse("schema", "begins with pg_, which PostgreSQL keeps for itself; choose another");
  }
}

Placeholders placeholders(Dialect dialect, const BoxName& box) {
  const Prefix prefix = prefix_of(dialect, box);
  Placeholders values;
  for (const char* table :
       {"message", "work", "outcome", "failure", "audit", "named_lease", "worker", "hold"}) {
    values[table] = prefix.qualified + "_" + table + '"';
  }
  values["box"] = prefix.qualified + '"';
  values["version"] = prefix.schema + "twinbox_schema\"";
  values["schema_text"] = quote_text(box.schema);
  values["table_text"] = quote_text(box.table);
  for (const std::string table : {"message", "work", "outcome", "failure", "audit"})
    values[table + "_text"] = quote_text(values[table]);
  values["name:"] = prefix.bare + "_";
  if (dialect != Dialect::sqlite) {
    values["schema"] = quote_identifier(box.schema);
    values["function:"] = prefix.qualified + "_";
  }
  if (dialect == Dialect::postgres) add_postgres(values, box);
  if (dialect == Dialect::sqlserver) add_sqlserver(values, box);
  for (const SqlFile& file : embedded_sql(dialect)) {
    if (file.path == "define.sql") add_definitions(file, dialect, values);
  }
  return values;
}

std::string render_text(std::string_view text, const Placeholders& values, std::string_view where) {
  Expansion expansion{values, where};
  expansion.expand(text);
  return expansion.take();
}

std::pair<std::string, std::vector<std::string>> rewrite_parameters(std::string_view sql,
                                                                    Dialect dialect) {
  std::string out;
  out.reserve(sql.size());
  std::vector<std::string> names;
  std::vector<std::string_view> locals;  // SQL Server's own variables: what `declare` names
  bool declares = false;
  for (std::size_t at = 0; at < sql.size();) {
    // `@@` is an operator of PostgreSQL's text search, or begins a function of SQL Server.
    if (sql.substr(at, 2) == "@@") {
      out += "@@";
      at += 2;
      if (at < sql.size() && is_word_start(sql[at])) {
        const std::size_t end = next_token(sql, at, dialect).end;
        out.append(sql.substr(at, end - at));
        at = end;
      }
      continue;
    }
    std::size_t end = at + 1;
    if (sql[at] == '@' && end < sql.size() && is_word_start(sql[end])) {
      while (end < sql.size() && is_word_part(sql[end])) ++end;
      const std::string_view name = sql.substr(at + 1, end - at - 1);
      if (std::exchange(declares, false)) locals.push_back(name);
      if (std::find(locals.begin(), locals.end(), name) != locals.end()) {
        out.append(sql.substr(at, end - at));
        at = end;
        continue;
      }
      auto known = std::find(names.begin(), names.end(), name);
      if (known == names.end()) known = names.emplace(names.end(), name);
      if (dialect == Dialect::postgres) {
        out += '$' + std::to_string(known - names.begin() + 1);
      } else {
        out.append(sql.substr(at, end - at));
      }
    } else {
      end = next_token(sql, at, dialect).end;
      const std::string_view text = sql.substr(at, end - at);
      if (dialect == Dialect::sqlserver && text == "declare") declares = true;
      out.append(text);
    }
    at = end;
  }
  return {std::move(out), std::move(names)};
}

}  // namespace twinbox
