// A parsed connection string: the settings for libpq, our own settings, and the parts that may be
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

/// The pooler between us and the server.
enum class Pooler {
  unknown,      ///< perhaps none: a connection detects it
  session,      ///< assigns its client a server connection permanently, like no pooler
  transaction,  ///< may assign each transaction another one
};

/// The addresses of a host name, in the order of the system; none for an unknown name. The system
/// sets the limit of the lookup, and nothing interrupts it.
std::vector<std::string> look_up(const std::string& host);

struct Address {
  /// The settings for libpq, with our defaults filled in. May contain a password.
  std::map<std::string, std::string> settings;
  Pooler pooler = Pooler::unknown;
  /// User, host and database; never a password.
  std::string shown;
  std::string server = {};    ///< host and port
  std::string database = {};  ///< its name there
  /// The index among several hosts or addresses. Shared by the connections and the watches of one
  /// driver.
  std::shared_ptr<std::atomic<std::size_t>> host_that_worked =
      std::make_shared<std::atomic<std::size_t>>(0);
  std::vector<std::string> (*addresses_of)(const std::string& host) = &look_up;
};

/// Throws std::invalid_argument; the message contains nothing that could be a password.
Address parse_address(std::string_view conninfo);

}  // namespace twinbox::postgres
