// Named leases on a server: two at once held still, and behind a pooler.
#include "support/backend.hpp"
#include "support/postgres.hpp"
#include <twinbox/housekeeping.hpp>

namespace twinbox::test {
namespace {

class PostgresNamedLease : public BoxTest {
 protected:
  /// In a transaction of its own, which is left open, worker A takes the name.
  void take(PgClient& client) {
    client.begin();
    client.run("insert into \"" + test_store().schema() + "\".outbox_named_lease as l " +
               "values ('cleanup', '" + worker_a.str() + "', 1, '2040-01-01') " +
               "on conflict (name) do update set owner = excluded.owner, epoch = l.epoch + 1, " +
               "lease_until = excluded.lease_until");
  }
  std::optional<NamedLease> answer_of_the_second(bool row_exists, bool first_commits) {
    NamedLeases leases{outbox()};
    if (row_exists) leases.release(leases.try_acquire(name, worker_a, 30s).value());
    PgClient first(test_store().address());
    PgClient watcher(test_store().address());
    take(first);
    Call second([&] { return leases.try_acquire(name, worker_b, 30s); });
    EXPECT_TRUE(waits_for(second, first, watcher));
    first_commits ? first.commit() : first.rollback();
    return second.get();
  }

  const LeaseName name{"cleanup"};
};

TEST_P(PostgresNamedLease, the_second_of_two_at_once_sees_what_the_first_wrote) {
  EXPECT_EQ(answer_of_the_second(false, true), std::nullopt);
  EXPECT_EQ(NamedLeases{outbox()}.holder(name)->lease, (NamedLease{name, worker_a, 1}));
}

TEST_P(PostgresNamedLease, the_second_of_two_at_once_has_it_when_the_first_rolls_back) {
  EXPECT_EQ(answer_of_the_second(false, false), (NamedLease{name, worker_b, 1}));
}

TEST_P(PostgresNamedLease, the_second_of_two_that_want_a_free_row_sees_what_the_first_wrote) {
  EXPECT_EQ(answer_of_the_second(true, true), std::nullopt);
  EXPECT_EQ(NamedLeases{outbox()}.holder(name)->lease, (NamedLease{name, worker_a, 2}));
}

TEST_P(PostgresNamedLease, the_second_of_two_that_want_a_free_row_has_it_after_a_rollback) {
  EXPECT_EQ(answer_of_the_second(true, false), (NamedLease{name, worker_b, 2}));
}

TEST_P(PostgresNamedLease, a_renewal_that_waited_for_the_next_holder_renews_nothing) {
  NamedLeases leases{outbox()};
  const NamedLease held = leases.try_acquire(name, worker_b, 30s).value();
  PgClient first(test_store().address());
  PgClient watcher(test_store().address());
  take(first);
  Call renewal([&] { return leases.renew(held, 30s); });
  EXPECT_TRUE(waits_for(renewal, first, watcher));
  first.commit();
  EXPECT_FALSE(renewal.get());
  EXPECT_FALSE(leases.release(held));
}

TEST_P(PostgresNamedLease, PHD_15_holds_behind_a_pooler_that_changes_connections) {
  outbox();
  const std::string pooled =
      with_setting(test_setting("TWINBOX_TEST_PGBOUNCER"), "twinbox_pooler=transaction");
  Database first_database(pooled, {}, environment());
  Database second_database(pooled, {}, environment());
  Outbox first(first_database, options());
  Outbox second(second_database, options());
  const auto held = NamedLeases{first}.try_acquire(name, worker_a, 30s);
  ASSERT_TRUE(held);
  EXPECT_FALSE(NamedLeases{second}.try_acquire(name, worker_b, 30s));
  EXPECT_TRUE(NamedLeases{first}.renew(*held, 30s));
  EXPECT_TRUE(NamedLeases{first}.release(*held));
  EXPECT_EQ(NamedLeases{second}.try_acquire(name, worker_b, 30s).value().epoch, 2);
}

TWINBOX_ON_BACKENDS(PostgresNamedLease, Backend::postgres);

}  // namespace
}  // namespace twinbox::test
