// A row that somebody's open transaction holds: a call of our own waits for it as long as
// wait_timeout, and keeps nobody else from being answered.
#include "support/inbox_test.hpp"
#include "support/postgres.hpp"

namespace twinbox::test {
namespace {

using Kind = DatabaseError::Kind;

class PostgresLockLimit : public InboxTest {
 protected:
  PostgresLockLimit() : holder_(test_store().address()), watcher_(test_store().address()) {
    inbox();
    outbox();
  }

  template <class F>
  void expect_locked(F body) {
    try {
      body();
      ADD_FAILURE() << "did not meet the lock";
    } catch (const DatabaseError& error) {
      EXPECT_EQ(error.kind(), Kind::contention) << error.what();
      EXPECT_NE(std::string_view{error.what()}.find("wait_timeout"), std::string_view::npos)
          << error.what();
    }
  }

  PgClient holder_;
  PgClient watcher_;
  Database impatient_{test_store().address(), {.wait_timeout = 300ms}, environment()};
};

TEST_P(PostgresLockLimit, a_standalone_accept_inside_the_transaction_it_waits_for_is_an_error) {
  inbox();
  Inbox inbox(impatient_, options());
  database().in_transaction([&](Session& session) {
    this->inbox().accept(session, an_arrival());
    // By another pool: on the same one it would be refused at once.
    expect_locked([&] { inbox.accept(an_arrival()); });
  });
  EXPECT_TRUE(log().events("retry").empty()) << "would have waited once more";
  EXPECT_EQ(inbox.accept(an_arrival()).state, Acceptance::duplicate_open);
}

TEST_P(PostgresLockLimit, a_pooled_connection_waits_no_longer_either) {
  Database pooled(
      with_setting(test_setting("TWINBOX_TEST_PGBOUNCER"), "twinbox_pooler=transaction"),
      {.wait_timeout = 300ms}, environment());
  Inbox inbox(pooled, options());
  holder_.begin();
  inbox.accept(holder_.session(), an_arrival());
  expect_locked([&] { inbox.accept(an_arrival()); });
  holder_.rollback();
  EXPECT_EQ(inbox.accept(an_arrival()).state, Acceptance::accepted);
}

TEST_P(PostgresLockLimit, a_locked_message_fails_its_own_callers_and_no_other) {
  Inbox inbox(impatient_, options());
  holder_.begin();
  inbox.accept(holder_.session(), an_arrival("held"));
  Call first([&] { return expect_locked([&] { inbox.accept(an_arrival("held")); }), true; });
  ASSERT_TRUE(waits_for(first, holder_, watcher_));
  // They queue up behind the first one, and share a batch.
  race(12, [&](int caller) {
    if (caller == 5) return expect_locked([&] { inbox.accept(an_arrival("held")); });
    EXPECT_EQ(inbox.accept(an_arrival(std::to_string(caller))).state, Acceptance::accepted);
  });
  first.get();
  holder_.rollback();
  EXPECT_EQ(count_messages(), "11");
}

TEST_P(PostgresLockLimit, a_callers_own_statements_wait_as_the_server_says) {
  impatient_.in_transaction([&](Session& session) {
    std::string limit;
    session.execute("show lock_timeout", {}, [&](const Row& row) { limit = row.text(0); });
    EXPECT_EQ(limit, "0");
  });
}

TWINBOX_ON_BACKENDS(PostgresLockLimit, Backend::postgres);

}  // namespace
}  // namespace twinbox::test
