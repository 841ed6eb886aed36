#include <algorithm>

#include "cli/help.hpp"
#include "cli/text.hpp"

namespace twinbox::cli {
namespace {

struct Words {
  std::string path;  ///< `list`, `schema deploy`, or empty for the beginning
  std::vector<std::string> words;
};

std::vector<Words> completions(std::span<const Verb> verbs) {
  std::vector<Words> all = {{"", {}}};
  const auto node = [&](const std::string& path) -> Words& {
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const Words& one) { return one.path == path; });
    return found != all.end() ? *found : all.emplace_back(Words{path, {}});
  };
  for (const Verb& verb : verbs) {
    const std::size_t space = verb.name.find(' ');
    const std::string first = verb.name.substr(0, space);
    auto& top = node("").words;
    if (std::find(top.begin(), top.end(), first) == top.end()) top.push_back(first);
    if (space != std::string::npos) node(first).words.push_back(verb.name.substr(space + 1));
    std::vector<std::string> words;
    for (const Option& option : verb.options) {
      if (!option.positional())
        words.push_back(option.long_name());
      else
        words.insert(words.end(), option.choices.begin(), option.choices.end());
    }
    words.emplace_back("--help");
    node(verb.name).words = std::move(words);
  }
  return all;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

/// `--state` → the states, over all verbs: an option means the same everywhere.
std::vector<Words> choices(std::span<const Verb> verbs) {
  std::vector<Words> all;
  for (const Verb& verb : verbs) {
    for (const Option& option : verb.options) {
      if (option.positional() || option.choices.empty()) continue;
      const std::string name = option.long_name();
      const bool known =
          std::any_of(all.begin(), all.end(), [&](const Words& one) { return one.path == name; });
      if (!known) all.push_back({name, option.choices});
    }
  }
  return all;
}

/// `schema`, `config`: the first words that a second one follows.
std::vector<std::string> families(std::span<const Verb> verbs) {
  std::vector<std::string> all;
  for (const Verb& verb : verbs) {
    const std::string first = verb.name.substr(0, verb.name.find(' '));
    if (first != verb.name && std::find(all.begin(), all.end(), first) == all.end())
      all.push_back(first);
  }
  return all;
}

constexpr std::string_view file_options =
    "--config|--file|--token-file|--ca-file|--certificate-file|--key-file";

std::string bash_completion(std::span<const Verb> verbs) {
  std::string text =
      "# bash completion for twinbox\n"
      "_twinbox() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} path words\n"
      "  COMPREPLY=()\n"
      "  case $before in\n"
      "    " +
      std::string{file_options} + ") COMPREPLY=($(compgen -f -- \"$current\")); return ;;\n";
  for (const Words& one : choices(verbs)) {
    text += "    " + one.path + ") COMPREPLY=($(compgen -W \"" + joined(one.words) +
            "\" -- \"$current\")); return ;;\n";
  }
  text +=
      "  esac\n"
      "  path=''\n"
      "  if [ \"$COMP_CWORD\" -gt 1 ]; then path=${COMP_WORDS[1]}; fi\n"
      "  case $path in\n";
  for (const std::string& family : families(verbs)) {
    text += "    " + family +
            ") if [ \"$COMP_CWORD\" -gt 2 ]; then path=\"$path ${COMP_WORDS[2]}\"; fi ;;\n";
  }
  text += "  esac\n  case $path in\n";
  for (const Words& one : completions(verbs))
    text += "    '" + one.path + "') words='" + joined(one.words) + "' ;;\n";
  return text +
         "    *) words='' ;;\n"
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
         "}\n"
         "complete -F _twinbox twinbox\n";
}

/// Works as a file in $fpath, where compinit reads the first line and the first call defines the
/// function, and with `source`, which registers it. zsh itself uses the names `path` and `words`.
std::string zsh_completion(std::span<const Verb> verbs) {
  std::string text =
      "#compdef twinbox\n"
      "# zsh completion for twinbox: a file _twinbox in $fpath, or source <(twinbox completion "
      "zsh)\n"
      "_twinbox() {\n"
      "  local verb=''\n"
      "  case ${words[CURRENT-1]} in\n"
      "    " +
      std::string{file_options} + ") _files; return ;;\n";
  for (const Words& one : choices(verbs))
    text += "    " + one.path + ") compadd -- " + joined(one.words) + "; return ;;\n";
  text +=
      "  esac\n"
      "  if (( CURRENT > 2 )); then verb=${words[2]}; fi\n"
      "  case $verb in\n";
  for (const std::string& family : families(verbs)) {
    text += "    " + family + ") if (( CURRENT > 3 )); then verb=\"$verb ${words[3]}\"; fi ;;\n";
  }
  text += "  esac\n  case $verb in\n";
  for (const Words& one : completions(verbs))
    text += "    '" + one.path + "') compadd -- " + joined(one.words) + " ;;\n";
  return text +
         "  esac\n"
         "}\n"
         "if [[ ${funcstack[1]} == _twinbox ]]; then\n"
         "  _twinbox \"$@\"\n"
         "else\n"
         "  if (( ! ${+functions[compdef]} )); then autoload -Uz compinit && compinit; fi\n"
         "  compdef _twinbox twinbox\n"
         "fi\n";
}

std::string fish_completion(std::span<const Verb> verbs) {
  std::string text = "# fish completion for twinbox\ncomplete -c twinbox -f\n";
  const auto quoted = [](std::string words) {
    for (std::size_t at = words.find('\''); at != std::string::npos; at = words.find('\'', at + 2))
      words.insert(at, "\\");
    return "'" + words + "'";
  };
  for (const Verb& verb : verbs) {
    const std::size_t space = verb.name.find(' ');
    const std::string first = verb.name.substr(0, space);
    std::string when = "__fish_use_subcommand";
    std::string word = first;
    if (space != std::string::npos) {
      text += "complete -c twinbox -n __fish_use_subcommand -a " + first + "\n";
      when = "__fish_seen_subcommand_from " + first;
      word = verb.name.substr(space + 1);
    }
    text += "complete -c twinbox -n " + quoted(when) + " -a " + word + " -d " +
            quoted(verb.summary) + "\n";
    for (const Option& option : verb.options) {
      if (option.positional()) continue;
      text += "complete -c twinbox -n " + quoted("__fish_seen_subcommand_from " + word) + " -l " +
              option.long_name().substr(2) + (option.value.empty() ? "" : " -r") +
              (option.choices.empty() ? "" : " -a " + quoted(joined(option.choices))) + " -d " +
              quoted(option.text) + "\n";
    }
  }
  return text;
}

}  // namespace

std::string completion(std::span<const Verb> verbs, const std::string& shell) {
  if (shell == "bash") return bash_completion(verbs);
  if (shell == "zsh") return zsh_completion(verbs);
  if (shell == "fish") return fish_completion(verbs);
  throw CliError(exit_usage,
                 "no completion for shell '" + printable(shell) + "'; use bash, zsh or fish");
}

}  // namespace twinbox::cli
