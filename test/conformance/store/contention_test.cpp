// Deadlocks and busy files: tried again a bounded number of times, then told to the caller.
#include <sqlite3.h>

#include "support/outbox_test.hpp"

namespace twinbox::test {
namespace {

class SqliteContention : public OutboxTest {};

TEST_P(SqliteContention, OBX_082_a_busy_file_is_told_as_retryable_and_nothing_is_lost) {
  outbox();
  Database impatient(test_store().address(), {.wait_timeout = 0ms, .retries = 0}, environment());
  Outbox other(impatient, options());
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open(test_store().file().c_str(), &handle), SQLITE_OK);
  const std::unique_ptr<sqlite3, decltype(&sqlite3_close)> owner{handle, sqlite3_close};
  ASSERT_EQ(sqlite3_exec(handle, "begin immediate", nullptr, nullptr, nullptr), SQLITE_OK);
  try {
    other.enqueue(a_message());
    FAIL() << "a locked file was written to";
  } catch (const DatabaseError& error) {
    EXPECT_EQ(error.kind(), DatabaseError::Kind::contention) << error.what();
    EXPECT_TRUE(error.retryable());
  }
  ASSERT_EQ(sqlite3_exec(handle, "rollback", nullptr, nullptr, nullptr), SQLITE_OK);
  other.enqueue(a_message());
  EXPECT_EQ(rows("message"), 1);
}

TWINBOX_ON_BACKENDS(SqliteContention, Backend::sqlite_file);

class PostgresContention : public OutboxTest {
 protected:
  /// The next `times` inserts into the work table end as a deadlock would. A sequence counts them,
  /// since it is not rolled back.
  void fail_inserts(int times) {
    outbox();
    write("create sequence {schema}failures");
    write(
        "create function {schema}fail_some() returns trigger language plpgsql as $$ begin "
        "if nextval('{schema}failures') <= " +
        std::to_string(times) +
        " then raise exception 'made up' using errcode = 'deadlock_detected'; end if; "
        "return null; end $$");
    write(
        "create trigger fail_some after insert on {schema}outbox_work for each statement "
        "execute function {schema}fail_some()");
  }
};

TEST_P(PostgresContention, OBX_082_a_deadlock_is_tried_again_by_itself) {
  fail_inserts(3);
  outbox().enqueue(a_message());
  EXPECT_EQ(rows("message"), 1);
  const auto retries = log().events("retry");
  ASSERT_EQ(retries.size(), 3u);
  EXPECT_EQ(retries[0].field("kind"), "contention");
}

TEST_P(PostgresContention, OBX_082_a_deadlock_that_does_not_end_is_told_as_retryable) {
  fail_inserts(100);
  try {
    outbox().enqueue(a_message());
    FAIL() << "the deadlock was not told";
  } catch (const DatabaseError& error) {
    EXPECT_EQ(error.kind(), DatabaseError::Kind::contention) << error.what();
    EXPECT_TRUE(error.retryable());
  }
  EXPECT_EQ(rows("message"), 0);
  EXPECT_EQ(log().events("retry").size(), 5u);
}

TEST_P(PostgresContention, OBX_082_nothing_is_tried_again_inside_a_callers_transaction) {
  fail_inserts(1);
  EXPECT_THROW(
      database().in_transaction([&](Session& session) { outbox().enqueue(session, a_message()); }),
      DatabaseError);
  EXPECT_EQ(rows("message"), 0);
  EXPECT_TRUE(log().events("retry").empty());
}

TWINBOX_ON_BACKENDS(PostgresContention, Backend::postgres);

}  // namespace
}  // namespace twinbox::test
