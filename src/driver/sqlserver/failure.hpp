// From the server's numbers and ODBC's states to DatabaseError: the one place where they are known.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "twinbox/error.hpp"

namespace twinbox::sqlserver {

/// What the server, or the ODBC driver in its place, said.
struct ServerError {
  std::string sqlstate = {};
  std::int32_t native = 0;  ///< the server's number; 0 or the driver's own when it is not its word
  std::string message = {};
};

DatabaseError::Kind kind_of(const ServerError& server_error) noexcept;

/// `ours` says that the statement is one of our own, so that a missing table has a known way out.
DatabaseError failure(std::string_view statement, const ServerError& server_error,
                      std::string_view where, bool ours);
DatabaseError failure(DatabaseError::Kind kind, std::string_view statement,
                      const ServerError& server_error, std::string_view where, bool ours);

}  // namespace twinbox::sqlserver
