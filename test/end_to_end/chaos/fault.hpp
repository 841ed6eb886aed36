// What goes wrong in a campaign, and when.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "end_to_end/chaos/ledger.hpp"

namespace twinbox::chaos {

enum class FaultKind {
  kill_worker,
  kill_producer,
  stop_worker,        ///< SIGSTOP until its leases are over, then SIGCONT
  exhaust_pool,       ///< a worker's own pool has no connection left
  restart,            ///< PostgreSQL: clients are cut off, data are checkpointed
  restart_immediate,  ///< PostgreSQL: as after a crash
  terminate_storm,    ///< PostgreSQL: every backend, again and again
  hold_lock,          ///< SQLite: another program keeps the file's write lock
};

std::string_view to_string(FaultKind kind) noexcept;
/// Those that can happen on the backend.
std::vector<FaultKind> faults_of(bool postgres);

struct Fault {
  FaultKind kind;
  int worker = -1;  ///< the one it hits; -1: everybody
  Micros begin = 0;
  Micros end = 0;  ///< when its cause was gone
};

}  // namespace twinbox::chaos
