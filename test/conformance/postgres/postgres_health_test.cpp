// What monitoring costs a server, and whom it stops: nobody.
#include "support/backend.hpp"
#include "support/postgres.hpp"
#include "support/postgres_plan.hpp"
#include "support/postgres_wire.hpp"
#include <twinbox/health.hpp>
#include <twinbox/operations.hpp>

namespace twinbox::test {
namespace {

class PostgresHealth : public BoxTest {
 protected:
  PostgresHealth() : admin_(test_store().address()) {}

  void run(std::string sql) {
    for (std::size_t at = sql.find("{box}"); at != std::string::npos; at = sql.find("{box}")) {
      sql.replace(at, 5, "\"" + test_store().schema() + "\".outbox");
    }
    admin_.run(sql);
  }
  /// Finished, dead, due, scheduled, and behind the head of one key: `count` of each.
  void fill(const std::string& count) {
    run("insert into {box}_message (source, id, topic, payload, created_at, last_seen_at, "
        "content_version) select '-', gen_random_uuid()::text, 'order.placed', '~payload~', "
        "timestamptz '2029-01-01' + i * interval '1 ms', timestamptz '2029-01-01', 1 "
        "from generate_series(1, 5 * " +
        count + ") i");
    run("insert into {box}_outcome (number, finished_at, state) "
        "select number, created_at, case when number <= " +
        count + " then 1 else 2 end from {box}_message where number <= 2 * " + count);
    run("insert into {box}_work (number, visible_at, partition_key, waiting) "
        "select number, case when number <= 4 * " +
        count + " and number > 3 * " + count +
        " then timestamptz '2040-01-01' else created_at end, "
        "case when number > 4 * " +
        count + " then 'k' end, number > 4 * " + count +
        " + 1 from {box}_message where number > 2 * " + count);
  }

  PgClient admin_;
};

TEST_P(PostgresHealth, EVB_34_a_probe_reads_a_bounded_piece_of_each_index_whatever_the_backlog) {
  DatabaseOptions one;
  one.pool_size = 1;
  Database database(explained(test_store().address()), one, environment());
  Outbox box(database, options());
  std::vector<std::string> empty_nodes;
  for (int round = 0; round < 8; ++round) {
    const auto plans = plans_of("behind", [&] { static_cast<void>(check_health(box)); });
    ASSERT_EQ(plans.size(), 1u);
    empty_nodes = plans[0].nodes;
  }
  fill("30000");
  Health found{};
  const auto plans = plans_of("behind", [&] { found = check_health(box); });
  ASSERT_EQ(plans.size(), 1u);
  EXPECT_EQ(found.state, HealthState::unhealthy);
  EXPECT_EQ(found.pending, 1001);
  EXPECT_EQ(found.dead, 11);
  EXPECT_EQ(plans[0].nodes, empty_nodes) << plans[0].text;
  for (const std::string& node : plans[0].nodes) {
    EXPECT_EQ(node.find("Seq Scan"), std::string::npos) << plans[0].text;
    EXPECT_EQ(node.find("Sort"), std::string::npos) << plans[0].text;
  }
  EXPECT_LE(plans[0].most_rows, 10'010) << plans[0].text;
}

TEST_P(PostgresHealth, EVB_34_statistics_wait_for_no_lock_and_hold_none_that_a_worker_needs) {
  for (int i = 0; i < 10; ++i) outbox().enqueue(a_message());
  PgClient holder(test_store().address());
  holder.begin();
  holder.run("select 1 from \"" + test_store().schema() + "\".outbox_work for update");
  holder.run("select 1 from \"" + test_store().schema() + "\".outbox_message for update");
  DatabaseOptions impatient;
  impatient.wait_timeout = 1s;
  Database monitor_database(test_store().address(), impatient, environment());
  Outbox monitor(monitor_database, options());
  EXPECT_EQ(Admin{monitor}.counts(true).all.ready, 10);
  EXPECT_EQ(check_health(monitor).pending, 10);
  EXPECT_EQ(Admin{monitor}.list({}).entries.size(), 10u);
  holder.rollback();

  PgClient reader(test_store().address());
  reader.run("begin isolation level repeatable read");
  EXPECT_EQ(reader.value("select count(*) from \"" + test_store().schema() + "\".outbox"), "10");
  const auto held = outbox().claim(worker_a, 30s, 10);
  EXPECT_EQ(outbox().ack(worker_a, held), 10u);
  EXPECT_EQ(reader.value("select count(*) from \"" + test_store().schema() +
                         "\".outbox where IsProcessed"),
            "0");
  EXPECT_EQ(reader.value("select string_agg(distinct mode, ',') from pg_locks "
                         "where pid = pg_backend_pid() and relation is not null"),
            "AccessShareLock");
  reader.commit();
}

TEST_P(PostgresHealth, EVB_19_a_server_that_cannot_be_reached_is_unhealthy_and_nothing_is_thrown) {
  outbox();
  auto wire = std::make_unique<PostgresWire>(test_store().address());
  DatabaseOptions one;
  one.name = "far away";
  one.pool_size = 1;
  one.retries = 0;
  Database database(wire->address(), one, environment());
  Outbox far(database, options());
  EXPECT_EQ(check_health(far).state, HealthState::healthy);
  wire.reset();
  const Health health = check_health(far);
  EXPECT_EQ(health.state, HealthState::unhealthy);
  ASSERT_EQ(health.reasons.size(), 1u);
  EXPECT_EQ(health.reasons[0].find("store far away cannot be queried: "), 0u) << health.reasons[0];
}

TWINBOX_ON_BACKENDS(PostgresHealth, Backend::postgres);

}  // namespace
}  // namespace twinbox::test
