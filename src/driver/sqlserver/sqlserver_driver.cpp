#include "driver/sqlserver/sqlserver_driver.hpp"

#include "database/open_driver.hpp"
#include "database/server_driver.hpp"
#include "driver/sqlserver/address.hpp"
#include "driver/sqlserver/failure.hpp"
#include "driver/sqlserver/sqlserver_connection.hpp"
#include "twinbox/database.hpp"

namespace twinbox {
namespace sqlserver {
namespace {

class SqlServerDriver final : public ServerDriver<Address> {
 public:
  using ServerDriver::ServerDriver;
  [[nodiscard]] Dialect dialect() const noexcept override { return Dialect::sqlserver; }

 private:
  std::unique_ptr<Connection> open() override {
    if (StopScope::token().stop_requested()) {
      throw failure(DatabaseError::Kind::cancelled, "connect", {.message = "stopped on request"},
                    address().shown, true);
    }
    return std::make_unique<SqlServerConnection>(address(), transaction_sql(lock_wait_timeout()),
                                                 answer_timeout());
  }
};

}  // namespace
}  // namespace sqlserver

std::unique_ptr<Driver> make_sqlserver_driver(std::string_view text, const DatabaseOptions& options,
                                              const Environment& environment) {
  return std::make_unique<sqlserver::SqlServerDriver>(sqlserver::parse_address(text), options,
                                                      environment);
}

}  // namespace twinbox

extern "C" {
extern const twinbox::DriverLibrary twinbox_sqlserver_driver;
constinit const twinbox::DriverLibrary twinbox_sqlserver_driver{&twinbox::sqlserver::is_address,
                                                                &twinbox::make_sqlserver_driver};
}
