// What only a server can have wrong.
#include "support/backend.hpp"
#include "support/postgres.hpp"
#include "support/postgres_pair.hpp"
#include <twinbox/health.hpp>

namespace twinbox::test {
namespace {

using Level = Finding::Level;

class PostgresDoctor : public BoxTest {
 protected:
  static std::vector<Finding> all(const std::vector<Finding>& findings, std::string_view check) {
    std::vector<Finding> found;
    for (const Finding& one : findings) {
      if (one.check == check) found.push_back(one);
    }
    return found;
  }
  static bool any(const std::vector<Finding>& findings, std::string_view text) {
    for (const Finding& one : findings) {
      if (one.found.find(text) != std::string::npos) return true;
    }
    return false;
  }
};

TEST_P(PostgresDoctor, names_who_holds_back_vacuum_and_how_to_end_it) {
  PgClient holder(test_store().address());
  holder.run("begin isolation level repeatable read");
  const std::string pid = holder.value("select pg_backend_pid()");
  DoctorLimits strict;
  strict.held = 0us;
  bool named = false;
  for (const Finding& one : all(examine_database(database(), strict), "vacuum")) {
    named = named || one.fix.find("select pg_terminate_backend(" + pid + ");") != std::string::npos;
  }
  EXPECT_TRUE(named);
  EXPECT_FALSE(any(examine_database(database()), "process " + pid)) << "it is too young to matter";
  holder.rollback();
  EXPECT_FALSE(any(examine_database(database(), strict), "process " + pid));
}

TEST_P(PostgresDoctor, tells_unsafe_commits_of_the_connection_and_of_the_server) {
  EXPECT_FALSE(any(examine_database(database()), "synchronous_commit is off"));
  const std::string separator = test_store().address().find('?') == std::string::npos ? "?" : "&";
  Database hasty(test_store().address() + separator + "options=-c%20synchronous_commit%3Doff", {},
                 environment());
  EXPECT_TRUE(any(examine_database(hasty), "synchronous_commit is off"));
  hasty.in_transaction([&](Session& session) {
    EXPECT_TRUE(any(examine_session(session), "synchronous_commit is off"));
  });
  EXPECT_EQ(any(examine_database(database()), "fsync is off"), read("show fsync") == "off");
}

TEST_P(PostgresDoctor, says_that_a_primary_takes_no_writes) {
  EXPECT_TRUE(all(examine_database(database()), "role").empty());
  const std::string separator = test_store().address().find('?') == std::string::npos ? "?" : "&";
  Database reading(
      test_store().address() + separator + "options=-c%20default_transaction_read_only%3Don", {},
      environment());
  const auto found = all(examine_database(reading), "role");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].level, Level::error);
  EXPECT_TRUE(any(found, "read-only"));
}

TEST_P(PostgresDoctor, says_that_a_server_is_a_standby) {
  const PostgresPair pair;
  Database primary(pair.primary(), {}, environment());
  EXPECT_TRUE(all(examine_database(primary), "role").empty());
  Database standby(pair.standby(), {}, environment());
  const auto found = all(examine_database(standby), "role");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].level, Level::error);
  EXPECT_TRUE(any(found, "standby"));
}

TEST_P(PostgresDoctor, finds_a_work_table_that_is_not_vacuumed) {
  outbox();
  BoxOptions looked_at = options();
  EXPECT_TRUE(all(examine_box(database(), BoxKind::outbox, looked_at), "vacuum").empty());
  write("alter table {schema}outbox_work set (autovacuum_enabled = false)");
  const auto findings = all(examine_box(database(), BoxKind::outbox, looked_at), "vacuum");
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].level, Level::error);
  write(findings[0].fix.substr(0, findings[0].fix.size() - 1));
  EXPECT_TRUE(all(examine_box(database(), BoxKind::outbox, looked_at), "vacuum").empty());
}

TEST_P(PostgresDoctor, finds_functions_that_are_not_this_programs) {
  outbox();
  write("update {schema}twinbox_schema set hash = 'other' where name = 'function/work'");
  const auto findings = all(examine_box(database(), BoxKind::outbox, options()), "schema");
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].level, Level::warning);
  EXPECT_EQ(findings[0].found, "different from this program's version: function/work");
}

TEST_P(PostgresDoctor, compares_its_clock_with_the_servers) {
  EXPECT_EQ(all(examine_database(database()), "clock").at(0).level, Level::ok);
  DoctorLimits strict;
  strict.clock_skew = -1us;
  EXPECT_EQ(all(examine_database(database(), strict), "clock").at(0).level, Level::warning);
}

TEST_P(PostgresDoctor, finds_a_server_that_cannot_be_reached) {
  DatabaseOptions impatient;
  impatient.retries = 0;
  Database nobody("postgresql://nobody@127.0.0.1:1/nothing", impatient, environment());
  const auto findings = examine_database(nobody);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].check, "reach");
  EXPECT_EQ(findings[0].level, Level::error);
  EXPECT_EQ(findings[0].fix, "check the address, and whether the database runs");
}

/// Logical replication copies rows, not sequences: so they are set back after the writes.
class PostgresSequences : public PostgresDoctor {
 protected:
  void set_back(const std::string& table, const std::string& column) {
    write("select setval(pg_get_serial_sequence('" + in_schema("{schema}" + table) + "', '" +
          column + "'), 1, false)");
  }
  std::vector<Finding> findings() {
    return all(examine_box(database(), BoxKind::outbox, options()), "sequence");
  }
  std::vector<RepairedSequence> repair() {
    return Schema{database(), BoxKind::outbox, options()}.repair();
  }
  void enqueue(const std::string& payload) {
    outbox().enqueue({.topic = Topic{"t"},
                      .payload = payload,
                      .extras = {.partition_key = PartitionKey{"one"}}});
  }
};

TEST_P(PostgresSequences, that_lie_behind_the_data_are_found_and_repaired) {
  enqueue("first");
  enqueue("second");
  EXPECT_TRUE(findings().empty());
  set_back("outbox_message", "number");
  set_back("outbox_work", "id");
  EXPECT_THROW(enqueue("lost"), DatabaseError);
  set_back("outbox_message", "number");
  ASSERT_EQ(findings().size(), 2u);
  EXPECT_EQ(findings()[0].level, Level::error);
  EXPECT_EQ(findings()[0].fix, "twinbox schema repair");
  EXPECT_NE(findings()[0].found.find("outbox_message\".number has reached 0, but numbers up to 2"),
            std::string::npos)
      << findings()[0].found;

  EXPECT_EQ(repair().size(), 2u);
  EXPECT_TRUE(findings().empty());
  EXPECT_TRUE(repair().empty());
  enqueue("third");
  for (const char* expected : {"first", "second", "third"}) {
    const auto claimed = outbox().claim(worker_a, 30s, 10);
    ASSERT_EQ(claimed.size(), 1u);
    EXPECT_EQ(claimed[0].payload, expected);
    outbox().ack(worker_a, claimed);
  }
}

TEST_P(PostgresSequences, of_deliveries_alone_are_found_before_new_messages_overtake_old_ones) {
  for (const char* payload : {"done", "done", "open"}) enqueue(payload);
  for (int i = 0; i < 2; ++i) outbox().ack(worker_a, outbox().claim(worker_a, 30s, 1));
  set_back("outbox_work", "id");
  ASSERT_EQ(findings().size(), 1u);
  EXPECT_NE(findings()[0].found.find("outbox_work\".id"), std::string::npos);
  repair();
  enqueue("behind");
  EXPECT_EQ(outbox().claim(worker_a, 30s, 10).at(0).payload, "open");
}

TEST_P(PostgresSequences, of_finished_deliveries_count_too_because_an_id_is_never_used_twice) {
  enqueue("done");
  const auto claimed = outbox().claim(worker_a, 30s, 1);
  ASSERT_EQ(outbox().ack(worker_a, claimed), 1u);
  set_back("outbox_work", "id");
  ASSERT_EQ(findings().size(), 1u);
  repair();
  enqueue("next");
  EXPECT_GT(outbox().claim(worker_a, 30s, 1).at(0).delivery_id, claimed[0].delivery_id);
}

TEST_P(PostgresSequences, of_an_old_message_that_was_sent_again_are_found_behind_newer_outcomes) {
  enqueue("old");
  outbox().ack(worker_a, outbox().claim(worker_a, 30s, 1));
  write("select setval(pg_get_serial_sequence('" + in_schema("{schema}outbox_message") +
        "', 'number'), 1002)");
  write(
      "insert into {schema}outbox_outcome (number, delivery_id, finished_at, state) "
      "select n, n, now(), 1 from generate_series(2, 1002) n");
  write("update {schema}outbox_outcome set delivery_id = 1003 where number = 1");
  write("select setval(pg_get_serial_sequence('" + in_schema("{schema}outbox_work") +
        "', 'id'), 1002)");
  ASSERT_EQ(findings().size(), 1u);
  EXPECT_NE(findings()[0].found.find("numbers up to 1003"), std::string::npos)
      << findings()[0].found;
  EXPECT_EQ(repair().size(), 1u);
  EXPECT_TRUE(findings().empty());
}

TEST_P(PostgresSequences, are_looked_at_by_a_role_with_the_granted_rights_and_no_others) {
  enqueue("first");
  set_back("outbox_work", "id");
  const std::string role = test_store().schema() + "_app";
  PgClient client(test_store().address());
  client.run("create role " + role + " login");
  client.run(Schema(database(), BoxKind::outbox, options()).print_grants(role));
  std::string address = test_store().address();
  const std::size_t begin = address.find("://") + 3;
  address.replace(begin, address.find('@') - begin, role);
  {
    Database granted(address, {}, environment());
    const auto looked_at = all(examine_box(granted, BoxKind::outbox, options()), "sequence");
    ASSERT_EQ(looked_at.size(), 1u);
    EXPECT_EQ(looked_at[0].level, Level::error);
    EXPECT_NE(looked_at[0].found.find("outbox_work\".id has reached 0"), std::string::npos)
        << looked_at[0].found;
    client.run("revoke select on all sequences in schema " + test_store().schema() + " from " +
               role);
    const auto hidden = all(examine_box(granted, BoxKind::outbox, options()), "sequence");
    ASSERT_EQ(hidden.size(), 1u);
    EXPECT_EQ(hidden[0].level, Level::warning);
    EXPECT_NE(hidden[0].found.find("outbox_work\".id"), std::string::npos) << hidden[0].found;
    EXPECT_NE(hidden[0].fix.find("schema print --grants"), std::string::npos);
  }
  client.run("drop owned by " + role);
  client.run("drop role " + role);
}

TEST_P(PostgresSequences, that_are_ahead_stay_where_they_are) {
  enqueue("first");
  write("select setval(pg_get_serial_sequence('" + in_schema("{schema}outbox_message") +
        "', 'number'), 1000)");
  EXPECT_TRUE(findings().empty());
  EXPECT_TRUE(repair().empty());
  enqueue("second");
  EXPECT_EQ(read("select max(number) from {schema}outbox_message"), "1001");
}

TWINBOX_ON_BACKENDS(PostgresSequences, Backend::postgres);

TWINBOX_ON_BACKENDS(PostgresDoctor, Backend::postgres);

}  // namespace
}  // namespace twinbox::test
