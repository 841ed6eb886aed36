// Schema and table names of any kind.
#include "support/outbox_test.hpp"
#include "support/reused_schema.hpp"
#include <twinbox/schema.hpp>

namespace twinbox::test {
namespace {

class SchemaName : public OutboxTest {
 protected:
  /// Takes a message through its life in a box of this name.
  void expect_works(Database& database, const BoxOptions& named) {
    Outbox outbox(database, named);
    NewMessage keyed = a_message();
    keyed.extras.partition_key = PartitionKey{"k"};
    outbox.enqueue(std::vector{keyed, a_message()});
    const auto messages = outbox.claim(worker_a, 30s, 10);
    ASSERT_EQ(messages.size(), 2u);
    EXPECT_EQ(outbox.ack(worker_a, messages[0]), 1u);
    EXPECT_EQ(outbox.abandon(worker_a, messages[1], "error"), 1u);
    clock().advance(1min);
    EXPECT_EQ(outbox.fail(worker_a, outbox.claim(worker_a, 30s, 10), "error"), 1u);
    EXPECT_EQ(outbox.reap(), 0u);
    EXPECT_EQ(outbox.expire(), 0u);
    EXPECT_EQ(outbox.prune({.older_than = 0s, .include_dead = true}), 2u);
    Schema schema(database, BoxKind::outbox, named);
    EXPECT_TRUE(schema.check().current());
    EXPECT_TRUE(schema.deploy().empty());
  }

  static const std::vector<std::string>& odd_names() {
    static const std::vector<std::string> names{
        "Mixed Case",   "with \"quotes\"", "it's", "select",      "ümläut ✓",  "a;b -- c",
        "; drop table", "{work} @now $1",  "100%", "back\\slash", "tab\there", "-",
        "[brackets]",   "`ticks`"};
    return names;
  }
  void drop_schema(Database& database, const std::string& schema) {
    if (on_sqlite()) return;
    if (on_sqlserver()) return drop_sqlserver_schema(database, schema);
    std::string quoted;
    for (const char c : schema) quoted += c == '"' ? std::string{"\"\""} : std::string{c};
    database.in_transaction([&](Session& session) {
      session.execute("set local client_min_messages = error");
      session.execute("drop schema \"" + quoted + "\" cascade");
    });
  }
};

TEST_P(SchemaName, a_table_may_have_any_name) {
  if (on_sqlserver() && is_stand_in())
    GTEST_SKIP() << "the stand-in takes some names apart though they are quoted";
  for (const std::string& name : odd_names()) {
    SCOPED_TRACE(name);
    BoxOptions named = options();
    named.table = name;
    expect_works(database(), named);
  }
}

TEST_P(SchemaName, a_schema_may_have_any_name) {
  if (on_sqlserver() && is_stand_in())
    GTEST_SKIP() << "the stand-in takes some names apart though they are quoted";
  for (const std::string& name : odd_names()) {
    SCOPED_TRACE(name);
    BoxOptions named = options();
    named.schema = name + " " + test_store().schema();
    expect_works(database(), named);
    drop_schema(database(), named.schema);
  }
}

TEST_P(SchemaName, the_box_of_one_name_is_not_the_box_of_another) {
  outbox().enqueue(a_message("first"));
  BoxOptions other_table = options();
  other_table.table = "second";
  Outbox second(database(), other_table);
  EXPECT_TRUE(second.claim(worker_a, 30s, 10).empty());
  BoxOptions other_schema = options();
  other_schema.schema = test_store().schema() + "_other";
  {
    Outbox third(database(), other_schema);
    EXPECT_TRUE(third.claim(worker_a, 30s, 10).empty());
  }
  drop_schema(database(), other_schema.schema);
  EXPECT_EQ(outbox().claim(worker_a, 30s, 10).size(), 1u);
}

TEST_P(SchemaName, a_name_that_cannot_be_used_is_refused_before_the_database_is_asked) {
  Database unreachable(on_postgres()    ? "postgresql://nobody@127.0.0.1:1/none"
                       : on_sqlserver() ? "sqlserver://nobody@127.0.0.1:1/none"
                                        : "sqlite:/no/such/folder/file.db");
  std::vector<std::string> wrong{std::string(64, 'a'), std::string{"a\0b", 3}, "\xff"};
  if (!on_sqlserver()) wrong.emplace_back(on_postgres() ? "pg_mine" : "sqlite_mine");
  for (const std::string& name : wrong) {
    BoxOptions named;
    named.schema = name;
    EXPECT_THROW(Outbox(unreachable, named), std::invalid_argument) << name;
  }
  for (const std::string& name :
       {std::string(41, 'a'), std::string{"a\0b", 3}, std::string{"\xff"}}) {
    BoxOptions named;
    named.table = name;
    EXPECT_THROW(Outbox(unreachable, named), std::invalid_argument) << name;
  }
  BoxOptions empty;
  empty.schema = "";
  EXPECT_THROW(Outbox(unreachable, empty), std::invalid_argument);
}

TWINBOX_ON_EVERY_BACKEND(SchemaName);

}  // namespace
}  // namespace twinbox::test
