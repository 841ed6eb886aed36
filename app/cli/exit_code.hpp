// Exit codes.
#pragma once

#include <stdexcept>
#include <string>

namespace twinbox::cli {

enum ExitCode : int {
  exit_ok = 0,
  exit_negative = 1,      ///< the answer is no: nothing found, something to mend, degraded
  exit_usage = 2,         ///< the command line or the configuration is wrong
  exit_database = 3,      ///< the database cannot be reached or refused
  exit_schema = 4,        ///< the tables are missing, too old or too new
  exit_unhealthy = 5,     ///< only health: unhealthy
  exit_daemon = 6,        ///< the daemon cannot be reached or refused
  exit_failure = 7,       ///< anything else that went wrong
  exit_interrupted = 130  ///< ended by Ctrl-C, between two batches
};

/// Ends the program with a message: what failed, on which object, what to do.
class CliError : public std::runtime_error {
 public:
  CliError(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  [[nodiscard]] ExitCode code() const noexcept { return code_; }

 private:
  ExitCode code_;
};

}  // namespace twinbox::cli
