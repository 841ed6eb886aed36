// Who acts in a world with dispatchers, and the stores that they act on.
#pragma once

#include <memory>

#include "simulation/actor.hpp"
#include "simulation/oracle.hpp"
#include <twinbox/dispatcher.hpp>

namespace twinbox::simulation {

/// A process with its own connections to every store.
struct Process {
  bool dead = false;
  bool busy = false;  ///< it is in the middle of a step
  std::unique_ptr<DatabaseSet> set = {};
  std::unique_ptr<Dispatcher> dispatcher = {};  // after the set, which must outlive it
  std::uint64_t faults_before = 0;              ///< when its step began
  Instant claimed_until = {};                   ///< the end of the leases of its step

  [[nodiscard]] Actor actor() const {
    return dispatcher ? Actor{dispatcher->owner().uuid()} : Actor{};
  }
};

/// A store and whoever looks at it from outside.
struct SimulatedStore {
  explicit SimulatedStore(std::uint64_t seed)
      : storage(true, seed), oracle(storage.address(), {.pool_size = 1}) {}
  Storage storage;
  Database oracle;
  Snapshot picture = {};
};

}  // namespace twinbox::simulation
