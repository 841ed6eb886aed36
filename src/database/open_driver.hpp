// From an address to a driver. Implemented in open_database.cpp, the only file that knows every
// driver.
#pragma once

#include <memory>
#include <string_view>

#include "database/connection.hpp"
#include "twinbox/database.hpp"

namespace twinbox {

/// Throws std::invalid_argument when the address cannot be understood or its driver is not built
/// in. No message shows the address itself: it may hold a password.
std::unique_ptr<Driver> open_driver(std::string_view address, const DatabaseOptions& options,
                                    const Environment& environment);

}  // namespace twinbox
