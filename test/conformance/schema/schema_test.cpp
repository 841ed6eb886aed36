// The tables of a box: deployed, checked, printed, refused.
#include <thread>

#include "support/database_shell.hpp"
#include "support/outbox_test.hpp"
#include "support/reused_schema.hpp"
#include <twinbox/schema.hpp>

namespace twinbox::test {
namespace {

class SchemaOf : public OutboxTest {
 protected:
  BoxOptions without_deployment() {
    BoxOptions result = options();
    result.deploy_schema = false;
    return result;
  }
  Schema schema(BoxKind kind = BoxKind::outbox) { return {database(), kind, options()}; }

  /// Everything in the test's schema, by name.
  std::int64_t objects(const std::string& like = "%") {
    if (on_sqlserver()) {
      return count(
          "select count(*) from sys.objects o join sys.schemas s on s.schema_id = o.schema_id "
          "where s.name = '" +
          test_store().schema() + "' and o.name like '" + like + "'");
    }
    return on_postgres() ? count(
                               "select count(*) from pg_class c join pg_namespace n on n.oid = "
                               "c.relnamespace where n.nspname = '" +
                               test_store().schema() + "' and c.relname like '" + like + "'")
                         : count("select count(*) from sqlite_master where name like '" + like +
                                 "' and name not like 'sqlite_%'");
  }
};

TEST_P(SchemaOf, OBX_091_deploy_creates_what_is_missing_and_says_what) {
  SchemaState before = schema().check();
  EXPECT_TRUE(before.missing());
  EXPECT_FALSE(before.current());
  EXPECT_EQ(schema().deploy(), before.pending);
  const SchemaState after = schema().check();
  EXPECT_TRUE(after.current());
  EXPECT_EQ(after.version, after.known_version);
  EXPECT_NO_THROW(schema().require());
  Outbox outbox(database(), without_deployment());
  outbox.enqueue(a_message());
  EXPECT_EQ(outbox.claim(worker_a, 30s, 10).size(), 1u);
}

TEST_P(SchemaOf, OBX_091_a_box_deploys_its_tables_when_it_is_asked_to) {
  Outbox outbox(database(), options());
  EXPECT_TRUE(schema().check().current());
  EXPECT_FALSE(log().events("deploy").empty());
}

TEST_P(SchemaOf, OBX_091_deploy_is_told_once_after_its_commit_and_not_when_it_failed) {
  FaultPlan plan;
  Database faulty = open_faulty(test_store().address(), plan, {.retries = 1}, environment());
  Schema schema(faulty, BoxKind::outbox, options());
  plan.fail_commit(DatabaseError::Kind::out_of_space);
  EXPECT_THROW(schema.deploy(), DatabaseError);
  EXPECT_TRUE(log().events("deploy").empty()) << "told though it failed";
  plan.fail_commit(DatabaseError::Kind::contention);
  const std::vector<std::string> applied = schema.deploy();
  EXPECT_EQ(plan.pending(), 0u);
  EXPECT_FALSE(applied.empty());
  EXPECT_EQ(log().events("deploy").size(), applied.size());
}

TEST_P(SchemaOf, OBX_092_without_deployment_nothing_is_created_and_the_error_says_the_way_out) {
  try {
    Outbox outbox(database(), without_deployment());
    FAIL() << "an outbox without tables was opened";
  } catch (const SchemaError& error) {
    const std::string_view text = error.what();
    for (const char* part : {"test store", "missing", "deploy", "print"}) {
      EXPECT_NE(text.find(part), std::string_view::npos) << part << ": " << text;
    }
  }
  EXPECT_THROW(Inbox(database(), without_deployment()), SchemaError);
  EXPECT_TRUE(schema().check().missing());
  EXPECT_EQ(objects(), 0);
}

TEST_P(SchemaOf, OBX_093_deploying_again_changes_nothing_and_is_no_error) {
  EXPECT_FALSE(schema().deploy().empty());
  outbox().enqueue(a_message());
  const auto before = objects();
  EXPECT_TRUE(schema().deploy().empty());
  EXPECT_TRUE(schema().deploy().empty());
  EXPECT_EQ(objects(), before);
  EXPECT_EQ(rows("message"), 1);
}

TEST_P(SchemaOf, OBX_093_two_deployers_at_once_both_succeed) {
  constexpr int deployers = 4;
  database();
  std::vector<std::unique_ptr<Database>> databases;
  for (int i = 0; i < deployers; ++i) {
    databases.push_back(
        GetParam() == Backend::sqlite_memory
            ? nullptr
            : std::make_unique<Database>(test_store().address(), DatabaseOptions{}, environment()));
  }
  std::atomic<int> applied = 0;
  std::atomic<int> errors = 0;
  {
    std::vector<std::jthread> threads;
    for (auto& own : databases) {
      threads.emplace_back([&] {
        try {
          Schema schema(own ? *own : database(), BoxKind::outbox, options());
          if (!schema.deploy().empty()) ++applied;
        } catch (const std::exception& error) {
          ADD_FAILURE() << error.what();
          ++errors;
        }
      });
    }
  }
  EXPECT_EQ(errors, 0);
  EXPECT_EQ(applied, 1);
  EXPECT_TRUE(schema().check().current());
}

TEST_P(SchemaOf, OBX_094_holds_the_outbox_and_the_indexes_that_claim_needs) {
  if (on_sqlserver() && is_stand_in()) GTEST_SKIP() << "the stand-in has other names for indexes";
  schema().deploy();
  EXPECT_EQ(objects("outbox"), 1);
  for (const char* table : {"message", "work", "outcome", "failure"}) {
    EXPECT_EQ(objects("outbox_" + std::string{table}), 1) << table;
    EXPECT_EQ(rows(table), 0);
  }
  EXPECT_EQ(objects("outbox_work_visible"), 1);
  EXPECT_EQ(objects("outbox_work_delivery"), 1);
  EXPECT_EQ(count("select count(*) from {schema}outbox"), 0);
}

TEST_P(SchemaOf, a_newer_schema_is_refused_and_left_alone) {
  schema().deploy();
  write(
      "insert into {schema}twinbox_schema (box, name, version, hash) values ('outbox', "
      "'9999_future', 9999, 'x')");
  EXPECT_TRUE(schema().check().too_new());
  EXPECT_FALSE(schema().check().current());
  EXPECT_THROW(schema().require(), SchemaError);
  EXPECT_THROW(schema().deploy(), SchemaError);
  for (const bool deploy : {false, true}) {
    BoxOptions choice = options();
    choice.deploy_schema = deploy;
    try {
      Outbox outbox(database(), choice);
      FAIL() << "a newer schema was opened";
    } catch (const SchemaError& error) {
      EXPECT_NE(std::string_view{error.what()}.find("9999"), std::string_view::npos);
    }
  }
}

TEST_P(SchemaOf, an_older_schema_is_refused_without_deployment) {
  schema().deploy();
  write("delete from {schema}twinbox_schema where version > 1");
  EXPECT_THROW(schema().require(), SchemaError);
  EXPECT_THROW(Outbox(database(), without_deployment()), SchemaError);
  EXPECT_FALSE(schema().check().pending.empty());
}

TEST_P(SchemaOf, outbox_and_inbox_of_one_schema_are_apart) {
  schema(BoxKind::outbox).deploy();
  EXPECT_TRUE(schema(BoxKind::inbox).check().missing());
  schema(BoxKind::inbox).deploy();
  EXPECT_TRUE(schema(BoxKind::inbox).check().current());
  EXPECT_TRUE(schema(BoxKind::outbox).check().current());
  NewMessage message = a_message();
  message.id = MessageId{"evt_1"};
  outbox().enqueue(message);
  inbox().accept(an_arrival("evt_1"));
  EXPECT_EQ(outbox().claim(worker_a, 30s, 10).size(), 1u);
  EXPECT_EQ(inbox().claim(worker_a, 30s, 10).size(), 1u);
}

TEST_P(SchemaOf, OBX_102_an_open_outbox_is_kept_and_not_made_again_on_every_call) {
  TestStore second_place(GetParam());
  Database second_database(second_place.address(), {.name = "second"}, environment());
  BoxOptions second_options = options();
  second_options.schema = second_place.schema();
  Outbox second(second_database, second_options);
  outbox();
  write("drop table {schema}twinbox_schema");
  second_database.in_transaction([&](Session& session) {
    session.execute("drop table " +
                    std::string{on_sqlite() ? "" : "\"" + second_place.schema() + "\"."} +
                    "twinbox_schema");
  });
  log().clear();
  for (Outbox* box : {&outbox(), &second, &outbox(), &second}) {
    box->enqueue(a_message());
    EXPECT_EQ(box->ack(worker_a, box->claim(worker_a, 30s, 10)), 1u);
  }
  EXPECT_TRUE(log().events("deploy").empty());
  EXPECT_THROW(Outbox(database(), without_deployment()), SchemaError);
}

TEST_P(SchemaOf, grants_are_for_databases_that_have_roles) {
  if (!on_sqlite()) {
    EXPECT_NE(schema().print_grants("app").find("to \"app\""), std::string::npos);
  } else {
    EXPECT_THROW(static_cast<void>(schema().print_grants("app")), UsageError);
  }
}

TWINBOX_ON_EVERY_BACKEND(SchemaOf);

class PrintedSchema : public SchemaOf {};

TEST_P(PrintedSchema, run_by_hand_is_what_deploy_does) {
  REQUIREMENT("OBX-091");
  for (const BoxKind kind : {BoxKind::outbox, BoxKind::inbox}) {
    run_by_hand(GetParam(), test_store(), schema(kind).print());
    EXPECT_TRUE(schema(kind).check().current()) << to_string(kind);
    EXPECT_TRUE(schema(kind).deploy().empty()) << to_string(kind);
  }
  Outbox outbox(database(), without_deployment());
  outbox.enqueue(a_message());
  EXPECT_EQ(outbox.ack(worker_a, outbox.claim(worker_a, 30s, 10)), 1u);
  Inbox inbox(database(), without_deployment());
  inbox.accept(an_arrival());
  EXPECT_EQ(inbox.ack(worker_a, inbox.claim(worker_a, 30s, 10)), 1u);
}

TEST_P(PrintedSchema, takes_names_of_any_kind) {
  if (on_sqlserver() && is_stand_in())
    GTEST_SKIP() << "the stand-in takes some names apart though they are quoted";
  BoxOptions named = without_deployment();
  named.table = "{work} \"t\"; it's\nnot SQL";
  run_by_hand(GetParam(), test_store(), Schema(database(), BoxKind::outbox, named).print());
  Outbox outbox(database(), named);
  outbox.enqueue(a_message());
  EXPECT_EQ(outbox.ack(worker_a, outbox.claim(worker_a, 30s, 10)), 1u);
}

TWINBOX_ON_BACKENDS(PrintedSchema, Backend::sqlite_file, Backend::postgres, Backend::sqlserver);

}  // namespace
}  // namespace twinbox::test
