#include <cstdlib>

#include "cli/verbs.hpp"
#include "daemon/config/config.hpp"
#include "daemon/daemon.hpp"

namespace twinbox::cli {

Verb serve_verb() {
  auto config = std::make_shared<std::string>();
  return {.name = "serve",
          .group = "Daemon",
          .summary = "Run the daemon: serve HTTP and dispatch messages until SIGTERM",
          .text =
              "Without a configuration, the daemon uses ./twinbox.db and listens on "
              "127.0.0.1:7117. SIGHUP reloads the configuration.",
          .options = {{"-c,--config", "FILE",
                       "Configuration file in TOML (default: TWINBOX_CONFIG)", config.get()}},
          .examples = {{"twinbox serve", "on ./twinbox.db"},
                       {"twinbox serve --config twinbox.toml", "with a configuration file"}},
          .run = [config](const Screen&) {
            app::ServeOptions options;
            const char* variable = std::getenv("TWINBOX_CONFIG");
            if (config->empty() && variable != nullptr) *config = variable;
            if (!config->empty()) options.config = *config;
            try {
              return app::serve(options);
            } catch (const app::ConfigError& error) {
              throw CliError(exit_usage,
                             "the configuration is invalid:\n" + std::string{error.what()});
            }
          }};
}

}  // namespace twinbox::cli
