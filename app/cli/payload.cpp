#include "cli/payload.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <unistd.h>

#include "cli/text.hpp"

namespace twinbox::cli {

std::vector<Option> PayloadOptions::options() {
  return {
      {"--payload", "TEXT", "Payload as text", &payload},
      {"--file", "FILE", "File with the payload; - for standard input", &file},
  };
}

std::string PayloadOptions::read() const {
  if (payload && file)
    throw CliError(exit_usage, "--payload and --file exclude each other; leave one out");
  if (payload) return *payload;
  if (file && *file != "-") return read_file(*file);
  if (!file && isatty(STDIN_FILENO) == 1) {
    throw CliError(exit_usage,
                   "no payload; give --payload TEXT, --file FILE, or pipe it to standard input");
  }
  return {std::istreambuf_iterator<char>(std::cin), {}};
}

std::string read_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream content;
  // Stream iterators would throw their own error for a folder, for example.
  if (stream && stream.peek() != std::ifstream::traits_type::eof()) content << stream.rdbuf();
  if ((!stream && !stream.eof()) || !content) {
    throw CliError(exit_usage,
                   "file " + printable(path) + " cannot be read: " + std::strerror(errno));
  }
  return std::move(content).str();
}

}  // namespace twinbox::cli
