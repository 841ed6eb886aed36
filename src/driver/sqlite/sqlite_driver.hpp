// Databases that are one SQLite file, or none at all (`:memory:`).
#pragma once

#include <memory>
#include <string>

#include "database/connection.hpp"
#include "twinbox/database.hpp"

namespace twinbox {

/// Nothing is opened yet. Throws std::invalid_argument when `file` is empty or holds a NUL.
std::unique_ptr<Driver> make_sqlite_driver(std::string file, const DatabaseOptions& options,
                                           const Environment& environment);

}  // namespace twinbox
