// PostgreSQL by libpq: connections of our own.
#pragma once

#include <memory>
#include <string>

#include "database/connection.hpp"
#include "twinbox/database.hpp"

namespace twinbox {

/// `conninfo` is any libpq URI or `key=value` string. With `twinbox_pooler=transaction` the
/// connections keep no state on the server beyond a transaction, as PgBouncer's transaction mode
/// requires. Does not connect yet. Throws std::invalid_argument when `conninfo` cannot be parsed.
std::unique_ptr<Driver> make_postgres_driver(std::string conninfo, const DatabaseOptions& options,
                                             const Environment& environment);

}  // namespace twinbox
