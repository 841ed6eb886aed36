// The common part of the drivers for servers: any connection may write, and opening one is logged.
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
        lock_wait_timeout_(options.wait_timeout),
        answer_timeout_(options.answer_timeout),
        environment_(environment) {}

  [[nodiscard]] Shape shape(std::size_t pool_size) const noexcept final {
    return {pool_size, pool_size, false};
  }
  [[nodiscard]] std::string describe() const final { return address_.shown; }
  [[nodiscard]] Location location() const final { return {address_.server, address_.database}; }

  std::unique_ptr<Connection> connect(Access /*access*/) final {
    auto connection = open();
    environment_.write(LogLevel::debug, "connect",
                       {{"store", name_}, {"address", std::string_view{address_.shown}}});
    return connection;
  }

 protected:
  [[nodiscard]] const Address& address() const noexcept { return address_; }
  [[nodiscard]] std::chrono::milliseconds lock_wait_timeout() const noexcept {
    return lock_wait_timeout_;
  }
  /// Zero: none.
  [[nodiscard]] std::chrono::milliseconds answer_timeout() const noexcept {
    return answer_timeout_;
  }

 private:
  virtual std::unique_ptr<Connection> open() = 0;

  Address address_;
  std::string name_;
  std::chrono::milliseconds lock_wait_timeout_;
  std::chrono::milliseconds answer_timeout_;
  Environment environment_;
};

}  // namespace twinbox
