#include <array>
#include <stdexcept>
#include <string>
#include <utility>

#include "database/open_driver.hpp"

// Weak: a program that does not link a driver's library sees null here.
extern "C" {
[[gnu::weak]] extern const twinbox::DriverLibrary twinbox_sqlite_driver;
[[gnu::weak]] extern const twinbox::DriverLibrary twinbox_postgres_driver;
[[gnu::weak]] extern const twinbox::DriverLibrary twinbox_sqlserver_driver;
}

namespace twinbox {
namespace {

/// A kind of database: the prefix of its addresses, and the library to link.
struct Kind {
  const DriverLibrary* library;
  std::string_view name;
  std::string_view part;
  std::array<std::string_view, 2> schemes;
};

[[noreturn]] void refuse(const std::string& reason) {
  throw std::invalid_argument("database address: " + reason);
}

[[noreturn]] void refuse_missing(const Kind& kind) {
  const std::string part{kind.part};
  refuse("this program does not link the driver of " + std::string{kind.name} +
         ", link twinbox::twinbox or twinbox::" + part + " (pkg-config: twinbox or twinbox-" +
         part + ")");
}

thread_local const DriverDecorator::Wrap* wrapping = nullptr;

std::unique_ptr<Driver> open_unwrapped(std::string_view address, const DatabaseOptions& options,
                                       const Environment& environment) {
  if (address.empty()) {
    refuse(
        "empty, write sqlite:<file>, sqlite::memory:, postgresql://user@host/name or "
        "sqlserver://user@host/name");
  }
  if (address.find('\0') != std::string_view::npos) refuse("contains NUL, leave it out");
  const std::array<Kind, 3> kinds = {
      {{&twinbox_sqlite_driver, "SQLite", "sqlite", {"sqlite:", "sqlite:"}},
       {&twinbox_sqlserver_driver, "SQL Server", "sqlserver", {"sqlserver://", "sqlserver://"}},
       {&twinbox_postgres_driver, "PostgreSQL", "postgres", {"postgresql://", "postgres://"}}}};
  for (const auto& kind : kinds) {
    if (kind.library != nullptr && kind.library->takes(address)) {
      return kind.library->open(address, options, environment);
    }
  }
  for (const auto& kind : kinds) {
    for (const auto scheme : kind.schemes) {
      if (kind.library == nullptr && address.starts_with(scheme)) refuse_missing(kind);
    }
  }
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

DriverDecorator::DriverDecorator(Wrap wrap)
    : wrap_(std::move(wrap)), before_(std::exchange(wrapping, &wrap_)) {}

DriverDecorator::~DriverDecorator() { wrapping = before_; }

}  // namespace twinbox
