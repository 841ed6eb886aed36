// A connection string taken apart: what libpq is told, what we keep to ourselves, what may be
// shown.
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace twinbox::postgres {

/// What stands between us and the server.
enum class Pooler {
  unknown,      ///< perhaps nothing: a connection finds out
  session,      ///< gives its client a server connection for good, which is as good as none
  transaction,  ///< may give each transaction another one
};

/// The addresses of a host name, in the order of the system; none: it has none, or this is no name.
/// The system sets the limit of the lookup, and nothing interrupts it.
std::vector<std::string> look_up(const std::string& host);

struct Address {
  /// What libpq is given, with our defaults filled in. May hold a password.
  std::map<std::string, std::string> settings;
  Pooler pooler = Pooler::unknown;
  /// Who, where and which database; never a password.
  std::string shown;
  std::string server = {};    ///< host and port
  std::string database = {};  ///< its name there
  /// Which of several hosts or addresses. Shared by the connections and the watches of one driver.
  std::shared_ptr<std::atomic<std::size_t>> host_that_worked =
      std::make_shared<std::atomic<std::size_t>>(0);
  std::vector<std::string> (*addresses_of)(const std::string& host) = &look_up;
};

/// Throws std::invalid_argument; the message holds nothing that could be a password.
Address parse_address(std::string_view conninfo);

}  // namespace twinbox::postgres
