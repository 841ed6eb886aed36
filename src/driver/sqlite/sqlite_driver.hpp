// Databases in one SQLite file, or in memory (`:memory:`).
#pragma once

#include <memory>
#include <string>

#include "database/connection.hpp"
#include "twinbox/database.hpp"

namespace twinbox {

/// Opens nothing yet. Throws std::invalid_argument when `file` is empty or contains a NUL.
std::unique_ptr<Driver> make_sqlite_driver(std::string file, const DatabaseOptions& options,
                                           const Environment& environment);

}  // namespace twinbox
