// A driver that wraps the SQLite driver and lets things go wrong where they can: before and after
// each statement, and around a commit.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "database/connection.hpp"
#include "twinbox/database.hpp"

namespace twinbox::simulation {

/// All chance of a world comes from here.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}
  std::uint64_t bits();
  /// 0 … sides - 1.
  std::size_t roll(std::size_t sides) { return static_cast<std::size_t>(bits() % sides); }
  bool one_in(std::size_t sides) { return roll(sides) == 0; }

 private:
  std::uint64_t state_;
};

/// The process that made the call is gone. No error: nobody is left to see one.
struct Crash {};

/// What goes wrong, and how often.
struct Faults {
  Dice& dice;
  bool on = false;
  std::size_t one_in = 60;     ///< of the places where something can go wrong
  bool commits_lie = false;    ///< says committed and rolls back: a fault that must be found
  std::uint64_t happened = 0;  ///< so far
};

/// Where the connections lead: a file, or one database in memory that outlives each connection.
std::unique_ptr<Driver> make_faulty_driver(const std::string& address, Faults& faults,
                                           const DatabaseOptions& options,
                                           const Environment& environment);

/// Around the driver of a file, for one process. `dead` turns true when the process crashes: from
/// then on all its calls end in a Crash, for somebody who catches one must not go on.
std::unique_ptr<Driver> make_faulty(std::unique_ptr<Driver> file, Faults& faults, bool& dead);

}  // namespace twinbox::simulation
