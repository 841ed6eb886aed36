// The text of a box's schema: the scripts to apply, rendered.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sql/render.hpp"
#include "twinbox/schema.hpp"

namespace twinbox {

/// One migration, or one file of functions.
struct Script {
  std::string name;  ///< `0001_tables`, `function/work`
  std::optional<int>
      version;  ///< empty for functions: they are replaced whenever their text has changed
  std::string text;
  std::string hash;
};

struct BoxScripts {
  std::string bootstrap;            ///< creates the table of versions
  std::vector<Script> scripts;      ///< migrations in order, then functions
  std::set<std::string> functions;  ///< their names without the box's
  int version = 0;                  ///< of the last migration
};

/// Cached for recently used names, so that a thousand databases with the same names open quickly.
/// Thread-safe.
std::shared_ptr<const BoxScripts> box_scripts(Dialect dialect, BoxKind kind, const BoxName& box);

/// The text before the name of a function in the script that creates it.
std::string_view function_head(Dialect dialect) noexcept;

/// A part of what is printed for a person to run, the file print/<name>.sql; empty where the
/// dialect has none.
std::string printed(Dialect dialect, std::string_view name, const Placeholders& values);

}  // namespace twinbox
