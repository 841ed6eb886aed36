// A role of the application's own, with the rights that the grants script names and no more.
#include "support/outbox_test.hpp"
#include <twinbox/health.hpp>
#include <twinbox/housekeeping.hpp>
#include <twinbox/operations.hpp>
#include <twinbox/schema.hpp>

namespace twinbox::test {
namespace {

class PostgresRole : public OutboxTest {
 protected:
  PostgresRole() : role_(test_store().schema() + "_App \"x\"") {
    outbox();
    inbox();
    write("create role " + quoted() + " login");
    // Functions are open to everybody unless somebody closes them, as careful people do.
    write("revoke execute on all functions in schema \"" + test_store().schema() +
          "\" from public");
  }
  ~PostgresRole() override {
    write("drop owned by " + quoted());
    write("drop role " + quoted());
  }

  [[nodiscard]] std::string quoted() const {
    std::string text;
    for (const char c : role_) text += c == '"' ? std::string{"\"\""} : std::string{c};
    return "\"" + text + "\"";
  }
  void grant_enqueue() {
    const std::string script =
        Schema(database(), BoxKind::outbox, options()).print_enqueue_grants(role_);
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = script.find(";\n", begin)) != std::string::npos;
         begin = end + 2)
      write(script.substr(begin, end - begin));
  }
  void expect_forbidden(Database& database, const std::string& sql) {
    try {
      database.in_transaction([&](Session& session) { session.execute(in_schema(sql)); });
      ADD_FAILURE() << "was allowed: " << sql;
    } catch (const DatabaseError& error) {
      EXPECT_EQ(error.kind(), DatabaseError::Kind::permission) << sql << ": " << error.what();
    }
  }
  std::string value(Database& database, const std::string& sql) {
    std::string value;
    database.in_transaction([&](Session& session) {
      session.execute(in_schema(sql), {}, [&](const Row& row) { value = row.text(0); });
    });
    return value;
  }
  void grant(BoxKind kind) {
    const std::string script = Schema(database(), kind, options()).print_grants(role_);
    std::size_t begin = 0;
    const std::size_t block = script.find("do $twinbox$");
    database().in_transaction([&](Session& session) {
      for (std::size_t end = script.find(";\n"); begin < block; end = script.find(";\n", begin)) {
        session.execute(script.substr(begin, end - begin));
        begin = end + 2;
      }
      session.execute(script.substr(block));
    });
  }
  /// The test server's address with the role as its user.
  [[nodiscard]] std::string address() {
    std::string user;
    for (const char c : role_) {
      user += c == ' ' ? "%20" : c == '"' ? "%22" : std::string{c};
    }
    std::string text = test_store().address();
    const std::size_t begin = text.find("://") + 3;
    return text.replace(begin, text.find('@') - begin, user);
  }
  BoxOptions without_deployment() {
    BoxOptions result = options();
    result.deploy_schema = false;
    return result;
  }

 private:
  std::string role_;
};

TEST_P(PostgresRole, OBX_104_the_granted_rights_are_enough_for_the_whole_life_of_a_message) {
  grant(BoxKind::outbox);
  Database database(address(), {}, environment());
  Outbox outbox(database, without_deployment());
  NewMessage keyed = a_message("keyed");
  keyed.extras.partition_key = PartitionKey{"k"};
  keyed.extras.expires_at = clock().now() + 1h;
  outbox.enqueue(std::vector{keyed, keyed});
  outbox.enqueue(a_message());
  outbox.enqueue(std::vector<NewMessage>(3, a_message()));
  const auto held = outbox.claim(worker_a, 10s, 10);
  ASSERT_EQ(held.size(), 5u);
  EXPECT_EQ(outbox.renew(worker_a, held, 10s).size(), 5u);
  EXPECT_EQ(outbox.ack(worker_a, held[0]), 1u);
  EXPECT_EQ(outbox.abandon(worker_a, held[1], "error"), 1u);
  EXPECT_EQ(outbox.fail(worker_a, held[2], "error"), 1u);
  EXPECT_EQ(outbox.release(worker_a, held[3]), 1u);
  clock().advance(11s);
  EXPECT_EQ(outbox.reap(), 1u);
  Admin admin(outbox);
  EXPECT_EQ(admin.counts(true).all.dead, 1);
  EXPECT_EQ(admin.requeue(Filter{.state = StateFilter::dead}), 1u);
  clock().advance(2h);
  EXPECT_GE(outbox.expire(), 1u);
  EXPECT_GE(admin.discard(Filter{.state = StateFilter::dead}, {.reason = "test"}), 1u);
  EXPECT_GE(outbox.prune({.older_than = 0s}), 1u);
  EXPECT_GE(admin.list({}).entries.size(), 1u);
  NamedLeases leases(outbox);
  const auto lease = leases.try_acquire(LeaseName{"cleanup"}, worker_a, 30s);
  ASSERT_TRUE(lease);
  EXPECT_TRUE(leases.renew(*lease, 30s));
  EXPECT_TRUE(leases.holder(lease->name));
  EXPECT_TRUE(leases.release(*lease));
  EXPECT_TRUE(leases.held().empty());
  EXPECT_EQ(admin.postpone(Filter{}, 1h, {.operation_id = "op"}), 4u);
  EXPECT_TRUE(admin.operation("op"));
  EXPECT_FALSE(admin.audit().entries.empty());
  Workers workers(outbox);
  workers.heartbeat(worker_a, "host:1", "0.1.0");
  EXPECT_EQ(workers.list().size(), 1u);
  EXPECT_EQ(workers.forget(1h), 0u);
  workers.leave(worker_a);
}

TEST_P(PostgresRole, OBX_104_the_granted_rights_let_it_hold_a_key_and_let_it_go) {
  grant(BoxKind::outbox);
  Database database(address(), {}, environment());
  BoxOptions holding = without_deployment();
  holding.hold_keys = true;
  Outbox outbox(database, holding);
  NewMessage keyed = a_message("keyed");
  keyed.extras.partition_key = PartitionKey{"k"};
  outbox.enqueue(std::vector{keyed, keyed});
  Admin admin(outbox);
  EXPECT_EQ(outbox.fail(worker_a, outbox.claim(worker_a, 10s, 10), "error"), 1u);
  EXPECT_EQ(admin.requeue(Filter{.state = StateFilter::dead}), 1u);
  EXPECT_EQ(outbox.fail(worker_a, outbox.claim(worker_a, 10s, 10), "error"), 1u);
  EXPECT_EQ(admin.held_keys().size(), 1u);
  EXPECT_EQ(admin.discard(Filter{.state = StateFilter::dead}, {.reason = "test"}), 1u);
  EXPECT_EQ(outbox.ack(worker_a, outbox.claim(worker_a, 10s, 10)), 1u);
}

TEST_P(PostgresRole, OBX_105_the_granted_rights_let_it_call_the_functions) {
  grant(BoxKind::outbox);
  Database database(address(), {}, environment());
  Outbox outbox(database, without_deployment());
  database.in_transaction([&](Session& session) {
    session.execute(in_schema("select {schema}outbox_enqueue('t', 'p')"));
    NewMessage keyed = a_message();
    keyed.extras.partition_key = PartitionKey{"k"};
    outbox.enqueue(session, keyed);
    const auto held = outbox.claim(session, worker_a, 30s, 10);
    ASSERT_GE(held.size(), 1u);
    EXPECT_EQ(outbox.ack(session, worker_a, held), held.size());
    session.execute(in_schema("select {schema}outbox_reap()"));
  });
}

TEST_P(PostgresRole, a_role_that_may_only_enqueue_does_that_and_nothing_else) {
  grant_enqueue();
  Database database(address(), {}, environment());
  EXPECT_EQ(value(database, "select id from {schema}outbox_enqueue('t', 'p', 'order 1')"),
            "order 1");
  EXPECT_EQ(value(database,
                  "select id from {schema}outbox_enqueue('t', '\\x00'::bytea, 'order 2', "
                  "partition_key => 'k', headers => '{}')"),
            "order 2");
  const std::string owner = "'00000000-0000-4000-8000-00000000000a'";
  for (const std::string& sql :
       {std::string{"select * from {schema}outbox_message"},
        std::string{"select * from {schema}outbox"},
        std::string{"insert into {schema}outbox_message (id, source) values ('a', '-')"},
        std::string{"delete from {schema}outbox_work"},
        std::string{"update {schema}outbox_message set topic = 't'"},
        std::string{"select nextval(pg_get_serial_sequence('{schema}outbox_work', 'id'))"},
        "select * from {schema}outbox_claim(" + owner + ", '1 s', 1)",
        "select {schema}outbox_ack(" + owner + ", array[1])",
        "select {schema}outbox_abandon(" + owner + ", array[1])",
        "select {schema}outbox_fail(" + owner + ", array[1], 'error')",
        std::string{"select {schema}outbox_reap()"},
        std::string{"select {schema}outbox_promote_keys('{k}', '{\"\"}', '{1}')"},
        std::string{"select * from {schema}inbox_accept('s', 'e', 't', 'p')"}}) {
    expect_forbidden(database, sql);
  }
  const auto held = outbox().claim(worker_a, 30s, 10);
  ASSERT_EQ(held.size(), 2u);
  // A known id tells that it is known; the first message stays as it is.
  EXPECT_EQ(
      value(database, "select conflict::text from {schema}outbox_enqueue('other', 'x', 'order 1')"),
      "true");
  EXPECT_EQ(read("select topic from {schema}outbox_message where id = 'order 1'"), "t");
}

TEST_P(PostgresRole, a_role_that_may_only_enqueue_cannot_bring_code_of_its_own) {
  grant_enqueue();
  const std::string evil = "\"" + test_store().schema() + "_evil\"";
  write("create schema " + evil + " authorization " + quoted());
  Database database(address(), {}, environment());
  const auto run = [&](const std::string& sql) {
    database.in_transaction([&](Session& session) { session.execute(in_schema(sql)); });
  };
  // Whatever enqueue calls without a schema, and an operator, as functions of the role's own.
  run("create table " + evil + ".stolen (who text)");
  run("grant all on " + evil + ".stolen to public");
  run("grant usage on schema " + evil + " to public");
  const std::string body = " language plpgsql as $$ begin insert into " + evil +
                           ".stolen values (current_user); return ";
  run("create function " + evil + ".gen_random_uuid() returns uuid" + body +
      "pg_catalog.gen_random_uuid(); end $$");
  run("create function " + evil + ".differs(text, text) returns boolean" + body +
      "not $1 operator(pg_catalog.=) $2; end $$");
  run("create operator " + evil + ".<> (leftarg = text, rightarg = text, function = " + evil +
      ".differs)");
  run("create function " + evil + ".length(text) returns int" + body +
      "pg_catalog.length($1); end $$");
  database.in_transaction([&](Session& session) {
    session.execute("set local search_path = " + evil + ", pg_catalog");
    session.execute("create temp table outbox_message (id text) on commit drop");
    session.execute("create temp table unnest (id text) on commit drop");
    session.execute(in_schema(
        "select * from {schema}outbox_enqueue('t', '\\x00'::bytea, content_type => 'a/b')"));
    session.execute(
        in_schema("select * from {schema}outbox_enqueue('t', '\\x00'::bytea, partition_key => 'k', "
                  "headers => '{}')"));
  });
  EXPECT_EQ(read("select count(*) from " + evil + ".stolen where who <> '" +
                 [&] {
                   std::string text = quoted().substr(1, quoted().size() - 2);
                   for (std::size_t at = 0; (at = text.find("\"\"", at)) != std::string::npos; ++at)
                     text.erase(at, 1);
                   return text;
                 }() +
                 "'"),
            "0");
  EXPECT_EQ(outbox().claim(worker_a, 30s, 10).size(), 2u);
}

TEST_P(PostgresRole, grants_to_enqueue_are_those_of_an_outbox) {
  const Schema inbox_schema(database(), BoxKind::inbox, options());
  EXPECT_THROW(static_cast<void>(inbox_schema.print_enqueue_grants("app")), UsageError);
  const Schema schema(database(), BoxKind::outbox, options());
  EXPECT_THROW(static_cast<void>(schema.print_enqueue_grants("")), std::invalid_argument);
}

TEST_P(PostgresRole, OBX_104_the_inbox_needs_no_more_either) {
  REQUIREMENT("IBX-126");
  grant(BoxKind::inbox);
  Database database(address(), {}, environment());
  Inbox inbox(database, without_deployment());
  EXPECT_EQ(inbox.accept(an_arrival()).state, Acceptance::accepted);
  EXPECT_EQ(inbox.accept(an_arrival()).state, Acceptance::duplicate_open);
  EXPECT_EQ(inbox.ack(worker_a, inbox.claim(worker_a, 30s, 10)), 1u);
  EXPECT_TRUE(inbox.already_processed(a_key()));
  EXPECT_TRUE(inbox.try_claim(a_key("evt_2"), Topic{"t"}));
  EXPECT_TRUE(inbox.release_claim(a_key("evt_2")));
  EXPECT_FALSE(inbox.already_processed(a_key("evt_3")));
  EXPECT_TRUE(inbox.mark_processing(a_key("evt_3")));
  EXPECT_TRUE(inbox.mark_processed(a_key("evt_3")));
}

TEST_P(PostgresRole, OBX_104_the_granted_rights_do_not_reach_the_tables_themselves) {
  grant(BoxKind::outbox);
  Database database(address(), {}, environment());
  for (const char* sql :
       {"drop table {schema}outbox_work", "alter table {schema}outbox_work add column x int",
        "truncate {schema}outbox_message", "create table {schema}mine (x int)",
        "delete from {schema}twinbox_schema", "select * from {schema}inbox_message"}) {
    try {
      database.in_transaction([&](Session& session) { session.execute(in_schema(sql)); });
      ADD_FAILURE() << "was allowed: " << sql;
    } catch (const DatabaseError& error) {
      EXPECT_EQ(error.kind(), DatabaseError::Kind::permission) << error.what();
    }
  }
}

TEST_P(PostgresRole, OBX_091_whoever_may_not_create_schemas_deploys_into_one_that_is_there) {
  BoxOptions own = options();
  own.schema = test_store().schema() + "_own";
  Database database(address(), {}, environment());
  Schema schema(database, BoxKind::outbox, own);
  try {
    schema.deploy();
    ADD_FAILURE() << "a schema was created";
  } catch (const DatabaseError& error) {
    EXPECT_EQ(error.kind(), DatabaseError::Kind::permission) << error.what();
  }
  write("create schema \"" + own.schema + "\" authorization " + quoted());
  EXPECT_FALSE(schema.deploy().empty());
}

TEST_P(PostgresRole, OBX_104_without_rights_the_error_says_so) {
  Database database(address(), {}, environment());
  try {
    Outbox outbox(database, without_deployment());
    FAIL() << "the outbox was opened";
  } catch (const DatabaseError& error) {
    EXPECT_EQ(error.kind(), DatabaseError::Kind::permission) << error.what();
  }
}

TWINBOX_ON_BACKENDS(PostgresRole, Backend::postgres);

}  // namespace
}  // namespace twinbox::test
