#include "support/reused_schema.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "support/backend.hpp"

namespace twinbox::test {
namespace {

std::string quoted(const std::string& name) {
  std::string text{"\""};
  for (const char c : name) text.append(c == '"' ? 2 : 1, c);
  return text + "\"";
}

bool is_about_schemas() {
  const ::testing::TestSuite* suite = ::testing::UnitTest::GetInstance()->current_test_suite();
  const std::string_view name = suite == nullptr ? "" : suite->name();
  constexpr std::array<std::string_view, 6> words{"Schema",   "Doctor", "View",
                                                  "Function", "Role",   "BadInput"};
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    return name.find(word) != std::string_view::npos;
  });
}

/// The schemas that this process has made.
class Schemas {
 public:
  void drop_all() {
    try {
      for (const std::string& schema : free_) drop_sqlserver_schema(database(), schema);
    } catch (const DatabaseError& error) {
      std::fprintf(stderr, "schemas of the tests are left on the server: %s\n", error.what());
    }
    free_.clear();
    database_.reset();
  }

  std::string take() {
    if (is_about_schemas() || free_.empty()) return unique_name();
    std::string schema = std::move(free_.back());
    free_.pop_back();
    return schema;
  }

  void return_schema(const std::string& schema, bool changed) {
    if (changed || is_about_schemas()) {
      drop_sqlserver_schema(database(), schema);
      return;
    }
    std::string batch;
    for (const std::string box : {"outbox", "inbox"}) {
      for (const char* table : {"_work", "_outcome", "_failure", "_audit", "_named_lease",
                                "_worker", "_hold", "_message"}) {
        const std::string name = quoted(schema) + "." + quoted(box + table);
        batch += "if object_id('" + name + "') is not null delete from " + name + ";\n";
      }
    }
    database().in_transaction([&](Session& session) { session.execute(batch); });
    free_.push_back(schema);
  }

 private:
  Database& database() {
    if (!database_) database_ = std::make_unique<Database>(sqlserver_address());
    return *database_;
  }

  std::unique_ptr<Database> database_;
  std::vector<std::string> free_;
};

Schemas& schemas() {
  static Schemas all;
  return all;
}

/// Not at the program's exit: what belongs to its threads is gone by then.
class LastOfAll : public ::testing::Environment {
 public:
  void TearDown() override { schemas().drop_all(); }
};

const ::testing::Environment* const last_of_all =
    ::testing::AddGlobalTestEnvironment(new LastOfAll);

}  // namespace

std::string sqlserver_address() {
  const char* address = std::getenv("TWINBOX_TEST_SQLSERVER");
  return address == nullptr ? "" : address;
}

bool is_stand_in() {
  static const bool answer = [] {
    if (sqlserver_address().empty()) return false;
    bool is_it = false;
    Database{sqlserver_address()}.in_transaction([&](Session& session) {
      session.execute("select cast(serverproperty('BabelfishVersion') as nvarchar(99))", {},
                      [&](const Row& row) { is_it = !row.is_null(0); });
    });
    return is_it;
  }();
  return answer;
}

std::string take_sqlserver_schema() { return schemas().take(); }

void return_sqlserver_schema(const std::string& schema, bool changed) {
  try {
    schemas().return_schema(schema, changed);
  } catch (const DatabaseError& error) {
    ADD_FAILURE() << "the schema " << schema << " is left on the server: " << error.what();
  }
}

void drop_sqlserver_schema(Database& database, const std::string& schema) {
  database.in_transaction([&](Session& session) {
    std::vector<std::pair<std::string, std::string>> found;
    session.execute(
        "select o.name, o.type from sys.objects o join sys.schemas s on s.schema_id = o.schema_id "
        "where s.name = @schema",
        {{"schema", schema}},
        [&](const Row& row) { found.emplace_back(row.text(0), row.text(1).substr(0, 2)); });
    // A view or a procedure does not outlast its tables.
    for (const auto& [type, word] :
         {std::pair{'V', "view"}, std::pair{'P', "procedure"}, std::pair{'U', "table"}}) {
      for (const auto& [name, its_type] : found) {
        const bool is_it = its_type == std::string{type} || its_type == std::string{type, ' '};
        if (!is_it) continue;
        session.execute(std::string{"drop "} + word + " " + quoted(schema) + "." + quoted(name));
      }
    }
    bool there = false;
    session.execute("select 1 from sys.schemas where name = @schema", {{"schema", schema}},
                    [&](const Row&) { there = true; });
    if (there) session.execute("drop schema " + quoted(schema));
  });
}

}  // namespace twinbox::test
