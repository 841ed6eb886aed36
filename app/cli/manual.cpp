#include <algorithm>
#include <cctype>

#include "cli/help.hpp"
#include "cli/notes.hpp"

namespace twinbox::cli {
namespace {

/// Text for troff: backslashes and dashes as they are, no line that begins with a control.
std::string roff(const std::string& text) {
  std::string result;
  for (const char c : text) {
    const bool line_begins = result.empty() || result.back() == '\n';
    if (line_begins && (c == '.' || c == '\'')) result += "\\&";
    if (c == '\\')
      result += "\\e";
    else if (c == '-')
      result += "\\-";
    else
      result += c;
  }
  return result;
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

std::string paragraphs(const std::string& text, const std::string& between) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find("\n\n", at), text.size());
    result += (result.empty() ? "" : between) + text.substr(at, end - at);
    at = end + 2;
  }
  return result;
}

std::string roff_entry(const std::string& label, const std::string& text) {
  return ".TP\n.B " + roff(label) + "\n" + roff(text) + "\n";
}

std::string roff_verb(const Verb& verb) {
  std::string text = ".SS twinbox " + roff(synopsis(verb)) + "\n" + roff(verb.summary) + ".\n";
  if (!verb.text.empty()) text += ".PP\n" + paragraphs(roff(verb.text), "\n.PP\n") + "\n";
  for (const Option& option : verb.options) text += roff_entry(option_label(option), option.text);
  for (const Example& example : verb.examples) {
    text += ".PP\n" + roff(example.text) + ":\n.PP\n.RS\n.nf\n" + roff(example.command) +
            "\n.fi\n.RE\n";
  }
  return text;
}

template <class Notes>
std::string roff_notes(const std::string& title, const Notes& notes) {
  std::string text = ".SH " + upper(title) + "\n";
  for (const auto& [name, meaning] : notes) text += roff_entry(name, meaning);
  return text;
}

}  // namespace

std::string manual_page(std::span<const Verb> verbs) {
  std::string text = ".TH TWINBOX 1 \"\" \"twinbox " TWINBOX_VERSION
                     "\" \"User Commands\"\n"
                     ".SH NAME\ntwinbox \\- " +
                     std::string{motto} + "\n.SH SYNOPSIS\n.B twinbox\n.I command\n[options]\n";
  for (const std::string& group : verb_groups(verbs)) {
    text += ".SH " + upper(group) + "\n";
    for (const Verb& verb : verbs) {
      if (verb.group == group) text += roff_verb(verb);
    }
  }
  return text + roff_notes("JSON", json_notes) + roff_notes("Environment", environment_notes) +
         roff_notes("Exit status", exit_notes);
}

namespace {

std::string cell(std::string text) {
  for (std::size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2))
    text.insert(at, "\\");
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

template <class Notes>
std::string note_table(const std::string& title, const Notes& notes, bool code) {
  std::string text = "| " + title + " | |\n|---|---|\n";
  for (const auto& [name, meaning] : notes) {
    const std::string first = code ? "`" + std::string{name} + "`" : name;
    text += "| " + first + " | " + cell(meaning) + " |\n";
  }
  return text + "\n";
}

std::string markdown_verb(const Verb& verb) {
  std::string text = "### twinbox " + verb.name + "\n\n" + verb.summary + ".\n\n```\ntwinbox " +
                     synopsis(verb) + "\n```\n\n";
  if (!verb.text.empty()) text += verb.text + "\n\n";
  if (!verb.options.empty()) {
    text += "| option | |\n|---|---|\n";
    for (const Option& option : verb.options)
      text += "| `" + cell(option_label(option)) + "` | " + cell(option.text) + " |\n";
    text += "\n";
  }
  if (!verb.examples.empty()) {
    text += "```\n";
    for (const Example& example : verb.examples)
      text += "# " + example.text + "\n" + example.command + "\n";
    text += "```\n\n";
  }
  return text;
}

}  // namespace

std::string markdown_page(std::span<const Verb> verbs) {
  std::string text =
      "# The command line\n\n`twinbox man --markdown` prints this page; a test compares the two. "
      "`twinbox <command> --help` shows the same text in the\nterminal, `twinbox man | man -l -` "
      "shows it as a manual page, and `twinbox completion bash` prints the completion for a "
      "shell.\n\n";
  for (const std::string& group : verb_groups(verbs)) {
    text += "## " + group + "\n\n";
    for (const Verb& verb : verbs) {
      if (verb.group == group) text += markdown_verb(verb);
    }
  }
  text += "## JSON output\n\nWith `--json`, each command prints:\n\n" +
          note_table("command", json_notes, false);
  text += "## Environment\n\n" + note_table("variable", environment_notes, true);
  text += "## Exit codes\n\n" + note_table("code", exit_notes, true);
  text.pop_back();
  return text;
}

}  // namespace twinbox::cli
