// The daemon, `twinbox serve`: stores, dispatchers and the HTTP server.
#pragma once

#include <filesystem>
#include <optional>

namespace twinbox::app {

struct ServeOptions {
  std::optional<std::filesystem::path> config = {};  ///< empty: defaults and the environment
};

/// Serves until SIGTERM or SIGINT; SIGHUP reloads the configuration. Returns the exit code, 0 after
/// an orderly stop. Throws ConfigError, and std::exception if it cannot start. Call it before other
/// threads exist, because it handles these signals for the whole process.
int serve(const ServeOptions& options);

}  // namespace twinbox::app
