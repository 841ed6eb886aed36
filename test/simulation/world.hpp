// A world: producers, workers and sweepers stepped on one thread against a store where things go
// wrong, until the faults stop and everything must come to rest.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simulation/ledger.hpp"

namespace twinbox::simulation {

struct WorldOptions {
  std::uint64_t seed = 1;
  bool on_file = false;      ///< each actor with a database of its own on one file, else in memory
  bool commits_lie = false;  ///< plants a fault that must be found
  int steps = 250;           ///< while faults happen
};

/// What a world was like; equal for equal options.
struct WorldReport {
  std::uint64_t faults = 0;
  std::uint64_t crashes = 0;
  std::uint64_t claims = 0;
  std::uint64_t calls = 0;  ///< of handlers, where there are dispatchers
  std::uint64_t stale = 0;  ///< settles that came too late
  std::size_t deliveries = 0;
  std::size_t done = 0;
  std::size_t dead = 0;
  std::vector<std::string> steps = {};  ///< the last ones
  std::string violation = {};           ///< empty: every promise was kept

  bool operator==(const WorldReport&) const = default;
};

WorldReport run_world(const WorldOptions& options);
/// The workers are whole dispatchers, for one to three stores; always on files.
WorldReport run_dispatch_world(const WorldOptions& options);

}  // namespace twinbox::simulation
