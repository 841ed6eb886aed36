// An address taken apart: what the ODBC driver is told, and what may be shown.
#pragma once

#include <string>
#include <string_view>

namespace twinbox::sqlserver {

struct Address {
  /// What ODBC is given. May hold a password.
  std::string connection_string;
  /// Who, where and which database; never a password.
  std::string shown;
  std::string server = {};    ///< host and port
  std::string database = {};  ///< its name there; empty: the login's own
};

/// True for `sqlserver://…`, and for an ODBC connection string: one with DRIVER=, DSN= or FILEDSN=.
bool is_address(std::string_view text) noexcept;

/// Throws std::invalid_argument; the message holds nothing that could be a password.
Address parse_address(std::string_view text);

}  // namespace twinbox::sqlserver
