// From SQLSTATE to DatabaseError: the one place where PostgreSQL's codes are known.
#pragma once

#include <string>
#include <string_view>

#include "twinbox/error.hpp"

namespace twinbox::postgres {

/// What the server, or libpq in its place, said.
struct ServerError {
  std::string sqlstate;  ///< empty when it did not come from the server
  std::string message;
  std::string hint = {};
};

DatabaseError::Kind kind_of(std::string_view sqlstate) noexcept;

/// True when the server ends the connection with this code.
bool ends_connection(std::string_view sqlstate) noexcept;

/// `ours` says that the statement is one of our own, so that a missing table has a known way out.
DatabaseError failure(std::string_view statement, const ServerError& server_error,
                      std::string_view where, bool ours);
DatabaseError failure(DatabaseError::Kind kind, std::string_view statement,
                      const ServerError& server_error, std::string_view where, bool ours);

/// The first line of a message of libpq's, without the blanks around it.
std::string first_line(std::string_view message);

}  // namespace twinbox::postgres
