// Producers and workers as processes, and faults between them for a while.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "end_to_end/chaos/fault.hpp"
#include "end_to_end/chaos/role.hpp"

namespace twinbox::chaos {

struct CampaignOptions {
  bool postgres = false;
  Store store;
  std::filesystem::path folder;  ///< of the ledgers and logs
  std::uint64_t seed = 1;
  std::chrono::seconds time{25};  ///< in which faults happen
};

/// What happened outside of the ledgers.
struct Course {
  bool postgres = false;
  std::vector<Fault> faults;
  std::map<int, std::string> worker_ledgers;  ///< by worker
  std::vector<std::string> producer_ledgers;
  std::vector<std::string> troubles;  ///< processes that ended on their own, waits that had no end
  std::optional<Micros> all_workers_back;  ///< after the last fault
  std::optional<Micros> drained;           ///< after the last producer
};

class Campaign {
 public:
  explicit Campaign(CampaignOptions options);
  ~Campaign();
  Campaign(const Campaign&) = delete;
  Campaign& operator=(const Campaign&) = delete;

  /// Runs it from the first process to the last.
  Course run();

 private:
  struct Process {
    RoleOptions role;
    pid_t pid = 0;
    int control = -1;  ///< the write end of its standard input
    int worker = -1;
    std::optional<Micros> continues_at;  ///< stopped until then
    std::size_t fault = 0;               ///< the one that stopped it
  };

  void deploy();
  void start(Role role, int pool_size, int threads);
  void make_faults();
  void make(FaultKind kind);
  void kill_one(Role role);
  void stop_worker();
  void exhaust_pool();
  void restart(FaultKind kind);
  void terminate_storm();
  void hold_lock();
  /// Lets workers go on whose time has come; all of them when `all`.
  void continue_stopped(bool all);
  void wait_a_moment();
  void notice_ended();
  void wait_for_workers();
  void end_producers();
  void wait_until_drained();
  void end_all();
  void end(Process& process);
  std::int64_t open_deliveries();
  std::vector<Process*> running(Role role);
  void trouble(const std::string& what);

  CampaignOptions options_;
  std::mt19937_64 chance_;
  std::unique_ptr<Database> database_;  ///< of the campaign itself
  std::vector<std::unique_ptr<Process>> processes_;
  int started_ = 0;
  Course course_;
};

}  // namespace twinbox::chaos
