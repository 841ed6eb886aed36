// OdbcSession: the outbox in a transaction on the caller's own SQLHDBC.
#include <tuple>

#include "support/null_row.hpp"
#include "support/outbox_test.hpp"
#include "support/sqlserver_handle.hpp"
#include <twinbox/session.hpp>

namespace twinbox::test {
namespace {

class OdbcNativeSession : public OutboxTest {
 protected:
  std::unique_ptr<OdbcHandle> open() {
    outbox();
    write("create table {schema}orders (name nvarchar(100))");
    return std::make_unique<OdbcHandle>(test_store().address());
  }
  std::string insert() const { return in_schema("insert into {schema}orders values ('17')"); }
  std::int64_t orders() { return count("select count(*) from {schema}orders"); }
};

TEST_P(OdbcNativeSession, OBX_003_its_commit_shows_the_message_and_is_the_callers) {
  const auto handle = open();
  OdbcSession session(handle->get());
  handle->run("begin transaction");
  EXPECT_TRUE(session.in_transaction());
  handle->run(insert());
  outbox().enqueue(session, a_message());
  EXPECT_TRUE(session.in_transaction()) << "somebody has ended the transaction";
  handle->run("commit transaction");
  EXPECT_FALSE(session.in_transaction());
  EXPECT_EQ(outbox().claim(worker_a, 30s, 10).size(), 1u);
  EXPECT_EQ(orders(), 1);
}

TEST_P(OdbcNativeSession, OBX_003_its_rollback_leaves_nothing) {
  const Message held = enqueue_and_claim(worker_a);
  const auto handle = open();
  OdbcSession session(handle->get());
  handle->run("begin transaction");
  handle->run(insert());
  outbox().enqueue(session, std::vector<NewMessage>(3, a_message()));
  EXPECT_EQ(outbox().ack(session, worker_a, held), 1u);
  handle->run("rollback transaction");
  EXPECT_EQ(rows("message"), 1);
  EXPECT_EQ(shown("Status"), "1");
  EXPECT_EQ(orders(), 0);
}

TEST_P(OdbcNativeSession, OBX_003_joins_a_transaction_that_odbc_began) {
  const auto handle = open();
  OdbcSession session(handle->get());
  handle->autocommit(false);
  EXPECT_TRUE(session.in_transaction());
  outbox().enqueue(session, a_message("kept"));
  handle->run(insert());
  handle->end(SQL_COMMIT);
  outbox().enqueue(session, a_message("undone"));
  handle->run(insert());
  handle->end(SQL_ROLLBACK);
  EXPECT_EQ(topics_of(outbox().claim(worker_a, 30s, 10)), (std::vector<std::string>{"kept"}));
  EXPECT_EQ(orders(), 1);
}

TEST_P(OdbcNativeSession, a_call_without_a_transaction_is_refused) {
  const auto handle = open();
  OdbcSession session(handle->get());
  EXPECT_FALSE(session.in_transaction());
  EXPECT_THROW(outbox().enqueue(session, a_message()), UsageError);
  EXPECT_THROW(std::ignore = outbox().claim(session, worker_a, 30s, 1), UsageError);
  EXPECT_EQ(rows("message"), 0);
  EXPECT_THROW(OdbcSession{nullptr}, UsageError);
}

TEST_P(OdbcNativeSession, an_error_in_the_middle_leaves_no_half_and_the_transaction_usable) {
  refuse_topic("boom");
  const auto handle = open();
  OdbcSession session(handle->get());
  handle->run("begin transaction");
  handle->run(insert());
  std::string words;
  try {
    outbox().enqueue(session, std::vector{a_message("a"), a_message("boom")});
    FAIL() << "it was taken";
  } catch (const DatabaseError& error) {
    words = error.what();
  }
  if (!session.in_transaction()) {
    // Babelfish rolls back all when an error is thrown on; the caller must be told.
    EXPECT_NE(words.find("keeps nothing of the transaction"), std::string::npos) << words;
    EXPECT_THROW(outbox().enqueue(session, a_message("after")), UsageError);
    EXPECT_EQ(rows("message"), 0);
    EXPECT_EQ(orders(), 0);
    return;
  }
  outbox().enqueue(session, a_message("after"));
  handle->run("commit transaction");
  EXPECT_EQ(topics_of(outbox().claim(worker_a, 30s, 10)), (std::vector<std::string>{"after"}));
  EXPECT_EQ(orders(), 1);
}

TEST_P(OdbcNativeSession, executes_statements_of_the_callers_own_and_cannot_commit) {
  const auto handle = open();
  OdbcSession session(handle->get());
  handle->run("begin transaction");
  EXPECT_THROW(session.execute("commit"), UsageError);
  EXPECT_EQ(session.execute(in_schema("insert into {schema}orders (name) values (@name)"),
                            {{"name", "18"}}),
            1u);
  std::string read;
  session.execute(in_schema("select name from {schema}orders"), {},
                  [&](const Row& row) { read = row.text(0); });
  EXPECT_EQ(read, "18");
  handle->run("commit transaction");
  EXPECT_EQ(orders(), 1);
}

TEST_P(OdbcNativeSession, one_session_serves_many_transactions) {
  const auto handle = open();
  OdbcSession session(handle->get());
  for (int i = 0; i < 3; ++i) {
    handle->run("begin transaction");
    outbox().enqueue(session, a_message());
    const auto claimed = outbox().claim(session, worker_a, 30s, 10);
    ASSERT_EQ(claimed.size(), 1u);
    EXPECT_EQ(outbox().ack(session, worker_a, claimed), 1u);
    handle->run("commit transaction");
  }
  EXPECT_EQ(rows("outcome"), 3);
}

TEST_P(OdbcNativeSession, nulls_and_missing_columns_are_those_of_every_session) {
  const auto handle = open();
  OdbcSession session(handle->get());
  handle->run("begin transaction");
  std::size_t rows = 0;
  session.execute(
      "select cast(null as bigint), cast(null as bit), cast(null as nvarchar(10)), "
      "cast(null as datetime2)",
      {}, [&](const Row& row) {
        ++rows;
        expect_nulls(row, 4);
      });
  EXPECT_EQ(rows, 1u);
  handle->run("rollback transaction");
}

TWINBOX_ON_BACKENDS(OdbcNativeSession, Backend::sqlserver);

}  // namespace
}  // namespace twinbox::test
