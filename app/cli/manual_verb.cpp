#include "cli/help.hpp"
#include "cli/verbs.hpp"

namespace twinbox::cli {

Verb man_verb(CommonOptions& common) {
  auto markdown = std::make_shared<bool>(false);
  return {.name = "man",
          .group = "Help",
          .summary = "Print the manual page",
          .options = {{"--markdown", "", "Print Markdown, as in docs/reference/cli.md",
                       markdown.get()}},
          .examples = {{"twinbox man | man -l -", "open it in the pager"}},
          .run = [&common, markdown](const Screen& screen) {
            const auto verbs = all_verbs(common);
            screen.print(*markdown ? markdown_page(verbs) : manual_page(verbs));
            return exit_ok;
          }};
}

Verb completion_verb(CommonOptions& common) {
  auto shell = std::make_shared<std::string>();
  return {.name = "completion",
          .group = "Help",
          .summary = "Print the completion script for a shell",
          .options = {{"shell",
                       "SHELL",
                       "Shell: bash, zsh or fish",
                       shell.get(),
                       {"bash", "zsh", "fish"},
                       true}},
          .examples = {{"source <(twinbox completion bash)", "for the current shell"}},
          .run = [&common, shell](const Screen& screen) {
            screen.print(completion(all_verbs(common), *shell));
            return exit_ok;
          }};
}

}  // namespace twinbox::cli
