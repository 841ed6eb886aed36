#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <utility>

#include "database/open_driver.hpp"

#if TWINBOX_SQLITE
#include "driver/sqlite/sqlite_driver.hpp"
#endif
#if TWINBOX_POSTGRES
#include "driver/postgres/postgres_driver.hpp"
#endif
#if TWINBOX_SQLSERVER
#include "driver/sqlserver/sqlserver_driver.hpp"
#endif

namespace twinbox {
namespace {

constexpr std::string_view sqlite_scheme = "sqlite:";

[[noreturn]] void refuse(const std::string& reason) {
  throw std::invalid_argument("database address: " + reason);
}

bool is_postgres(std::string_view address) noexcept {
  constexpr std::array<std::string_view, 4> keys = {"host=", "hostaddr=", "dbname=", "service="};
  return address.starts_with("postgresql://") || address.starts_with("postgres://") ||
         (address.find("://") == std::string_view::npos &&
          std::any_of(keys.begin(), keys.end(), [&](std::string_view key) {
            return address.find(key) != std::string_view::npos;
          }));
}

std::unique_ptr<Driver> open_sqlite([[maybe_unused]] std::string_view file,
                                    [[maybe_unused]] const DatabaseOptions& options,
                                    [[maybe_unused]] const Environment& environment) {
#if TWINBOX_SQLITE
  if (file.empty()) refuse("no file after sqlite:, write sqlite:<file> or sqlite::memory:");
  if (file.starts_with("//")) {
    refuse(
        "sqlite:// is not understood, because programs differ in what it means: write "
        "sqlite:shop.db for a file in the current directory, sqlite:/var/lib/shop.db for an "
        "absolute path");
  }
  return make_sqlite_driver(std::string{file}, options, environment);
#else
  refuse("SQLite is not built in, build Twinbox with TWINBOX_SQLITE=ON");
#endif
}

std::unique_ptr<Driver> open_postgres([[maybe_unused]] std::string_view address,
                                      [[maybe_unused]] const DatabaseOptions& options,
                                      [[maybe_unused]] const Environment& environment) {
#if TWINBOX_POSTGRES
  return make_postgres_driver(std::string{address}, options, environment);
#else
  refuse("PostgreSQL is not built in, build Twinbox with TWINBOX_POSTGRES=ON");
#endif
}

bool is_sqlserver(std::string_view address) noexcept {
#if TWINBOX_SQLSERVER
  return is_sqlserver_address(address);
#else
  return address.starts_with("sqlserver://");
#endif
}

std::unique_ptr<Driver> open_sqlserver([[maybe_unused]] std::string_view address,
                                       [[maybe_unused]] const DatabaseOptions& options,
                                       [[maybe_unused]] const Environment& environment) {
#if TWINBOX_SQLSERVER
  return make_sqlserver_driver(address, options, environment);
#else
  refuse("SQL Server is not built in, build Twinbox with TWINBOX_SQLSERVER=ON (unixODBC)");
#endif
}

thread_local const DriverWrapping::Wrap* wrapping = nullptr;

std::unique_ptr<Driver> open_unwrapped(std::string_view address, const DatabaseOptions& options,
                                       const Environment& environment) {
  if (address.empty()) {
    refuse(
        "empty, write sqlite:<file>, sqlite::memory:, postgresql://user@host/name or "
        "sqlserver://user@host/name");
  }
  if (address.find('\0') != std::string_view::npos) refuse("contains NUL, leave it out");
  if (address.starts_with(sqlite_scheme)) {
    return open_sqlite(address.substr(sqlite_scheme.size()), options, environment);
  }
  if (is_sqlserver(address)) return open_sqlserver(address, options, environment);
  if (is_postgres(address)) return open_postgres(address, options, environment);
  refuse(
      "not understood, write sqlite:<file>, sqlite::memory:, postgresql://user@host/name, libpq's "
      "host=… dbname=…, sqlserver://user@host/name or ODBC's Driver=…;Server=…");
}

}  // namespace

std::unique_ptr<Driver> open_driver(std::string_view address, const DatabaseOptions& options,
                                    const Environment& environment) {
  auto driver = open_unwrapped(address, options, environment);
  return wrapping != nullptr ? (*wrapping)(std::move(driver)) : std::move(driver);
}

DriverWrapping::DriverWrapping(Wrap wrap)
    : wrap_(std::move(wrap)), before_(std::exchange(wrapping, &wrap_)) {}

DriverWrapping::~DriverWrapping() { wrapping = before_; }

}  // namespace twinbox
