#include "end_to_end/chaos/fault.hpp"

namespace twinbox::chaos {

std::string_view to_string(FaultKind kind) noexcept {
  switch (kind) {
    case FaultKind::kill_worker: return "kill -9 a worker";
    case FaultKind::kill_producer: return "kill -9 a producer";
    case FaultKind::stop_worker: return "stop a worker past its lease";
    case FaultKind::exhaust_pool: return "exhaust a worker's pool";
    case FaultKind::restart: return "restart PostgreSQL, fast";
    case FaultKind::restart_immediate: return "restart PostgreSQL, immediate";
    case FaultKind::terminate_storm: return "terminate all backends";
    case FaultKind::hold_lock: return "hold the file's write lock";
  }
  return "unknown";
}

std::vector<FaultKind> faults_of(bool postgres) {
  using enum FaultKind;
  if (postgres) {
    return {kill_worker, kill_producer,     stop_worker,    exhaust_pool,
            restart,     restart_immediate, terminate_storm};
  }
  return {kill_worker, kill_producer, stop_worker, exhaust_pool, hold_lock};
}

}  // namespace twinbox::chaos
