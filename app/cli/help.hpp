// Texts generated from the commands: --help, the manual page, docs/reference/cli.md, shell
// completion.
#pragma once

#include <span>
#include <string>

#include "cli/verb.hpp"

namespace twinbox::cli {

inline constexpr const char* motto = "transactional outbox and idempotent inbox";

/// The headings, in order.
std::vector<std::string> verb_groups(std::span<const Verb> verbs);
/// `-n, --limit COUNT`.
std::string option_label(const Option& option);

/// The list of commands.
std::string overview(std::span<const Verb> verbs, const TextStyle& look);
/// The subcommands of a family, such as `schema`.
std::string family_help(std::span<const Verb> verbs, const std::string& family,
                        const TextStyle& look);
std::string verb_help(const Verb& verb, const TextStyle& look);

/// `usage: twinbox list [options]`, without the first two words.
std::string synopsis(const Verb& verb);

std::string manual_page(std::span<const Verb> verbs);
std::string markdown_page(std::span<const Verb> verbs);
/// `bash`, `zsh` or `fish`; throws CliError for another.
std::string completion(std::span<const Verb> verbs, const std::string& shell);

/// `text` in lines of at most `width` cells, each after `indent` spaces; paragraphs stay apart.
std::string wrapped(const std::string& text, int width, int indent);

}  // namespace twinbox::cli
