// Makes a connection to the server.
#pragma once

#include <string_view>

#include "driver/sqlserver/address.hpp"
#include "driver/sqlserver/odbc.hpp"

namespace twinbox::sqlserver {

/// Throws DatabaseError.
ConnectionHandle connect_to(SQLHENV environment, const Address& address);

/// Throws UsageError for a statement that begins or ends a transaction; a savepoint is allowed.
void check_transaction_words(std::string_view sql);

}  // namespace twinbox::sqlserver
