// The functions of a box: noticed when they are not this program's, granted without the
// neighbours'.
#include <array>
#include <stdexcept>

#include "support/outbox_test.hpp"
#include "support/postgres.hpp"
#include <twinbox/schema.hpp>

namespace twinbox::test {
namespace {

class SchemaFunction : public OutboxTest {
 protected:
  BoxOptions without_deployment() {
    BoxOptions result = options();
    result.deploy_schema = false;
    return result;
  }
};

TEST_P(SchemaFunction, functions_of_another_program_are_warned_of_once_per_opening) {
  outbox();
  Outbox current(database(), without_deployment());
  EXPECT_TRUE(log().events("stale_functions").empty());
  write(
      "update {schema}twinbox_schema set hash = 'another' "
      "where box = 'outbox' and name in ('function/work', 'function/check')");
  Outbox stale(database(), without_deployment());
  stale.enqueue(a_message());
  const auto warnings = log().events("stale_functions");
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].level, LogLevel::warning);
  EXPECT_EQ(warnings[0].field("box"), "outbox");
  EXPECT_EQ(warnings[0].field("functions"), "function/check, function/work");
  Outbox again(database(), options());
  EXPECT_EQ(log().events("stale_functions").size(), 1u);
}

TEST_P(SchemaFunction, a_function_that_was_edited_or_dropped_is_noticed_and_restored) {
  outbox();
  Schema schema(database(), BoxKind::outbox, options());
  EXPECT_TRUE(schema.check().current());
  PgClient client(test_store().address());
  const std::string name = test_store().schema() + ".outbox_check_text(text, text, int)";
  const std::string body = "select prosrc from pg_proc where oid = '" + name + "'::regprocedure";
  const std::string before = client.value(body);
  client.run("create or replace function " + test_store().schema() +
             ".outbox_check_text(noun text, value text, most int) returns void language plpgsql "
             "as 'begin end'");
  EXPECT_EQ(schema.check().pending, std::vector<std::string>{"function/check"});
  EXPECT_EQ(schema.deploy(), std::vector<std::string>{"function/check"});
  EXPECT_EQ(client.value(body), before);

  client.run("drop function " + name);
  EXPECT_EQ(schema.check().pending, std::vector<std::string>{"function/check"});
  EXPECT_EQ(schema.deploy(), std::vector<std::string>{"function/check"});
  EXPECT_EQ(client.value(body), before);
  EXPECT_TRUE(schema.check().current());
}

TEST_P(SchemaFunction,
       functions_with_another_result_or_other_arguments_are_replaced_with_their_grants) {
  outbox();
  Schema schema(database(), BoxKind::outbox, options());
  PgClient client(test_store().address());
  const std::string box = test_store().schema() + ".outbox";
  const std::string role = test_store().schema() + "_app";
  client.run("create role " + role);
  client.run(
      "do $$ declare f regprocedure; begin for f in select oid::regprocedure from pg_proc "
      "where pronamespace = '" +
      test_store().schema() +
      "'::regnamespace and proname in "
      "('outbox_enqueue', 'outbox_accept_batch') loop execute 'drop function ' || f; "
      "end loop; end $$");
  // As an earlier program made them.
  for (const std::string payload : {"text", "bytea"}) {
    client.run("create function " + box + "_enqueue(topic text, payload " + payload +
               ", id text default null, correlation_id text default null, due_at timestamptz "
               "default null, partition_key text default null, headers text default null, "
               "content_type text default null, expires_at timestamptz default null) "
               "returns text language sql as 'select id'");
  }
  client.run("create function " + box +
             "_accept_batch(sources text[], ids text[], "
             "at timestamptz default null) returns bigint language sql as 'select 0::bigint'");
  for (const std::string name : {"_enqueue(text, text, text, text, timestamptz, text, text, text, "
                                 "timestamptz)",
                                 "_accept_batch(text[], text[], timestamptz)"}) {
    client.run("revoke execute on function " + box + name + " from public");
    client.run("grant execute on function " + box + name + " to " + role);
  }

  EXPECT_EQ(schema.deploy(),
            (std::vector<std::string>{"function/accept", "function/outbox_enqueue"}));
  EXPECT_TRUE(schema.check().current());
  EXPECT_TRUE(schema.deploy().empty());
  EXPECT_EQ(client.value("select duplicate from " + box + "_enqueue('order.placed', '{}')"), "f");
  const auto count = [&](const std::string& condition) {
    return client.value("select count(*) from pg_proc p where p.pronamespace = '" +
                        test_store().schema() + "'::regnamespace and " + condition);
  };
  EXPECT_EQ(count("proname = 'outbox_accept_batch'"), "1");
  EXPECT_EQ(count("proname = 'outbox_enqueue'"), "2");
  EXPECT_EQ(count("proname = 'outbox_accept_batch' and has_function_privilege('public', oid, "
                  "'execute')"),
            "0");
  EXPECT_EQ(count("proname in ('outbox_accept_batch', 'outbox_enqueue') and "
                  "has_function_privilege('" +
                  role + "', oid, 'execute')"),
            "3");
  client.run("drop owned by " + role);
  client.run("drop role " + role);
}

TEST_P(SchemaFunction, every_function_says_what_it_does_in_the_catalog_and_in_the_printed_script) {
  outbox();
  inbox();
  PgClient client(test_store().address());
  EXPECT_EQ(client.value("select string_agg(p.oid::regprocedure::text, ', ') from pg_proc p "
                         "where p.pronamespace = '" +
                         test_store().schema() +
                         "'::regnamespace and coalesce(obj_description(p.oid), '') = ''"),
            "null");
  const std::string said =
      client.value("select obj_description('" + test_store().schema() + ".outbox_reap'::regproc)");
  EXPECT_EQ(said, "Releases deliveries whose leases have expired. Returns their delivery ids.");
  EXPECT_NE(Schema(database(), BoxKind::outbox, options()).print().find(said), std::string::npos);
}

TEST_P(SchemaFunction, enqueue_is_closed_to_everybody_whoever_had_it_before) {
  outbox();
  PgClient client(test_store().address());
  const auto open = [&] {
    return client.value("select count(*) from pg_proc p where p.pronamespace = '" +
                        test_store().schema() +
                        "'::regnamespace and p.prosecdef and "
                        "has_function_privilege('public', p.oid, 'execute')");
  };
  EXPECT_EQ(open(), "0");
  // As an earlier program left it: with the rights of the caller, and open.
  const std::string name = test_store().schema() +
                           ".outbox_enqueue(text, bytea, text, text, timestamptz, text, text, "
                           "text, timestamptz)";
  client.run("alter function " + name + " security invoker");
  client.run("grant execute on function " + name + " to public");
  write("delete from {schema}twinbox_schema where name = 'function/outbox_enqueue'");
  EXPECT_EQ(Schema(database(), BoxKind::outbox, options()).deploy(),
            std::vector<std::string>{"function/outbox_enqueue"});
  EXPECT_EQ(open(), "0");
  EXPECT_EQ(client.value("select prosecdef from pg_proc where oid = '" + name + "'::regprocedure"),
            "t");
}

TEST_P(SchemaFunction, OBX_104_the_grants_of_a_box_leave_out_a_box_whose_name_begins_alike) {
  outbox();
  BoxOptions neighbour = options();
  neighbour.table = "outbox_old";
  const Outbox old(database(), neighbour);
  PgClient client(test_store().address());
  const std::string role = test_store().schema() + "_app";
  client.run("create role " + role);
  client.run("revoke execute on all functions in schema " + test_store().schema() + " from public");
  client.run(Schema(database(), BoxKind::outbox, options()).print_grants(role));
  const auto granted = [&](const std::string& like, const std::string& right) {
    return client.value(
        "select count(*) from pg_proc p join pg_namespace n on n.oid = p.pronamespace "
        "where n.nspname = '" +
        test_store().schema() + "' and " + like + " and " + right + "has_function_privilege('" +
        role + "', p.oid, 'execute')");
  };
  EXPECT_EQ(granted("proname like 'outbox\\_old\\_%'", ""), "0");
  EXPECT_EQ(granted("proname not like 'outbox\\_old\\_%'", "not "), "0");
  EXPECT_NE(granted("proname not like 'outbox\\_old\\_%'", ""), "0");
  client.run("drop owned by " + role);
  client.run("drop role " + role);
}

TEST_P(SchemaFunction, OBX_104_grants_are_refused_for_what_cannot_be_a_role) {
  const Schema schema(database(), BoxKind::outbox, options());
  using namespace std::string_literals;
  for (const std::string& role : std::array{""s, "a\0b"s, "a$twinbox$; drop table x; --"s}) {
    EXPECT_THROW(static_cast<void>(schema.print_grants(role)), std::invalid_argument) << role;
  }
}

TWINBOX_ON_BACKENDS(SchemaFunction, Backend::postgres);

}  // namespace
}  // namespace twinbox::test
