// One run of a program: standard input from memory, the end of its standard error, a limit of time.
#pragma once

#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "twinbox/work_queue.hpp"

namespace twinbox {

struct ProcessOptions {
  std::vector<std::string> command;
  std::vector<std::string> variables;  ///< `NAME=value`
  std::string directory;
  Duration timeout;
  Duration kill_after;
};

struct ProcessResult {
  enum class Kind { exited, signalled, timed_out, stopped };

  Kind kind;
  int code = 0;            ///< exit code, or number of the signal
  std::string error = {};  ///< the last bytes of standard error
};

/// Runs it to its end; after a termination request, to the end of its whole process group. Throws
/// std::system_error when it could not be started.
ProcessResult run_process(const ProcessOptions& options, std::string_view input,
                          const std::stop_token& stop);

}  // namespace twinbox
