#include "driver/postgres/postgres_driver.hpp"

#include <algorithm>
#include <array>

#include "database/open_driver.hpp"
#include "database/server_driver.hpp"
#include "driver/postgres/address.hpp"
#include "driver/postgres/connect.hpp"
#include "driver/postgres/postgres_connection.hpp"
#include "driver/postgres/postgres_watch.hpp"
#include "sql/notify_channel.hpp"
#include "twinbox/database.hpp"

namespace twinbox {
namespace postgres {
namespace {

class PostgresDriver final : public ServerDriver<Address> {
 public:
  using ServerDriver::ServerDriver;
  [[nodiscard]] Dialect dialect() const noexcept override { return Dialect::postgres; }

  [[nodiscard]] OpenWatch watch(const BoxName& box) const override {
    if (address().pooler == Pooler::transaction) return {};
    return [address = watch_address(address()), channel = channel_of(box)](
               const std::stop_token& stop) { return open_postgres_watch(address, channel, stop); };
  }

 private:
  std::unique_ptr<Connection> open() override {
    const std::stop_token& stop = StopScope::token();
    return std::make_unique<PostgresConnection>(
        connect_to(address(), answer_timeout(), stop), address().pooler, address().shown,
        PostgresConnection::Limits{.lock = lock_wait_timeout(), .answer = answer_timeout()}, stop);
  }
};

}  // namespace
}  // namespace postgres

std::unique_ptr<Driver> make_postgres_driver(std::string conninfo, const DatabaseOptions& options,
                                             const Environment& environment) {
  return std::make_unique<postgres::PostgresDriver>(postgres::parse_address(conninfo), options,
                                                    environment);
}

}  // namespace twinbox

namespace {

using namespace twinbox;

bool takes(std::string_view address) noexcept {
  constexpr std::array<std::string_view, 4> keys = {"host=", "hostaddr=", "dbname=", "service="};
  return address.starts_with("postgresql://") || address.starts_with("postgres://") ||
         (address.find("://") == std::string_view::npos &&
          std::any_of(keys.begin(), keys.end(), [&](std::string_view key) {
            return address.find(key) != std::string_view::npos;
          }));
}

std::unique_ptr<Driver> open(std::string_view address, const DatabaseOptions& options,
                             const Environment& environment) {
  return make_postgres_driver(std::string{address}, options, environment);
}

}  // namespace

extern "C" {
extern const DriverLibrary twinbox_postgres_driver;
constinit const DriverLibrary twinbox_postgres_driver{&takes, &open};
}
