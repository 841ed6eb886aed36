// A connection string taken apart: what libpq is told, what we keep to ourselves, what may be
// shown.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace twinbox::postgres {

struct Address {
  /// What libpq is given, with our defaults filled in. May hold a password.
  std::map<std::string, std::string> settings;
  /// A pooler in transaction mode stands between us and the server.
  bool pooler = false;
  /// Who, where and which database; never a password.
  std::string shown;
  std::string server = {};    ///< host and port
  std::string database = {};  ///< its name there
};

/// Throws std::invalid_argument; the message holds nothing that could be a password.
Address parse_address(std::string_view conninfo);

}  // namespace twinbox::postgres
