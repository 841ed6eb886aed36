// The store at rest, beside the ledger.
#pragma once

#include <map>
#include <set>

#include "simulation/ledger.hpp"
#include <twinbox/database.hpp>

namespace twinbox::simulation {

struct Rest {
  std::map<DutyName, std::int64_t> outcomes;  ///< 1 done, 2 dead
  std::set<std::string> messages;
};

std::int64_t open_duties(Database& database, bool is_inbox);
Rest read_rest(Database& database, bool is_inbox);

/// Throws Violation: nothing that was promised is lost, and what was finished has stayed so.
void check_rest(const Rest& rest, const Ledger& ledger);
/// Throws Violation unless exactly the messages without a dead duty are gone.
void check_pruned(const Rest& before, const Rest& after);

}  // namespace twinbox::simulation
