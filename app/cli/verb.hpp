// A command of the program as data. The parser, --help, the manual page, docs/reference/cli.md and
// the shell completion are generated from it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cli/exit_code.hpp"
#include "cli/screen.hpp"

namespace twinbox::cli {

/// The variable that receives the value of an option.
using OptionTarget = std::variant<bool*, std::string*, std::optional<std::string>*,
                                  std::vector<std::string>*, std::int64_t*>;

struct Option {
  std::string name;   ///< `--topic`, `-n,--limit`; without dashes: by its place
  std::string value;  ///< what stands for the value, such as `TOPIC`; empty: a flag
  std::string text;
  OptionTarget target;
  std::vector<std::string> choices = {};  ///< empty: anything
  bool required = false;
  std::string group = "Options";

  [[nodiscard]] bool positional() const noexcept { return !name.starts_with('-'); }
  [[nodiscard]] bool many() const noexcept {
    return std::holds_alternative<std::vector<std::string>*>(target);
  }
  /// The long name, which comes last.
  [[nodiscard]] std::string long_name() const { return name.substr(name.rfind(',') + 1); }
};

struct Example {
  std::string command;
  std::string text;
};

/// The options that commands share, filled by the parser.
struct CommonOptions {
  std::string config;
  std::string store;
  std::string database;
  std::string schema;
  std::string colour = "auto";
  bool json = false;
  bool outbox = false;
  bool inbox = false;
  bool dry_run = false;
  bool yes = false;
  std::string actor;
  std::string reason;
  std::string operation;
  std::vector<std::string> words = {};  ///< of the command line, after the program's name
};

struct Verb {
  std::string name;   ///< `list`, `schema deploy`
  std::string group;  ///< the heading it stands under
  std::string summary;
  std::string text = {};  ///< paragraphs, empty lines between them
  std::vector<Option> options = {};
  std::vector<Example> examples = {};
  std::function<int(const Screen&)> run;
};

/// The options that choose a store and its boxes, and those that format the output.
std::vector<Option> store_options(CommonOptions& common);
std::vector<Option> box_options(CommonOptions& common);
std::vector<Option> answer_options(CommonOptions& common);
/// The options of commands that change many messages.
std::vector<Option> bulk_options(CommonOptions& common);
/// The options of commands that can be repeated safely.
std::vector<Option> operation_options(CommonOptions& common);

/// `options` followed by all of `shared`.
std::vector<Option> with(std::vector<Option> options,
                         std::initializer_list<std::vector<Option>> shared);

/// Every command, in the order of the help. `common` must outlive them.
std::vector<Verb> all_verbs(CommonOptions& common);

}  // namespace twinbox::cli
