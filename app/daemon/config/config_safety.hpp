// Files and secrets of a configuration that others could read, change or guess.
#pragma once

#include <vector>

#include "daemon/config/config.hpp"

namespace twinbox::app {

/// Files that every user of the machine may write: the configuration, tokens, keys, secrets.
/// A user who changes one becomes an operator, so the daemon does not start with them.
std::vector<ConfigProblem> unsafe_files(const Config& config);

/// What should be mended, and keeps no daemon from starting: secrets that others may read, files
/// that a group may write or every user may replace, secrets that are too short, tokens of one
/// name, access rules without effect.
std::vector<ConfigProblem> config_warnings(const Config& config);

}  // namespace twinbox::app
