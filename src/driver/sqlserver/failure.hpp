// Maps the server's numbers and ODBC's states to DatabaseError: the only place that knows them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "twinbox/error.hpp"

namespace twinbox::sqlserver {

/// An error from the server, or from the ODBC driver in its place.
struct ServerError {
  std::string sqlstate = {};
  std::int32_t native = 0;  ///< the server's number; 0 or the driver's own if the driver reports it
  std::string message = {};
};

DatabaseError::Kind kind_of(const ServerError& server_error) noexcept;

/// `ours` says that the statement is one of our own, so that the hint for a missing table is known.
DatabaseError failure(std::string_view statement, const ServerError& server_error,
                      std::string_view where, bool ours);
DatabaseError failure(DatabaseError::Kind kind, std::string_view statement,
                      const ServerError& server_error, std::string_view where, bool ours);

}  // namespace twinbox::sqlserver
