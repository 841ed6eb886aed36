// The dialects offer the same statements with the same parameters; no database is needed to know.
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "sql/render.hpp"

namespace twinbox {
namespace {

using Parameters = std::map<std::string, std::set<std::string>>;

/// The parameters that a call must give: those of each step, without what an `each` step takes from
/// a row.
Parameters parameters(Dialect dialect) {
  Parameters found;
  for (const auto& [name, statement] : StatementSet(dialect, {"infra", "outbox"})) {
    std::set<std::string>& names = found[std::string{name}];
    for (const Step& step : statement.steps) {
      for (const std::string& parameter : step.params) {
        const bool from_a_row = parameter == "id" || parameter == "number" || parameter == "answer";
        if (!step.each || !from_a_row) names.insert(parameter);
      }
    }
  }
  return found;
}

TEST(Dialects, have_the_same_statements_with_the_same_parameters) {
  EXPECT_EQ(parameters(Dialect::sqlite), parameters(Dialect::postgres));
}

TEST(Dialects, call_functions_with_no_other_parameters_than_the_statement_has) {
  const Parameters known = parameters(Dialect::postgres);
  for (const auto& [name, statement] : StatementSet(Dialect::postgres, {"infra", "outbox"})) {
    const std::set<std::string> called(statement.call.params.begin(), statement.call.params.end());
    if (called.empty()) continue;
    EXPECT_EQ(called, known.at(std::string{name})) << name;
  }
}

}  // namespace
}  // namespace twinbox
