#include "end_to_end/chaos/campaign.hpp"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace twinbox::chaos {
namespace {

using namespace std::chrono_literals;

constexpr int producers = 2;
constexpr int workers = 3;
/// Only for a run that is broken: many times what is ever needed.
constexpr Micros patience = 120'000'000;
constexpr std::chrono::milliseconds calm_time = 3s;

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) return "by signal " + std::to_string(WTERMSIG(status));
  return "with code " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

Campaign::Campaign(CampaignOptions options)
    : options_(std::move(options)), chance_(options_.seed) {}

Campaign::~Campaign() {
  for (const auto& process : processes_) {
    kill(process->pid, SIGKILL);
    waitpid(process->pid, nullptr, 0);
    close(process->control);
  }
}

Course Campaign::run() {
  course_.postgres = options_.postgres;
  deploy();
  for (int i = 0; i < producers; ++i) start(Role::producer, i == 0 ? 1 : 8, 3);
  // The first worker has far more threads than connections, always.
  for (int i = 0; i < workers; ++i) start(Role::worker, i == 0 ? 1 : 8, i == 0 ? 12 : 6);
  make_faults();
  wait_for_workers();
  end_producers();
  wait_until_drained();
  end_all();
  return course_;
}

void Campaign::deploy() {
  DatabaseOptions pool;
  pool.pool_size = 1;
  // A worker that is stopped inside a transaction must not hold up the next fault.
  pool.wait_timeout = 2s;
  database_ = std::make_unique<Database>(options_.store.address, pool);
  BoxOptions box = options_.store.box();
  box.deploy_schema = true;
  const Outbox outbox(*database_, box);
  database_->in_transaction([&](Session& session) {
    session.execute("create table " + options_.store.table("chaos_order") +
                    " (id text primary key)");
    session.execute("create table " + options_.store.table("chaos_effect") +
                    " (id text not null, epoch bigint not null)");
    session.execute("create table " + options_.store.table("chaos_lock") + " (id integer)");
  });
}

void Campaign::start(Role role, int pool_size, int threads) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
  auto process = std::make_unique<Process>();
  const int number = ++started_;
  const std::string name =
      (role == Role::producer ? "producer" : "worker") + std::to_string(number);
  process->role = {.role = role,
                   .store = options_.store,
                   .ledger = options_.folder / (name + ".ledger"),
                   .seed = chance_() % 1'000'000'000,
                   .name = name,
                   .pool_size = pool_size,
                   .threads = threads};
  process->pid = start_role(process->role, ends[0], options_.folder / (name + ".log"));
  close(ends[0]);
  process->control = ends[1];
  if (role == Role::worker) {
    process->worker = number;
    course_.worker_ledgers[number] = process->role.ledger;
  } else {
    course_.producer_ledgers.push_back(process->role.ledger);
  }
  processes_.push_back(std::move(process));
}

std::vector<Campaign::Process*> Campaign::running(Role role) {
  std::vector<Process*> found;
  for (const auto& process : processes_) {
    if (process->role.role == role && !process->continues_at) found.push_back(process.get());
  }
  return found;
}

/// Each kind once, in an order of chance, then whatever comes.
void Campaign::make_faults() {
  const Micros end = now() + std::chrono::microseconds{options_.time}.count();
  std::vector<FaultKind> kinds = faults_of(options_.postgres);
  std::shuffle(kinds.begin(), kinds.end(), chance_);
  for (std::size_t i = 0; now() < end; ++i) {
    wait_a_moment();
    notice_ended();
    make(i < kinds.size() ? kinds[i] : kinds[chance_() % kinds.size()]);
  }
  continue_stopped(true);
}

void Campaign::wait_a_moment() {
  const Micros until = now() + 300'000 + static_cast<Micros>(chance_() % 1'200'000);
  while (now() < until) {
    continue_stopped(false);
    std::this_thread::sleep_for(10ms);
  }
}

void Campaign::make(FaultKind kind) {
  switch (kind) {
    case FaultKind::kill_worker: return kill_one(Role::worker);
    case FaultKind::kill_producer: return kill_one(Role::producer);
    case FaultKind::stop_worker: return stop_worker();
    case FaultKind::exhaust_pool: return exhaust_pool();
    case FaultKind::restart:
    case FaultKind::restart_immediate: return restart(kind);
    case FaultKind::terminate_storm: return terminate_storm();
    case FaultKind::hold_lock: return hold_lock();
  }
}

void Campaign::kill_one(Role role) {
  const auto candidates = running(role);
  if (candidates.empty()) return;
  Process* victim = candidates[chance_() % candidates.size()];
  const Micros at = now();
  kill(victim->pid, SIGKILL);
  waitpid(victim->pid, nullptr, 0);
  close(victim->control);
  const bool of_worker = role == Role::worker;
  course_.faults.push_back(
      {of_worker ? FaultKind::kill_worker : FaultKind::kill_producer, victim->worker, at, now()});
  const RoleOptions same = victim->role;
  std::erase_if(processes_, [&](const auto& process) { return process.get() == victim; });
  start(role, same.pool_size, same.threads);
}

void Campaign::stop_worker() {
  const auto candidates = running(Role::worker);
  if (candidates.size() < 2) return;  // somebody has to take over
  Process* victim = candidates[chance_() % candidates.size()];
  const Micros at = now();
  kill(victim->pid, SIGSTOP);
  victim->continues_at = at + lease.count() + 500'000 + static_cast<Micros>(chance_() % 2'000'000);
  victim->fault = course_.faults.size();
  course_.faults.push_back({FaultKind::stop_worker, victim->worker, at, *victim->continues_at});
}

void Campaign::continue_stopped(bool all) {
  for (const auto& process : processes_) {
    if (!process->continues_at) continue;
    while (all && now() < *process->continues_at) std::this_thread::sleep_for(10ms);
    if (now() < *process->continues_at) continue;
    course_.faults[process->fault].end = now();
    kill(process->pid, SIGCONT);
    process->continues_at.reset();
  }
}

void Campaign::exhaust_pool() {
  const auto candidates = running(Role::worker);
  if (candidates.empty()) return;
  const Process* victim = candidates[chance_() % candidates.size()];
  const Micros at = now();
  if (write(victim->control, "x", 1) != 1) return trouble(victim->role.name + " does not listen");
  std::this_thread::sleep_for(exhaustion);
  course_.faults.push_back({FaultKind::exhaust_pool, victim->worker, at, now()});
}

void Campaign::restart(FaultKind kind) {
  const char* command = std::getenv("TWINBOX_TEST_POSTGRES_RESTART");
  if (command == nullptr) throw std::runtime_error("TWINBOX_TEST_POSTGRES_RESTART is not set");
  const Micros at = now();
  const std::string mode = kind == FaultKind::restart ? " fast" : " immediate";
  if (std::system((command + mode).c_str()) != 0) trouble("PostgreSQL does not restart");
  course_.faults.push_back({kind, -1, at, now()});
}

void Campaign::terminate_storm() {
  const Micros at = now();
  for (int i = 0; i < 8; ++i) {
    try {
      database_->in_transaction([](Session& session) {
        session.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() "
            "and datname = current_database() and backend_type = 'client backend'",
            {}, [](const Row&) {});
      });
    } catch (const DatabaseError&) {
      // Its own connection may be one that the last restart has cut off.
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{20 + chance_() % 150});
  }
  course_.faults.push_back({FaultKind::terminate_storm, -1, at, now()});
}

void Campaign::hold_lock() {
  const Micros at = now();
  const std::chrono::milliseconds time{500 + chance_() % 1500};
  try {
    database_->in_transaction([&](Session& session) {
      session.execute("insert into " + options_.store.table("chaos_lock") + " values (1)");
      std::this_thread::sleep_for(time);
    });
  } catch (const DatabaseError& error) {
    if (error.kind() != DatabaseError::Kind::contention) throw;
    return;  // somebody who is stopped holds it already
  }
  course_.faults.push_back({FaultKind::hold_lock, -1, at, now()});
}

void Campaign::notice_ended() {
  std::erase_if(processes_, [&](const auto& process) {
    int status = 0;
    if (waitpid(process->pid, &status, WNOHANG) != process->pid) return false;
    trouble(process->role.name + " ended on its own " + how_it_ended(status));
    close(process->control);
    return true;
  });
}

/// Production goes on until each of the workers has handled something again.
void Campaign::wait_for_workers() {
  const Micros from = now();
  for (;; std::this_thread::sleep_for(100ms)) {
    notice_ended();
    Handled handled;
    std::vector<Process*> missing = running(Role::worker);
    for (const Process* process : missing) handled.read(process->role.ledger, process->worker);
    std::erase_if(missing,
                  [&](const Process* one) { return handled.last_begin[one->worker] > from; });
    if (missing.empty()) break;
    if (now() - from > patience) return trouble(missing[0]->role.name + " never came back");
  }
  course_.all_workers_back = now() - from;
  std::this_thread::sleep_for(calm_time);
}

void Campaign::end(Process& process) {
  close(process.control);
  process.control = -1;
  const Micros from = now();
  int status = 0;
  while (waitpid(process.pid, &status, WNOHANG) == 0) {
    if (now() - from > patience) {
      trouble(process.role.name + " does not end");
      kill(process.pid, SIGKILL);
      waitpid(process.pid, &status, 0);
      return;
    }
    std::this_thread::sleep_for(5ms);
  }
  if (status != 0) trouble(process.role.name + " ended " + how_it_ended(status));
}

void Campaign::end_producers() {
  for (const auto& process : processes_) {
    if (process->role.role == Role::producer) end(*process);
  }
  std::erase_if(processes_, [](const auto& one) { return one->role.role == Role::producer; });
}

void Campaign::end_all() {
  for (const auto& process : processes_) end(*process);
  processes_.clear();
}

void Campaign::wait_until_drained() {
  const Micros from = now();
  while (open_deliveries() > 0) {
    notice_ended();
    if (now() - from > patience) return trouble("there is still open work");
    std::this_thread::sleep_for(20ms);
  }
  course_.drained = now() - from;
}

std::int64_t Campaign::open_deliveries() {
  std::int64_t count = 1;
  try {
    database_->in_transaction([&](Session& session) {
      session.execute("select count(*) from " + options_.store.table("outbox_work"), {},
                      [&](const Row& row) { count = row.integer(0); });
    });
  } catch (const DatabaseError&) {
    // Asked again: on PostgreSQL the connection may be one that the last fault has cut off.
  }
  return count;
}

void Campaign::trouble(const std::string& what) { course_.troubles.push_back(what); }

}  // namespace twinbox::chaos
