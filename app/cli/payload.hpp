// The payload given on the command line.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/verb.hpp"

namespace twinbox::cli {

struct PayloadOptions {
  std::optional<std::string> payload;
  std::optional<std::string> file;

  std::vector<Option> options();
  [[nodiscard]] bool given() const noexcept { return payload || file; }
  /// Reads --payload, --file (`-`: standard input), or standard input. Throws CliError if standard
  /// input is a terminal or the file cannot be read.
  [[nodiscard]] std::string read() const;
};

/// Throws CliError with the name of the file.
std::string read_file(const std::string& path);

}  // namespace twinbox::cli
