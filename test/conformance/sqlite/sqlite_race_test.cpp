// A call in a caller's own SQLite transaction is done as a whole or not at all.
#include <memory>
#include <tuple>

#include <sqlite3.h>

#include "support/backend.hpp"
#include <twinbox/session.hpp>

namespace twinbox::test {
namespace {

class SqliteRace : public BoxTest {
 protected:
  SqliteRace() : connection_(nullptr, &sqlite3_close) {
    outbox();
    inbox();
    sqlite3* raw = nullptr;
    EXPECT_EQ(sqlite3_open(test_store().file().c_str(), &raw), SQLITE_OK);
    connection_.reset(raw);
    run("create table orders (number integer)");
  }

  void run(const std::string& sql) {
    char* words = nullptr;
    EXPECT_EQ(sqlite3_exec(connection_.get(), sql.c_str(), nullptr, nullptr, &words), SQLITE_OK)
        << words;
    sqlite3_free(words);
  }

  /// Makes every delivery of messages with a partition key impossible to write.
  void refuse_keyed_work(const std::string& box) {
    run("create trigger refuse before insert on " + box +
        "_work when new.partition_key is not null begin select raise(abort, 'refused'); end");
  }
  void refuse_work(const std::string& box) {
    run("create trigger refuse before insert on " + box +
        "_work begin select raise(abort, 'refused'); end");
  }

  std::string rows(const std::string& table) { return read("select count(*) from " + table); }

  sqlite3* connection() { return connection_.get(); }

 private:
  std::unique_ptr<sqlite3, decltype(&sqlite3_close)> connection_;
};

TEST_P(SqliteRace, a_call_that_fails_half_way_leaves_no_half) {
  refuse_work("outbox");
  SqliteSession session(connection());
  run("begin immediate; insert into orders values (1)");
  EXPECT_THROW(outbox().enqueue(session, a_message()), DatabaseError);
  EXPECT_TRUE(session.in_transaction());
  run("commit");
  EXPECT_EQ(rows("outbox_message"), "0");
  EXPECT_EQ(rows("orders"), "1");
}

TEST_P(SqliteRace, a_settle_that_fails_half_way_settles_none) {
  outbox().enqueue(std::vector<NewMessage>{a_message(), a_message()});
  const auto held = outbox().claim(worker_a, 30s, 10);
  run("create trigger refuse before delete on outbox_work when old.id = " +
      std::to_string(held.back().delivery_id.number()) +
      " begin select raise(abort, 'refused'); end");
  SqliteSession session(connection());
  run("begin immediate");
  EXPECT_THROW(outbox().ack(session, worker_a, held), DatabaseError);
  run("commit");
  EXPECT_EQ(rows("outbox_outcome"), "0");
  EXPECT_EQ(rows("outbox_work"), "2");
}

TEST_P(SqliteRace, a_batch_that_fails_at_its_last_message_leaves_none_of_the_others) {
  refuse_keyed_work("outbox");
  NewMessage keyed = a_message();
  keyed.extras.partition_key = PartitionKey{"customer 1"};
  SqliteSession session(connection());
  run("begin immediate; insert into orders values (1)");
  EXPECT_THROW(outbox().enqueue(session, std::vector<NewMessage>{a_message(), keyed}),
               DatabaseError);
  run("commit");
  EXPECT_EQ(rows("outbox_message"), "0");
  EXPECT_EQ(rows("outbox_work"), "0");
  EXPECT_EQ(rows("orders"), "1");
}

TEST_P(SqliteRace, an_accept_whose_claim_fails_leaves_no_message) {
  run("create trigger refuse before update on inbox_work begin select raise(abort, 'no'); end");
  SqliteSession session(connection());
  run("begin immediate");
  EXPECT_THROW(std::ignore = inbox().accept_and_claim(session, an_arrival(), worker_a, 30s),
               DatabaseError);
  run("commit");
  EXPECT_EQ(rows("inbox_message"), "0");
}

TEST_P(SqliteRace, a_session_without_a_transaction_is_refused) {
  SqliteSession session(connection());
  EXPECT_THROW(outbox().enqueue(session, a_message()), UsageError);
  EXPECT_EQ(rows("outbox_message"), "0");
}

TEST_P(SqliteRace, an_enqueue_of_our_own_waits_for_the_callers_transaction) {
  DatabaseOptions impatient;
  impatient.wait_timeout = std::chrono::milliseconds{0};
  Database other(test_store().address(), impatient, environment());
  Outbox elsewhere(other, options());
  run("begin immediate");
  try {
    elsewhere.enqueue(a_message());
    ADD_FAILURE() << "the file was not busy";
  } catch (const DatabaseError& error) {
    EXPECT_EQ(error.kind(), DatabaseError::Kind::contention);
    EXPECT_NE(std::string_view{error.what()}.find("wait_timeout"), std::string_view::npos);
  }
  run("commit");
  elsewhere.enqueue(a_message());
  EXPECT_EQ(outbox().claim(worker_a, 30s, 10).size(), 1u);
}

TWINBOX_ON_BACKENDS(SqliteRace, Backend::sqlite_file);

}  // namespace
}  // namespace twinbox::test
