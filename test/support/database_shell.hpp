// What a person does to a store with the shell of its database.
#pragma once

#include <string>

#include "support/backend.hpp"

namespace twinbox::test {

/// Runs a script as the sqlite3 shell (on a file), psql or sqlcmd would. Fails the test at its
/// first error.
void run_by_hand(Backend backend, const TestStore& test_store, const std::string& script);

}  // namespace twinbox::test
