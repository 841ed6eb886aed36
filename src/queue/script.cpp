#include "queue/script.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <mutex>
#include <tuple>

#include "core/sha256.hpp"
#include "sql/lexer.hpp"

namespace twinbox {
namespace {

constexpr std::string_view schema_folder = "schema/";
constexpr std::string_view function_folder = "function/";
constexpr std::string_view ending = ".sql";

std::string hash_of(std::string_view script) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : sha256(script)) {
    text += digits[byte >> 4U];
    text += digits[byte & 15U];
  }
  return text;
}

/// A name with the other box's prefix is not for this one.
bool is_for(BoxKind kind, std::string_view name) {
  const BoxKind other = kind == BoxKind::outbox ? BoxKind::inbox : BoxKind::outbox;
  return !name.starts_with(to_string(other));
}

/// A step of one of our statements with its parameters named `p_…`, for the body of a function. A
/// `$1` inside quotation marks is part of a name. SQL Server's keep their own names.
std::string function_step(const Step& step, Dialect dialect) {
  if (dialect != Dialect::postgres) return step.sql;
  const std::string_view sql = step.sql;
  std::string text;
  for (std::size_t at = 0; at < sql.size();) {
    std::size_t number = 0;
    const auto [end, error] = std::from_chars(sql.data() + at + 1, sql.data() + sql.size(), number);
    if (sql[at] == '$' && error == std::errc{} && number >= 1 && number <= step.params.size()) {
      text += "p_" + step.params[number - 1];
      at = static_cast<std::size_t>(end - sql.data());
    } else {
      const std::size_t next = next_token(sql, at, Dialect::postgres).end;
      text += sql.substr(at, next - at);
      at = next;
    }
  }
  return text;
}

void add_function_names(std::string_view file, Dialect dialect, std::set<std::string>& names) {
  const std::string head = std::string{function_head(dialect)} + "{function:";
  for (auto at = file.find(head); at != std::string_view::npos; at = file.find(head, at)) {
    at += head.size();
    names.emplace(file.substr(at, file.find('}', at) - at));
  }
}

Placeholders function_placeholders(Dialect dialect, const BoxName& box) {
  Placeholders values = placeholders(dialect, box);
  for (const auto& [name, statement] : StatementSet(dialect, box)) {
    for (std::size_t i = 0; i < statement.steps.size(); ++i) {
      values["step:" + std::string{name} + "_" + std::to_string(i + 1)] =
          function_step(statement.steps[i], dialect);
    }
    if (dialect != Dialect::sqlserver) continue;
    // Every SELECT is a result of the procedure: one with an answer of its own leaves the last out.
    const std::string& whole = statement.steps.front().sql;
    values["body:" + std::string{name}] = whole.substr(0, whole.rfind("\nselect ") + 1);
  }
  return values;
}

BoxScripts render_scripts(Dialect dialect, BoxKind kind, const BoxName& box) {
  const Placeholders values = placeholders(dialect, box);
  Placeholders function_values;  // made for the first file of functions; SQLite has none
  BoxScripts result;
  std::vector<Script> functions;
  for (const SqlFile& file : embedded_sql(dialect)) {
    std::string_view name = file.path;
    name.remove_suffix(name.ends_with(ending) ? ending.size() : 0);
    if (name.starts_with(schema_folder)) {
      name.remove_prefix(schema_folder.size());
      int version = 0;
      std::from_chars(name.data(), name.data() + name.size(), version);
      std::string text = render_text(file.text, values, file.path);
      if (version == 0) {
        result.bootstrap = std::move(text);
      } else if (is_for(kind, name.substr(std::min(name.size(), name.find('_') + 1)))) {
        std::string hash = hash_of(text);
        result.scripts.push_back({std::string{name}, version, std::move(text), std::move(hash)});
        result.version = std::max(result.version, version);
      }
    } else if (name.starts_with(function_folder) &&
               is_for(kind, name.substr(function_folder.size()))) {
      if (function_values.empty()) function_values = function_placeholders(dialect, box);
      std::string text = render_text(file.text, function_values, file.path);
      std::string hash = hash_of(text);
      add_function_names(file.text, dialect, result.functions);
      functions.push_back({std::string{name}, std::nullopt, std::move(text), std::move(hash)});
    }
  }
  const auto by_name = [](const Script& a, const Script& b) { return a.name < b.name; };
  std::sort(result.scripts.begin(), result.scripts.end(), by_name);
  std::sort(functions.begin(), functions.end(), by_name);
  result.scripts.insert(result.scripts.end(), functions.begin(), functions.end());
  return result;
}

}  // namespace

std::string_view function_head(Dialect dialect) noexcept {
  return dialect == Dialect::postgres ? "create or replace function " : "create procedure ";
}

std::shared_ptr<const BoxScripts> box_scripts(Dialect dialect, BoxKind kind, const BoxName& box) {
  constexpr std::size_t most_kept = 8;
  static std::mutex mutex;
  static std::map<std::tuple<Dialect, BoxKind, BoxName>, std::shared_ptr<const BoxScripts>> kept;
  const std::tuple key{dialect, kind, box};
  const std::scoped_lock lock{mutex};
  if (const auto found = kept.find(key); found != kept.end()) return found->second;
  auto scripts = std::make_shared<const BoxScripts>(render_scripts(dialect, kind, box));
  if (kept.size() >= most_kept) kept.clear();
  kept.emplace(key, scripts);
  return scripts;
}

std::string printed(Dialect dialect, std::string_view name, const Placeholders& values) {
  const std::string path = "print/" + std::string{name} + ".sql";
  for (const SqlFile& file : embedded_sql(dialect)) {
    if (file.path == path) return render_text(file.text, values, path);
  }
  return {};
}

}  // namespace twinbox
