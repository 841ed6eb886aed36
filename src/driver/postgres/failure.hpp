// Maps SQLSTATE to DatabaseError: the only place that knows PostgreSQL's codes.
#pragma once

#include <string>
#include <string_view>

#include "twinbox/error.hpp"

namespace twinbox::postgres {

/// An error from the server, or from libpq in its place.
struct ServerError {
  std::string sqlstate;  ///< empty when it did not come from the server
  std::string message;
  std::string hint = {};
};

DatabaseError::Kind kind_of(std::string_view sqlstate) noexcept;

/// True when the server ends the connection with this code.
bool ends_connection(std::string_view sqlstate) noexcept;

/// `ours` says that the statement is one of our own, so that the hint for a missing table is known.
DatabaseError failure(std::string_view statement, const ServerError& server_error,
                      std::string_view where, bool ours);
DatabaseError failure(DatabaseError::Kind kind, std::string_view statement,
                      const ServerError& server_error, std::string_view where, bool ours);

/// The first line of a message of libpq's, without the blanks around it.
std::string first_line(std::string_view message);

}  // namespace twinbox::postgres
