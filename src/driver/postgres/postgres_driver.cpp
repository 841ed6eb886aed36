#include "driver/postgres/postgres_driver.hpp"

#include <chrono>
#include <utility>

#include "database/interruptible.hpp"
#include "driver/postgres/address.hpp"
#include "driver/postgres/connect.hpp"
#include "driver/postgres/postgres_connection.hpp"
#include "driver/postgres/postgres_watch.hpp"
#include "sql/channel.hpp"

namespace twinbox {
namespace postgres {
namespace {

class PostgresDriver final : public Driver {
 public:
  PostgresDriver(Address address, std::string name, std::chrono::milliseconds lock_limit,
                 const Environment& environment)
      : address_(std::move(address)),
        name_(std::move(name)),
        lock_limit_(lock_limit),
        environment_(environment) {}

  [[nodiscard]] Dialect dialect() const noexcept override { return Dialect::postgres; }
  [[nodiscard]] Shape shape(std::size_t pool_size) const noexcept override {
    return {pool_size, pool_size, false};
  }
  [[nodiscard]] std::string describe() const override { return address_.shown; }
  [[nodiscard]] Place place() const override { return {address_.server, address_.database}; }

  std::unique_ptr<Connection> connect(Access /*access*/) override {
    auto connection = std::make_unique<PostgresConnection>(
        connect_to(address_, Interruptible::token()), address_.pooler, address_.shown, lock_limit_);
    environment_.write(LogLevel::debug, "connect",
                       {{"store", name_}, {"address", std::string_view{address_.shown}}});
    return connection;
  }

  [[nodiscard]] OpenWatch watch(const BoxName& box) const override {
    if (address_.pooler) return {};
    return [address = watching(address_), channel = channel_of(box)](const std::stop_token& stop) {
      return open_postgres_watch(address, channel, stop);
    };
  }

 private:
  Address address_;
  std::string name_;
  std::chrono::milliseconds lock_limit_;
  Environment environment_;
};

}  // namespace
}  // namespace postgres

std::unique_ptr<Driver> make_postgres_driver(std::string conninfo, const DatabaseOptions& options,
                                             const Environment& environment) {
  auto address = postgres::parse_address(conninfo);
  auto name = options.name.empty() ? address.shown : options.name;
  return std::make_unique<postgres::PostgresDriver>(std::move(address), std::move(name),
                                                    options.wait_limit, environment);
}

}  // namespace twinbox
