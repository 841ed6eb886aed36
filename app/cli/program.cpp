#include "cli/program.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <map>
#include <span>

#include "cli/help.hpp"
#include "cli/text.hpp"
#include "cli/verb.hpp"
#include "daemon/config/secrets.hpp"
#include <twinbox/error.hpp>

namespace twinbox::cli {
namespace {

using Words = std::vector<std::string>;

std::string first_word(const std::string& name) { return name.substr(0, name.find(' ')); }

void add_option(CLI::App& app, const Option& option) {
  CLI::Option* added = std::visit(
      [&](auto* target) -> CLI::Option* {
        using Value = std::remove_pointer_t<decltype(target)>;
        if constexpr (std::is_same_v<Value, bool>) {
          return app.add_flag(option.name, *target, option.text);
        } else {
          return app.add_option(option.name, *target, option.text);
        }
      },
      option.target);
  if (option.required) added->required();
  if (option.many() && !option.positional())
    added->expected(1)->allow_extra_args(false)->take_all();
  if (!option.choices.empty()) added->check(CLI::IsMember(option.choices));
}

/// The command line as CLI11 reads it.
class Parser {
 public:
  explicit Parser(std::span<const Verb> verbs) {
    app_.set_help_flag();
    app_.require_subcommand(1);
    for (const Verb& verb : verbs) {
      CLI::App* parent = &app_;
      std::string last = verb.name;
      if (const auto space = verb.name.find(' '); space != std::string::npos) {
        parent = family(verb.name.substr(0, space));
        last = verb.name.substr(space + 1);
      }
      CLI::App* command = parent->add_subcommand(last);
      command->set_help_flag();
      for (const Option& option : verb.options) add_option(*command, option);
      command->final_callback([this, &verb] { chosen_ = &verb; });
    }
  }

  /// Throws CLI::ParseError.
  const Verb& parse(int argc, char** argv) {
    app_.parse(argc, argv);
    return *chosen_;
  }

 private:
  CLI::App* family(const std::string& name) {
    CLI::App*& found = families_[name];
    if (found == nullptr) {
      found = app_.add_subcommand(name);
      found->set_help_flag();
      found->require_subcommand(1);
    }
    return found;
  }

  CLI::App app_;
  std::map<std::string, CLI::App*> families_;
  const Verb* chosen_ = nullptr;
};

/// The words before the first option, which may name a command.
Words leading_words(std::span<char*> arguments) {
  Words words;
  for (const char* argument : arguments) {
    if (*argument == '-') break;
    words.emplace_back(argument);
  }
  return words;
}

const Verb* find(std::span<const Verb> verbs, const std::string& name) {
  const auto found =
      std::find_if(verbs.begin(), verbs.end(), [&](const Verb& verb) { return verb.name == name; });
  return found == verbs.end() ? nullptr : &*found;
}

const Verb* named(std::span<const Verb> verbs, const Words& words) {
  if (words.empty()) return nullptr;
  if (words.size() > 1) {
    if (const Verb* verb = find(verbs, words[0] + " " + words[1])) return verb;
  }
  return find(verbs, words[0]);
}

bool is_family(std::span<const Verb> verbs, const std::string& word) {
  return std::any_of(verbs.begin(), verbs.end(),
                     [&](const Verb& verb) { return verb.name.starts_with(word + " "); });
}

[[noreturn]] void refuse_unknown(const std::string& what, const std::string& word,
                                 const Words& known, const std::string& help) {
  const std::string guess = nearest(word, known);
  throw CliError(exit_usage, what + " '" + printable(word) + "'; " +
                                 (guess.empty() ? "see " : "did you mean '" + guess + "'? See ") +
                                 help);
}

/// Throws for an unknown command and suggests the closest one.
void check_verb(std::span<const Verb> verbs, const Words& words) {
  if (words.empty()) throw CliError(exit_usage, "no command given; see twinbox --help");
  if (named(verbs, words) != nullptr) return;
  Words known;
  if (is_family(verbs, words[0])) {
    for (const Verb& verb : verbs) {
      if (verb.name.starts_with(words[0] + " "))
        known.push_back(verb.name.substr(words[0].size() + 1));
    }
    const std::string help = "twinbox " + words[0] + " --help";
    if (words.size() > 1) refuse_unknown(words[0] + " has no command", words[1], known, help);
    std::string list;
    for (const std::string& one : known) list += (list.empty() ? "" : ", ") + one;
    throw CliError(exit_usage, words[0] + " needs a subcommand: " + list + "; see " + help);
  }
  for (const Verb& verb : verbs) known.push_back(first_word(verb.name));
  refuse_unknown("unknown command", words[0], known, "twinbox --help");
}

/// Rewrites an error of CLI11 with a suggestion if possible.
[[noreturn]] void refuse_arguments(const Verb& verb, const CLI::ParseError& error,
                                   std::span<char*> arguments) {
  const std::string help = "twinbox " + verb.name + " --help";
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    Words known;
    for (const Option& option : verb.options) {
      if (!option.positional()) known.push_back(option.long_name());
    }
    for (const char* argument : arguments) {
      const std::string word = std::string{argument}.substr(0, std::string{argument}.find('='));
      if (!word.starts_with('-') || word == "-") continue;
      const bool fits =
          std::any_of(verb.options.begin(), verb.options.end(), [&](const Option& one) {
            return !one.positional() &&
                   ("," + one.name + ",").find("," + word + ",") != std::string::npos;
          });
      if (!fits) refuse_unknown(verb.name + " has no option", word, known, help);
    }
    throw CliError(exit_usage, verb.name + " has too many arguments; see " + help);
  }
  throw CliError(exit_usage, verb.name + ": " + error.what() + "; see " + help);
}

bool asks_for(std::span<char*> arguments, std::string_view one, std::string_view other) {
  for (const std::string_view argument : arguments) {
    if (argument == "--") return false;
    if (argument == one || argument == other) return true;
  }
  return false;
}

/// Handles --help and --version; false: neither was given.
bool answer_about_itself(std::span<const Verb> verbs, std::span<char*> arguments,
                         const Screen& screen) {
  const Words words = leading_words(arguments);
  if (words.empty() && asks_for(arguments, "--version", "-V")) {
    screen.print("twinbox " TWINBOX_VERSION "\n");
    return true;
  }
  const bool asked = asks_for(arguments, "--help", "-h") || (!words.empty() && words[0] == "help");
  if (!asked && !arguments.empty()) return false;
  const Words about =
      !words.empty() && words[0] == "help" ? Words(words.begin() + 1, words.end()) : words;
  if (about.empty()) {
    screen.print(overview(verbs, screen.look()));
  } else if (const Verb* verb = named(verbs, about)) {
    screen.print(verb_help(*verb, screen.look()));
  } else if (is_family(verbs, about[0]) && about.size() == 1) {
    screen.print(family_help(verbs, about[0], screen.look()));
  } else {
    check_verb(verbs, about);
  }
  return true;
}

int run_verb(std::span<char*> arguments, int argc, char** argv) {
  CommonOptions common;
  common.words.assign(arguments.begin(), arguments.end());
  const std::vector<Verb> verbs = all_verbs(common);
  if (answer_about_itself(verbs, arguments, Screen{})) return exit_ok;
  const Words words = leading_words(arguments);
  check_verb(verbs, words);
  Parser parser(verbs);
  try {
    const Verb& verb = parser.parse(argc, argv);
    const auto colour = common.colour == "always"  ? Screen::Colour::always
                        : common.colour == "never" ? Screen::Colour::never
                                                   : Screen::Colour::automatic;
    return verb.run(Screen{colour});
  } catch (const CLI::ParseError& error) {
    refuse_arguments(*named(verbs, words), error, arguments);
  }
}

int complain(ExitCode code, const std::string& message) {
  const Screen screen;
  const TextStyle& look = screen.error_style();
  screen.note(look.paint(Style::bad, "twinbox:") + " " +
              printable_lines(app::without_secrets(message)) + "\n");
  return code;
}

}  // namespace

int run(int argc, char** argv) {
  try {
    return run_verb(std::span{argv, static_cast<std::size_t>(argc)}.subspan(argc > 0 ? 1 : 0), argc,
                    argv);
  } catch (const CliError& refusal) {
    return complain(refusal.code(), refusal.what());
  } catch (const SchemaError& error) {
    return complain(exit_schema, error.what());
  } catch (const DatabaseError& error) {
    const bool schema = error.kind() == DatabaseError::Kind::missing_schema;
    return complain(schema ? exit_schema : exit_database,
                    std::string{error.what()} + (schema ? "; run twinbox schema check" : ""));
  } catch (const std::logic_error& error) {  // a wrong argument
    return complain(exit_usage, error.what());
  } catch (const std::exception& error) {
    return complain(exit_failure, error.what());
  }
}

}  // namespace twinbox::cli
