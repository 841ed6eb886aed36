// Which versions of SQLite can damage a file when one connection writes while another checkpoints.
#pragma once

#include <array>
#include <cstdio>
#include <string>

namespace twinbox {

/// True for 3.51.2 and older, but for 3.50.7 and 3.44.6 and what follows them on their branches
/// (https://www.sqlite.org/wal.html#walresetbug, and src/wal.c of branch-3.50 and branch-3.44). A
/// distribution may have added the fix to a version that is named here.
inline bool has_wal_reset_bug(const std::string& version) {
  std::array<int, 3> parts{};
  std::sscanf(version.c_str(), "%d.%d.%d", &parts[0], &parts[1], &parts[2]);
  const auto [major, minor, patch] = parts;
  if (major == 3 && minor == 50) return patch < 7;
  if (major == 3 && minor == 44) return patch < 6;
  return parts < std::array{3, 51, 3};
}

}  // namespace twinbox
