// What the drivers for servers have in common: any connection may write, and opening one is told.
#pragma once

#include <chrono>
#include <string>
#include <utility>

#include "database/connection.hpp"
#include "twinbox/database.hpp"

namespace twinbox {

/// `Address` says where: `shown`, `server` and `database`.
template <class Address>
class ServerDriver : public Driver {
 public:
  ServerDriver(Address address, const DatabaseOptions& options, const Environment& environment)
      : address_(std::move(address)),
        name_(options.name.empty() ? address_.shown : options.name),
        lock_limit_(options.wait_limit),
        answer_limit_(options.answer_limit),
        environment_(environment) {}

  [[nodiscard]] Shape shape(std::size_t pool_size) const noexcept final {
    return {pool_size, pool_size, false};
  }
  [[nodiscard]] std::string describe() const final { return address_.shown; }
  [[nodiscard]] Place place() const final { return {address_.server, address_.database}; }

  std::unique_ptr<Connection> connect(Access /*access*/) final {
    auto connection = open();
    environment_.write(LogLevel::debug, "connect",
                       {{"store", name_}, {"address", std::string_view{address_.shown}}});
    return connection;
  }

 protected:
  [[nodiscard]] const Address& address() const noexcept { return address_; }
  [[nodiscard]] std::chrono::milliseconds lock_limit() const noexcept { return lock_limit_; }
  /// Zero: none.
  [[nodiscard]] std::chrono::milliseconds answer_limit() const noexcept { return answer_limit_; }

 private:
  virtual std::unique_ptr<Connection> open() = 0;

  Address address_;
  std::string name_;
  std::chrono::milliseconds lock_limit_;
  std::chrono::milliseconds answer_limit_;
  Environment environment_;
};

}  // namespace twinbox
