// A verb as data: the parser, --help, the manual page, docs/reference/cli.md and the shell
// completion are made of it.
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

/// Where a value of the command line goes.
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
  /// The last name, which is the long one.
  [[nodiscard]] std::string long_name() const { return name.substr(name.rfind(',') + 1); }
};

struct Example {
  std::string command;
  std::string text;
};

/// What the verbs share: filled by the parser.
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

/// The options that choose a store, or boxes of it, and those that shape the answer.
std::vector<Option> store_options(CommonOptions& common);
std::vector<Option> box_options(CommonOptions& common);
std::vector<Option> answer_options(CommonOptions& common);
/// Those of verbs that change many things at once.
std::vector<Option> bulk_options(CommonOptions& common);
/// Of those that can be asked for again.
std::vector<Option> operation_options(CommonOptions& common);

/// `options`, and after them those that each of `shared` gives.
std::vector<Option> with(std::vector<Option> options,
                         std::initializer_list<std::vector<Option>> shared);

/// Every verb, in the order of the help. `common` must outlive them.
std::vector<Verb> all_verbs(CommonOptions& common);

}  // namespace twinbox::cli
