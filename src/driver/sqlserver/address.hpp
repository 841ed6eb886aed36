// A parsed address: the settings for the ODBC driver, and the parts that may be shown.
#pragma once

#include <string>
#include <string_view>

namespace twinbox::sqlserver {

struct Address {
  /// The connection string for ODBC. May contain a password.
  std::string connection_string;
  /// User, host and database; never a password.
  std::string shown;
  std::string server = {};    ///< host and port
  std::string database = {};  ///< its name there; empty: the login's own
};

/// True for `sqlserver://…`, and for an ODBC connection string: one with DRIVER=, DSN= or FILEDSN=.
bool is_address(std::string_view text) noexcept;

/// Throws std::invalid_argument; the message contains nothing that could be a password.
Address parse_address(std::string_view text);

}  // namespace twinbox::sqlserver
