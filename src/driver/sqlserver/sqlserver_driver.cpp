#include "driver/sqlserver/sqlserver_driver.hpp"

#include <chrono>
#include <string>
#include <utility>

#include "database/interruptible.hpp"
#include "driver/sqlserver/address.hpp"
#include "driver/sqlserver/failure.hpp"
#include "driver/sqlserver/sqlserver_connection.hpp"

namespace twinbox {
namespace sqlserver {
namespace {

class SqlServerDriver final : public Driver {
 public:
  SqlServerDriver(Address address, std::string name, std::chrono::milliseconds lock_limit,
                  const Environment& environment)
      : address_(std::move(address)),
        name_(std::move(name)),
        lock_limit_(lock_limit),
        environment_(environment) {}

  [[nodiscard]] Dialect dialect() const noexcept override { return Dialect::sqlserver; }
  [[nodiscard]] Shape shape(std::size_t pool_size) const noexcept override {
    return {pool_size, pool_size, false};
  }
  [[nodiscard]] std::string describe() const override { return address_.shown; }
  [[nodiscard]] Place place() const override { return {address_.server, address_.database}; }

  std::unique_ptr<Connection> connect(Access /*access*/) override {
    if (Interruptible::token().stop_requested()) {
      throw failure(DatabaseError::Kind::cancelled, "connect", {.message = "stopped on request"},
                    address_.shown, true);
    }
    auto connection = std::make_unique<SqlServerConnection>(address_, words_of(lock_limit_));
    environment_.write(LogLevel::debug, "connect",
                       {{"store", name_}, {"address", std::string_view{address_.shown}}});
    return connection;
  }

 private:
  Address address_;
  std::string name_;
  std::chrono::milliseconds lock_limit_;
  Environment environment_;
};

}  // namespace
}  // namespace sqlserver

bool is_sqlserver_address(std::string_view text) noexcept { return sqlserver::is_address(text); }

std::unique_ptr<Driver> make_sqlserver_driver(std::string_view text, const DatabaseOptions& options,
                                              const Environment& environment) {
  auto address = sqlserver::parse_address(text);
  auto name = options.name.empty() ? address.shown : options.name;
  return std::make_unique<sqlserver::SqlServerDriver>(std::move(address), std::move(name),
                                                      options.wait_limit, environment);
}

}  // namespace twinbox
