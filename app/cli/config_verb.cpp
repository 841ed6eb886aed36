// The command config check: validates a configuration as the daemon does.
#include "cli/json.hpp"
#include "cli/open_store.hpp"
#include "cli/text.hpp"
#include "cli/verbs.hpp"
#include "daemon/config/config_safety.hpp"
#include "daemon/service.hpp"

namespace twinbox::cli {
namespace {

namespace json = boost::json;

json::array as_json(const std::vector<app::ConfigProblem>& problems, const char* text_name) {
  json::array list;
  for (const app::ConfigProblem& one : problems)
    list.push_back({{"where", one.where}, {"key", one.key}, {text_name, one.text}});
  return list;
}

void print(const std::vector<app::ConfigProblem>& problems, const Screen& screen, Style style,
           const std::string& mark) {
  for (const app::ConfigProblem& one : problems) {
    screen.print(screen.look().paint(style, mark + printable(one.where)) + ": " +
                 screen.look().paint(Style::strong, printable(one.key)) + ": " +
                 printable(one.text) + "\n");
  }
}

int report_problems(const CommonOptions& common, const std::vector<app::ConfigProblem>& problems,
                    const std::vector<app::ConfigProblem>& warnings, const Screen& screen) {
  if (common.json) {
    print_json(screen, {{"problems", as_json(problems, "problem")},
                        {"warnings", as_json(warnings, "warning")}});
  } else {
    print(problems, screen, Style::bad, "");
    print(warnings, screen, Style::warn, "warning: ");
  }
  return problems.empty() ? exit_ok : exit_negative;
}

int check(const CommonOptions& common, const Screen& screen) {
  const char* variable = std::getenv("TWINBOX_CONFIG");
  const std::string file = !common.config.empty() ? common.config
                           : variable == nullptr  ? ""
                                                  : variable;
  try {
    const app::Config config =
        app::load_config(file.empty() ? std::nullopt : std::optional<std::filesystem::path>{file},
                         app::process_variables());
    const std::vector<app::ConfigProblem> problems = app::check_config(config);
    const int code = report_problems(common, problems, app::config_warnings(config), screen);
    if (common.json || code != exit_ok) return code;
    screen.print((file.empty() ? "no file, defaults and environment only" : printable(file)) +
                 ": " + counted(static_cast<std::int64_t>(config.stores.size()), "store") + ", " +
                 counted(static_cast<std::int64_t>(config.routes.size()), "route") + ", " +
                 counted(static_cast<std::int64_t>(config.sinks.size()), "sink") + ", " +
                 counted(static_cast<std::int64_t>(config.webhooks.size()), "webhook") + "\n");
    return exit_ok;
  } catch (const app::ConfigError& error) {
    return report_problems(common, error.problems(), {}, screen);
  }
}

}  // namespace

Verb config_check_verb(CommonOptions& common) {
  return {
      .name = "config check",
      .group = "Check",
      .summary = "Check a configuration and list every problem",
      .text =
          "Reads the file and the environment as serve does, and connects to nothing. Each problem "
          "names the file, the line, the key and the expected value. Exit code 1 means that there "
          "is a problem. Warnings, such as a token file that every user may read, do not change "
          "the exit code.",
      .options = with(
          {{"--config", "FILE", "Configuration file (default: TWINBOX_CONFIG)", &common.config}},
          {answer_options(common)}),
      .examples = {{"twinbox config check --config twinbox.toml", "before reloading the daemon"}},
      .run = [&common](const Screen& screen) { return check(common, screen); }};
}

}  // namespace twinbox::cli
