#include "driver/postgres/postgres_driver.hpp"

#include <cerrno>
#include <chrono>
#include <new>
#include <poll.h>
#include <vector>

#include <libpq-fe.h>

#include "driver/postgres/address.hpp"
#include "driver/postgres/failure.hpp"
#include "driver/postgres/postgres_connection.hpp"
#include "driver/postgres/text_format.hpp"

namespace twinbox {
namespace postgres {
namespace {

using Clock = std::chrono::steady_clock;

/// libpq gives no SQLSTATE for a refused login, but its verbose text holds one: `FATAL:  28P01: …`,
/// whatever the language of the words around it.
std::string sqlstate_in(std::string_view message) {
  for (auto at = message.find(":  "); at != std::string_view::npos;
       at = message.find(":  ", at + 1)) {
    const auto code = message.substr(at + 3, 5);
    const bool is_code =
        code.find_first_not_of("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == std::string_view::npos;
    if (code.size() == 5 && is_code && message.substr(at + 8, 1) == ":") return std::string{code};
  }
  return {};
}

/// One address may stand for several hosts, each with a line of its own; the server adds where in
/// its source the error arose, which helps nobody here.
std::string in_one_line(std::string_view message) {
  std::string result;
  while (!message.empty()) {
    const auto end = message.find('\n');
    const auto line = first_line(message.substr(0, end));
    message = end == std::string_view::npos ? std::string_view{} : message.substr(end + 1);
    if (line.empty() || line.starts_with("LOCATION:")) continue;
    if (!result.empty()) result += "; ";
    result += line;
  }
  return result;
}

class PostgresDriver final : public Driver {
 public:
  PostgresDriver(Address address, std::string name, std::chrono::milliseconds lock_limit,
                 const Environment& environment)
      : address_(std::move(address)),
        name_(std::move(name)),
        lock_limit_(lock_limit),
        environment_(environment) {
    for (const auto& [key, value] : address_.settings) {
      keys_.push_back(key.c_str());
      values_.push_back(value.c_str());
    }
    keys_.push_back(nullptr);
    values_.push_back(nullptr);
  }

  [[nodiscard]] Dialect dialect() const noexcept override { return Dialect::postgres; }
  [[nodiscard]] Shape shape(std::size_t pool_size) const noexcept override {
    return {pool_size, pool_size, false};
  }
  [[nodiscard]] std::string describe() const override { return address_.shown; }
  [[nodiscard]] Place place() const override { return {address_.server, address_.database}; }

  std::unique_ptr<Connection> connect(Access /*access*/) override {
    auto handle = has_several_hosts() ? connect_to_one_of_several() : connect_to_one();
    auto connection = std::make_unique<PostgresConnection>(std::move(handle), address_.pooler,
                                                           address_.shown, lock_limit_);
    environment_.write(LogLevel::debug, "connect",
                       {{"store", name_}, {"address", std::string_view{address_.shown}}});
    return connection;
  }

 private:
  [[nodiscard]] std::string setting(const char* key) const {
    const auto found = address_.settings.find(key);
    return found == address_.settings.end() ? std::string{} : found->second;
  }

  [[nodiscard]] bool has_several_hosts() const {
    return setting("host").find(',') != std::string::npos ||
           setting("hostaddr").find(',') != std::string::npos;
  }

  static void drop_notice(void* /*nothing*/, const PGresult* /*notice*/) noexcept {}

  [[noreturn]] void refuse(PGconn* connection) const {
    const std::string_view message = PQerrorMessage(connection);
    const Report report{sqlstate_in(message), in_one_line(message)};
    throw failure("connect", report, address_.shown, true);
  }

  /// Step by step, so that the verbose form of the server's refusal can be asked for.
  Handle connect_to_one() const {
    Handle handle{PQconnectStartParams(keys_.data(), values_.data(), 0)};
    if (handle == nullptr) throw std::bad_alloc{};
    PQsetNoticeReceiver(handle.get(), &PostgresDriver::drop_notice, nullptr);
    PQsetErrorVerbosity(handle.get(), PQERRORS_VERBOSE);
    const auto limit = read_integer(setting("connect_timeout")).value_or(0);
    const auto deadline = Clock::now() + std::chrono::seconds{limit};
    auto state =
        PQstatus(handle.get()) == CONNECTION_BAD ? PGRES_POLLING_FAILED : PGRES_POLLING_WRITING;
    while (state != PGRES_POLLING_OK) {
      if (state == PGRES_POLLING_FAILED) refuse(handle.get());
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
      if (limit > 0 && left <= 0) {
        throw failure("connect",
                      {"", "no answer within connect_timeout=" + setting("connect_timeout") +
                               " s: check host and port, or raise connect_timeout in the address"},
                      address_.shown, true);
      }
      const short events = state == PGRES_POLLING_READING ? POLLIN : POLLOUT;
      pollfd socket{PQsocket(handle.get()), events, 0};
      const int ready = ::poll(&socket, 1, limit > 0 ? static_cast<int>(left) : -1);
      if (ready > 0 || (ready < 0 && errno != EINTR)) state = PQconnectPoll(handle.get());
    }
    PQsetErrorVerbosity(handle.get(), PQERRORS_DEFAULT);
    return handle;
  }

  /// Only libpq itself can give each host its own share of time.
  Handle connect_to_one_of_several() const {
    Handle handle{PQconnectdbParams(keys_.data(), values_.data(), 0)};
    if (handle == nullptr) throw std::bad_alloc{};
    if (PQstatus(handle.get()) != CONNECTION_OK) refuse(handle.get());
    return handle;
  }

  Address address_;
  std::string name_;
  std::chrono::milliseconds lock_limit_;
  Environment environment_;
  std::vector<const char*> keys_;
  std::vector<const char*> values_;
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
