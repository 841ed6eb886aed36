// `twinbox serve`: the stores, the dispatchers and the HTTP server under one roof.
#pragma once

#include <filesystem>
#include <optional>

namespace twinbox::app {

struct ServeOptions {
  std::optional<std::filesystem::path> config = {};  ///< empty: defaults and the environment
};

/// Serves until SIGTERM or SIGINT; SIGHUP reads the configuration again. Returns the exit code: 0
/// after an orderly stop. Throws ConfigError, and std::exception when it cannot start.
/// Call it before other threads are made: it takes these signals for the whole process.
int serve(const ServeOptions& options);

}  // namespace twinbox::app
