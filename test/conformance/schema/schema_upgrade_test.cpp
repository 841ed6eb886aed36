// From the tables of an earlier version to those of this program.
#include "support/database_shell.hpp"
#include "support/outbox_test.hpp"
#include <twinbox/health.hpp>
#include <twinbox/housekeeping.hpp>
#include <twinbox/operations.hpp>
#include <twinbox/schema.hpp>

namespace twinbox::test {
namespace {

class SchemaUpgrade : public OutboxTest {
 protected:
  BoxOptions without_deployment() {
    BoxOptions result = options();
    result.deploy_schema = false;
    return result;
  }
  Schema schema() { return {database(), BoxKind::outbox, options()}; }

  /// Literals, as each database writes them.
  [[nodiscard]] std::string instant() const {
    return on_sqlite() ? "1861920000000000" : "'2029-01-01'";
  }
  [[nodiscard]] std::string bytes() const {
    if (on_sqlserver()) return "0x7e";
    return on_postgres() ? "'\\x7e'" : "x'7e'";
  }
  [[nodiscard]] std::string owner() const {
    return on_sqlite() ? "x'00000000000040008000000000000001'"
                       : "'00000000-0000-4000-8000-000000000001'";
  }

  /// The tables as they were before the migration `first_later` was written. A migration is never
  /// edited, so the beginning of today's script is the script of that day.
  void create_before(const std::string& first_later) {
    const std::string script = schema().print();
    const std::size_t end = script.find("-- " + first_later);
    ASSERT_NE(end, std::string::npos) << first_later;
    run_by_hand(
        GetParam(), test_store(),
        script.substr(0, end) + (on_sqlserver() ? "commit transaction;\ngo\n" : "commit;\n"));
  }
};

TEST_P(SchemaUpgrade, tables_of_version_2_keep_their_messages_and_gain_named_leases) {
  create_before("0003_named_lease");
  EXPECT_EQ(schema().check().version, 2);
  EXPECT_THROW(Outbox(database(), without_deployment()), SchemaError);
  write(
      "insert into {schema}outbox_message (source, id, topic, payload, created_at, last_seen_at) "
      "values ('-', 'old', 'order.placed', " +
      bytes() + ", " + instant() + ", " + instant() + ")");
  write("insert into {schema}outbox_work (number, visible_at) values (1, " + instant() + ")");

  const auto applied = schema().deploy();
  ASSERT_FALSE(applied.empty());
  EXPECT_EQ(applied.front(), "0003_named_lease");
  EXPECT_TRUE(schema().check().current());
  Outbox outbox(database(), without_deployment());
  EXPECT_EQ(names_of(outbox.claim(worker_a, 30s, 10)), std::vector<std::string>{"old"});
  NamedLeases leases(outbox);
  EXPECT_TRUE(leases.try_acquire(LeaseName{"cleanup"}, worker_a, 30s));
  EXPECT_TRUE(schema().deploy().empty());
  EXPECT_TRUE(leases.holder(LeaseName{"cleanup"}));
}

TEST_P(SchemaUpgrade, tables_of_version_3_keep_their_audit_and_gain_operations_and_workers) {
  create_before("0004_operation");
  EXPECT_EQ(schema().check().version, 3);
  for (const char* reason : {"first", "second"}) {
    write(
        "insert into {schema}outbox_audit (done_at, number, affected, content_version, action, "
        "actor, "
        "reason, headers, payload) values (" +
        instant() + ", 7, 1, 3, 'edit', 'mia', '" + reason + "', '{}', " + bytes() + ")");
  }
  write("delete from {schema}outbox_audit where reason = 'second'");

  const auto applied = schema().deploy();
  ASSERT_FALSE(applied.empty());
  EXPECT_EQ(applied.front(), "0004_operation");
  Outbox outbox(database(), without_deployment());
  Admin admin(outbox);
  const AuditPage page = admin.audit();
  ASSERT_EQ(page.entries.size(), 1u);
  EXPECT_EQ(page.entries[0].action, "edit");
  EXPECT_EQ(page.entries[0].reason, "first");
  EXPECT_EQ(page.entries[0].number, 7);
  EXPECT_TRUE(page.entries[0].finished);
  EXPECT_EQ(page.entries[0].started_at, page.entries[0].at);
  EXPECT_EQ(page.entries[0].at, Instant{std::chrono::sys_days{std::chrono::January / 1 / 2029}});
  EXPECT_EQ(count("select count(*) from {schema}outbox_audit where headers = '{}' and payload = " +
                  bytes()),
            1);
  EXPECT_EQ(admin.requeue(Filter{}, {}, {.operation_id = "op"}), 0u);
  EXPECT_TRUE(admin.operation("op"));
  Workers workers(outbox);
  workers.heartbeat(worker_a, "host:1", "0.1.0");
  EXPECT_EQ(workers.list().size(), 1u);
  EXPECT_TRUE(schema().deploy().empty());
}

TEST_P(SchemaUpgrade, workers_of_version_4_have_done_nothing_that_is_known) {
  create_before("0005_worker_count");
  EXPECT_EQ(schema().check().version, 4);
  write(
      "insert into {schema}outbox_worker (owner, name, version, started_at, seen_at) "
      "values (" +
      owner() + ", 'old:1', '0.1.0', " + instant() + ", " + instant() + ")");
  ASSERT_FALSE(schema().deploy().empty());
  Outbox outbox(database(), without_deployment());
  const std::vector<Worker> all = Workers{outbox}.list();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].name, "old:1");
  EXPECT_EQ(all[0].done, 0);
  EXPECT_EQ(all[0].failed, 0);
}

TEST_P(SchemaUpgrade, keys_of_version_5_go_on_and_can_be_held_from_then_on) {
  create_before("0006_hold");
  EXPECT_EQ(schema().check().version, 5);
  for (const std::string id : {"first", "second", "third"}) {
    const std::string number = id == "first" ? "1" : id == "second" ? "2" : "3";
    write(
        "insert into {schema}outbox_message (source, id, topic, payload, partition_key, "
        "created_at, last_seen_at) values ('-', '" +
        id + "', 'order.placed', " + bytes() + ", 'k', " + instant() + ", " + instant() + ")");
    write("insert into {schema}outbox_work (number, visible_at, partition_key, waiting) values (" +
          number + ", " + instant() + ", 'k', " +
          (on_postgres() ? (id == "first" ? "false" : "true") : (id == "first" ? "0" : "1")) + ")");
  }
  if (on_postgres()) {
    // As they were: one argument less than today's.
    write(
        "create function {schema}outbox_fail(owner uuid, ids bigint[], error text, "
        "reason text default 'failed', epochs int[] default null) returns bigint "
        "language sql as 'select 0::bigint'");
    write(
        "create function {schema}outbox_fail_batch(owner uuid, ids bigint[], epochs int[], "
        "errors text[], reason text, counts boolean, at timestamptz default null) returns bigint "
        "language sql as 'select 0::bigint'");
  }
  const auto applied = schema().deploy();
  ASSERT_FALSE(applied.empty());
  EXPECT_EQ(applied.front(), "0006_hold");
  EXPECT_TRUE(schema().check().current());
  BoxOptions holding = without_deployment();
  holding.hold_keys = true;
  Outbox outbox(database(), holding);
  const auto end = [&](const std::string& id, auto settle) {
    const auto messages = outbox.claim(worker_a, 30s, 10);
    ASSERT_EQ(names_of(messages), std::vector<std::string>{id});
    EXPECT_EQ(settle(messages), 1u);
  };
  end("first", [&](const auto& messages) { return outbox.ack(worker_a, messages); });
  end("second", [&](const auto& messages) { return outbox.fail(worker_a, messages, "boom"); });
  EXPECT_TRUE(outbox.claim(worker_a, 30s, 10).empty());
  EXPECT_EQ(Admin(outbox).discard(Filter{.state = StateFilter::dead}, {.reason = "test"}), 1u);
  end("third", [&](const auto& messages) { return outbox.ack(worker_a, messages); });
  if (on_postgres()) {
    EXPECT_EQ(count("select {schema}outbox_fail('00000000-0000-4000-8000-00000000000a', "
                    "array[1]::bigint[], 'boom')"),
              0)
        << "there is one function of the name";
  }
  EXPECT_TRUE(schema().deploy().empty());
}

TWINBOX_ON_BACKENDS(SchemaUpgrade, Backend::sqlite_file, Backend::postgres, Backend::sqlserver);

}  // namespace
}  // namespace twinbox::test
