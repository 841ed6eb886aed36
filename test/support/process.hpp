// What this process has open, as Linux tells it.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

namespace twinbox::test {

/// A number of /proc/self/status, such as `Threads` or `VmRSS` (in kB).
inline std::size_t process_status(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field + ":")) return std::stoul(line.substr(field.size() + 1));
  }
  return 0;
}

/// How many descriptors lead to a file whose path begins with `prefix`.
inline std::size_t open_files(const std::string& prefix) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(entry, gone);
    if (!gone && target.string().starts_with(prefix)) ++count;
  }
  return count;
}

}  // namespace twinbox::test
