// SQL Server by ODBC: connections of our own.
#pragma once

#include <memory>
#include <string_view>

#include "database/connection.hpp"
#include "twinbox/database.hpp"

namespace twinbox {

/// `sqlserver://user@host:port/database?Encrypt=yes`, whose parameters are all passed to the ODBC
/// driver, or an ODBC connection string. Does not connect yet. Throws std::invalid_argument when it
/// cannot be parsed.
std::unique_ptr<Driver> make_sqlserver_driver(std::string_view address,
                                              const DatabaseOptions& options,
                                              const Environment& environment);

}  // namespace twinbox
