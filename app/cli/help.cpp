#include "cli/help.hpp"

#include <algorithm>
#include <sstream>

#include "cli/notes.hpp"
#include "cli/text.hpp"

namespace twinbox::cli {
namespace {

constexpr int widest_help = 100;

int width_of(const TextStyle& look) {
  return look.width == 0 ? 80 : std::min(look.width, widest_help);
}

std::vector<std::string> option_groups(const Verb& verb) {
  std::vector<std::string> groups;
  for (const Option& option : verb.options) {
    if (!option.positional() &&
        std::find(groups.begin(), groups.end(), option.group) == groups.end())
      groups.push_back(option.group);
  }
  return groups;
}

/// The label on the left, its text on the right, or below if the label is too long.
std::string entry(const std::string& label, const std::string& text, int column, int width,
                  const TextStyle& look) {
  const std::string body = wrapped(text, width, column);
  const int used = display_width(label) + 2;
  if (used + 2 > column) return "  " + look.paint(Style::accent, label) + "\n" + body;
  const std::string space(static_cast<std::size_t>(column - used), ' ');
  return "  " + look.paint(Style::accent, label) + space +
         body.substr(static_cast<std::size_t>(column));
}

std::string heading(const std::string& text, const TextStyle& look) {
  return "\n" + look.paint(Style::strong, text) + "\n";
}

template <class Notes>
std::string note_entries(const Notes& notes, int column, int width, const TextStyle& look) {
  std::string text;
  for (const auto& [name, meaning] : notes) text += entry(name, meaning, column, width, look);
  return text;
}

}  // namespace

std::vector<std::string> verb_groups(std::span<const Verb> verbs) {
  std::vector<std::string> groups;
  for (const Verb& verb : verbs) {
    if (std::find(groups.begin(), groups.end(), verb.group) == groups.end())
      groups.push_back(verb.group);
  }
  return groups;
}

std::string option_label(const Option& option) {
  if (option.positional()) return option.value;
  std::string label = option.name;
  if (const auto comma = label.find(','); comma != std::string::npos) label.insert(comma + 1, " ");
  if (!option.value.empty()) label += " " + option.value;
  return label;
}

std::string wrapped(const std::string& text, int width, int indent) {
  const std::string space(static_cast<std::size_t>(indent), ' ');
  std::string result;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string current;
    for (std::string word; words >> word;) {
      if (!current.empty() && indent + display_width(current) + 1 + display_width(word) > width) {
        result += space + current + "\n";
        current.clear();
      }
      current += (current.empty() ? "" : " ") + word;
    }
    result += current.empty() ? "\n" : space + current + "\n";
  }
  return result;
}

std::string synopsis(const Verb& verb) {
  std::string text = verb.name;
  for (const Option& option : verb.options) {
    if (!option.positional()) continue;
    const std::string one = option.value + (option.many() ? "…" : "");
    text += option.required ? " " + one : " [" + one + "]";
  }
  for (const Option& option : verb.options) {
    if (!option.positional() && option.required)
      text += " " + option.long_name() + " " + option.value;
  }
  return text + " [options]";
}

std::string overview(std::span<const Verb> verbs, const TextStyle& look) {
  const int width = width_of(look);
  std::string text = look.paint(Style::strong, "twinbox") + ": " + motto + "\n\n" +
                     "usage: twinbox <command> [options]\n";
  for (const std::string& group : verb_groups(verbs)) {
    text += heading(group, look);
    for (const Verb& verb : verbs) {
      if (verb.group == group) text += entry(verb.name, verb.summary, 18, width, look);
    }
  }
  text += heading("Exit codes", look) + note_entries(exit_notes, 18, width, look);
  return text + "\n" +
         wrapped(
             "Run twinbox <command> --help for options and examples, and twinbox man for the whole "
             "manual.",
             width, 0);
}

std::string family_help(std::span<const Verb> verbs, const std::string& family,
                        const TextStyle& look) {
  std::string text = "usage: twinbox " + family + " <command> [options]\n\n";
  for (const Verb& verb : verbs) {
    if (verb.name.starts_with(family + " "))
      text += entry(verb.name, verb.summary, 18, width_of(look), look);
  }
  return text;
}

std::string verb_help(const Verb& verb, const TextStyle& look) {
  constexpr int column = 26;
  const int width = width_of(look);
  std::string text = look.paint(Style::strong, "twinbox " + verb.name) + ": " + verb.summary +
                     "\n\nusage: twinbox " + synopsis(verb) + "\n";
  if (!verb.text.empty()) text += "\n" + wrapped(verb.text, width, 0);
  if (std::any_of(verb.options.begin(), verb.options.end(),
                  [](const Option& option) { return option.positional(); })) {
    text += "\n";
    for (const Option& option : verb.options) {
      if (option.positional())
        text += entry(option_label(option), option.text, column, width, look);
    }
  }
  for (const std::string& group : option_groups(verb)) {
    text += heading(group, look);
    for (const Option& option : verb.options) {
      if (!option.positional() && option.group == group)
        text += entry(option_label(option), option.text, column, width, look);
    }
  }
  if (!verb.examples.empty()) {
    text += heading("Examples", look);
    for (const Example& example : verb.examples)
      text +=
          "  " + example.command + "\n" + look.paint(Style::faint, wrapped(example.text, width, 6));
  }
  return text;
}

}  // namespace twinbox::cli
