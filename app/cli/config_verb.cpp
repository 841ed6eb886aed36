// config check: what the daemon would say about its configuration.
#include "cli/json.hpp"
#include "cli/store.hpp"
#include "cli/text.hpp"
#include "cli/verbs.hpp"
#include "daemon/service.hpp"

namespace twinbox::cli {
namespace {

namespace json = boost::json;

int report_problems(const Common& common, const std::vector<app::ConfigProblem>& problems,
                    const Screen& screen) {
  if (common.json) {
    json::array list;
    for (const app::ConfigProblem& one : problems)
      list.push_back({{"where", one.where}, {"key", one.key}, {"problem", one.text}});
    print_json(screen, {{"problems", std::move(list)}});
    return problems.empty() ? exit_ok : exit_negative;
  }
  for (const app::ConfigProblem& one : problems) {
    screen.print(screen.look().paint(Style::bad, printable(one.where)) + ": " +
                 screen.look().paint(Style::strong, printable(one.key)) + ": " +
                 printable(one.text) + "\n");
  }
  return exit_negative;
}

int check(const Common& common, const Screen& screen) {
  const char* variable = std::getenv("TWINBOX_CONFIG");
  const std::string file = !common.config.empty() ? common.config
                           : variable == nullptr  ? ""
                                                  : variable;
  try {
    const app::Config config =
        app::load_config(file.empty() ? std::nullopt : std::optional<std::filesystem::path>{file},
                         app::process_variables());
    const std::vector<app::ConfigProblem> problems = app::check_config(config);
    if (common.json || !problems.empty()) return report_problems(common, problems, screen);
    screen.print((file.empty() ? "no file: the defaults and the environment" : printable(file)) +
                 ": " + counted(static_cast<std::int64_t>(config.stores.size()), "store") + ", " +
                 counted(static_cast<std::int64_t>(config.routes.size()), "route") + ", " +
                 counted(static_cast<std::int64_t>(config.sinks.size()), "sink") + ", " +
                 counted(static_cast<std::int64_t>(config.webhooks.size()), "webhook") + "\n");
    return exit_ok;
  } catch (const app::ConfigError& error) {
    return report_problems(common, error.problems(), screen);
  }
}

}  // namespace

Verb config_check_verb(Common& common) {
  return {.name = "config check",
          .group = "Check",
          .summary = "every problem of a configuration: file, line, key, what was expected",
          .text =
              "Reads the file and the environment as serve does, and connects to nothing. Exit "
              "code 1 when "
              "there is a problem.",
          .options = with({{"--config", "FILE", "the configuration file (default: TWINBOX_CONFIG)",
                            &common.config}},
                          {answer_options(common)}),
          .examples = {{"twinbox config check --config twinbox.toml", "before a reload"}},
          .run = [&common](const Screen& screen) { return check(common, screen); }};
}

}  // namespace twinbox::cli
