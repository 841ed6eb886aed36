// The store at rest, beside the ledger.
#pragma once

#include <map>
#include <set>

#include "simulation/ledger.hpp"
#include <twinbox/database.hpp>

namespace twinbox::simulation {

struct FinalState {
  std::map<DeliveryName, std::int64_t> outcomes;  ///< 1 done, 2 dead
  std::set<std::string> messages;
};

std::int64_t open_deliveries(Database& database, bool is_inbox);
FinalState read_final_state(Database& database, bool is_inbox);

/// Throws Violation: nothing that was promised is lost, and what was finished has stayed so.
void check_final_state(const FinalState& rest, const Ledger& ledger);
/// Throws Violation unless exactly the messages without a dead delivery are gone.
void check_pruned(const FinalState& before, const FinalState& after);

}  // namespace twinbox::simulation
