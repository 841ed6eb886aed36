// From an address to a driver. Implemented in open_database.cpp, the only file that knows every
// driver by name; a program links the drivers it uses
// (docs/contributing/decisions/link_one_database.md).
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "database/connection.hpp"
#include "twinbox/database.hpp"

namespace twinbox {

/// How a driver's library is reached. Each library defines one constant of this type.
struct DriverLibrary {
  bool (*takes)(std::string_view address) noexcept;  ///< the address is one of its own
  std::unique_ptr<Driver> (*open)(std::string_view address, const DatabaseOptions& options,
                                  const Environment& environment);
};

/// Throws std::invalid_argument when the address cannot be understood or its driver is not linked.
/// No message shows the address itself: it may hold a password.
std::unique_ptr<Driver> open_driver(std::string_view address, const DatabaseOptions& options,
                                    const Environment& environment);

/// While it lives, every driver that this thread opens is passed to `wrap` first: so the
/// simulator's faults reach the databases that a set opens by itself.
class DriverDecorator {
 public:
  using Wrap = std::function<std::unique_ptr<Driver>(std::unique_ptr<Driver>)>;
  explicit DriverDecorator(Wrap wrap);
  ~DriverDecorator();
  DriverDecorator(const DriverDecorator&) = delete;
  DriverDecorator& operator=(const DriverDecorator&) = delete;

 private:
  Wrap wrap_;
  const Wrap* before_;
};

}  // namespace twinbox
