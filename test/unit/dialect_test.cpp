// The dialects offer the same statements with the same parameters; no database is needed to know.
#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "sql/render.hpp"

namespace twinbox {
namespace {

using Names = std::set<std::string>;
using Parameters = std::map<std::string, Names>;

/// The parameters that a call must give: those of each step, without what an `each` step takes from
/// a row.
Parameters parameters(Dialect dialect) {
  static const Names from_a_row{"answer", "conflict", "due",      "expires", "id",
                                "key",    "number",   "replaced", "waiting", "wanted"};
  Parameters found;
  for (const auto& [name, statement] : StatementSet(dialect, {"infra", "outbox"})) {
    Names& names = found[std::string{name}];
    for (const Step& step : statement.steps) {
      for (const std::string& parameter : step.params) {
        if (!step.each || !from_a_row.contains(parameter)) names.insert(parameter);
      }
    }
  }
  return found;
}

/// What a statement of SQL Server's reads of each row of @rows: `'$.id'` is @id elsewhere. Bytes
/// lie in @bytes, and a row says where; `'$.n'` counts the rows.
Names columns_of(const std::string& sql) {
  static const std::regex table{"openjson\\(@rows\\) with \\(([^@]*?)\\) as"};
  static const std::regex path{"'\\$\\.([a-z_]+)'"};
  Names names;
  for (std::sregex_iterator found{sql.begin(), sql.end(), table}, end; found != end; ++found) {
    const std::string columns = (*found)[1];
    for (std::sregex_iterator column{columns.begin(), columns.end(), path}; column != end; ++column)
      names.insert((*column)[1]);
  }
  for (const std::string bytes : {"payload", "hash"}) {
    EXPECT_EQ(names.count(bytes + "_at"), names.count(bytes + "_size")) << sql;
    if (names.erase(bytes + "_at") + names.erase(bytes + "_size") > 0) names.insert(bytes);
  }
  names.erase("n");
  return names;
}

TEST(Dialects, have_the_same_statements_with_the_same_parameters) {
  Parameters postgres = parameters(Dialect::postgres);
  EXPECT_EQ(postgres.erase("require_synchronous"), 1u) << "only PostgreSQL has it";
  EXPECT_EQ(parameters(Dialect::sqlite), postgres);
}

TEST(Dialects, print_scripts_of_the_same_parts) {
  for (const Dialect dialect : {Dialect::sqlite, Dialect::postgres, Dialect::sqlserver}) {
    Names parts;
    for (const SqlFile& file : embedded_sql(dialect)) {
      if (file.path.starts_with("print/") && !file.path.starts_with("print/grant"))
        parts.emplace(file.path);
    }
    EXPECT_EQ(parts, (Names{"print/applied.sql", "print/begin.sql", "print/end.sql"}))
        << to_string(dialect);
  }
}

TEST(Dialects, of_sql_server_takes_the_columns_of_a_call_as_one_array) {
  Parameters found = parameters(Dialect::sqlserver);
  for (const auto& [name, statement] : StatementSet(Dialect::sqlserver, {"infra", "outbox"})) {
    ASSERT_EQ(statement.steps.size(), 1u) << name;
    EXPECT_TRUE(statement.call.empty()) << name;
    Names& names = found[std::string{name}];
    const Names columns = columns_of(statement.steps.front().sql);
    EXPECT_EQ(names.erase("rows"), columns.empty() ? 0u : 1u) << name;
    EXPECT_EQ(names.erase("bytes"), columns.contains("payload") ? 1u : 0u) << name;
    names.insert(columns.begin(), columns.end());
  }
  Parameters known = parameters(Dialect::postgres);
  known.erase("require_synchronous");
  known.erase("accept_known");      // on SQL Server, accept
  known.erase("insert_generated");  // on SQL Server, add
  EXPECT_EQ(found, known);
}

TEST(Dialects, of_postgres_takes_one_with_the_same_parameters_as_many) {
  const Parameters known = parameters(Dialect::postgres);
  int found = 0;
  for (const auto& [name, statement] : StatementSet(Dialect::postgres, {"infra", "outbox"})) {
    Names names;
    for (const Step& step : statement.one) names.insert(step.params.begin(), step.params.end());
    if (names.empty()) continue;
    ++found;
    EXPECT_EQ(names, known.at(std::string{name})) << name;
  }
  EXPECT_GT(found, 0);
}

TEST(Dialects, of_sqlite_takes_many_with_no_other_parameters_than_a_few) {
  const Parameters known = parameters(Dialect::sqlite);
  int found = 0;
  for (const auto& [name, statement] : StatementSet(Dialect::sqlite, {"infra", "outbox"})) {
    for (const Step& step : statement.many) {
      ++found;
      Names names(step.params.begin(), step.params.end());
      EXPECT_EQ(names.erase("rows"), 1u) << name;
      const Names& all = known.at(std::string{name});
      EXPECT_TRUE(std::ranges::includes(all, names)) << name;
    }
  }
  EXPECT_GT(found, 0);
}

TEST(Dialects, call_functions_with_no_other_parameters_than_the_statement_has) {
  const Parameters known = parameters(Dialect::postgres);
  for (const auto& [name, statement] : StatementSet(Dialect::postgres, {"infra", "outbox"})) {
    if (statement.call.empty()) continue;
    const std::vector<std::string>& params = statement.call.front().params;
    const std::set<std::string> called(params.begin(), params.end());
    EXPECT_EQ(called, known.at(std::string{name})) << name;
  }
}

}  // namespace
}  // namespace twinbox
