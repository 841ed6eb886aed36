// The processes of a campaign: this program again, as a producer or as a worker.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <twinbox/outbox.hpp>

namespace twinbox::chaos {

inline constexpr Duration lease = std::chrono::seconds{3};
/// How long a worker holds all connections of its own pool when it is told to.
inline constexpr std::chrono::milliseconds exhaustion{1500};

/// Where a campaign's tables are.
struct Store {
  std::string address;
  std::string schema;

  /// A table of the campaign, with its schema where there are schemas.
  [[nodiscard]] std::string table(const std::string& name) const;
  [[nodiscard]] BoxOptions box() const;
};

enum class Role { producer, worker };

struct RoleOptions {
  Role role = Role::worker;
  Store store;
  std::string ledger;
  std::uint64_t seed = 1;
  std::string name;  ///< of the process
  int pool_size = 8;
  int threads = 6;
};

/// Starts this program in a role. `control` becomes its standard input: at its end the process
/// finishes in good order; an `x` makes a worker exhaust its pool. What it logs goes to `log`.
pid_t start_role(const RoleOptions& options, int control, const std::string& log);
/// The role that the arguments ask for; empty: none.
std::optional<RoleOptions> role_of(int count, char** words);
int run_role(const RoleOptions& options);

void produce(const RoleOptions& options);
void work(const RoleOptions& options);

}  // namespace twinbox::chaos
