// The processes of a campaign: this program again, with a role.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace twinbox::test {

enum class Role {
  enqueuer,
  accepter,
  outbox_worker,
  inbox_worker,
  large_enqueuer,
  ledger_enqueuer,  ///< several at once, with payload_of() their ids
};

struct RoleOptions {
  Role role = Role::outbox_worker;
  std::string address;
  std::string schema;
  std::string log;         ///< the act log's file
  std::uint64_t seed = 1;  ///< two enqueuers with the same one make the same messages
  int messages = 0;        ///< how many a producer makes
  int log_pages = 0;       ///< after which a SQLite log is checkpointed; 0: as always
};

/// What a ledger_enqueuer writes under this id: three to four KiB that no other id has.
std::string payload_of(const std::string& id);

/// A worker writes one byte to this descriptor for each claim, a producer for each message.
inline constexpr int progress_descriptor = 3;

/// Starts this program in a role. `control` becomes its standard input: a worker ends when that is
/// at its end and no work is left.
pid_t start_role(const RoleOptions& options, int control, int progress);

/// The role that the arguments ask for; empty: none, run the tests.
std::optional<RoleOptions> role_of(int count, char** words);

/// Runs a role; returns the process's exit code.
int run_role(const RoleOptions& options);

}  // namespace twinbox::test
