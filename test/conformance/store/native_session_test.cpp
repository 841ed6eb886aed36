// Sessions on connections of the caller's own: sqlite3*, PGconn* and libpqxx.
#include <tuple>

#include <libpq-fe.h>
#include <sqlite3.h>

#include "support/null_row.hpp"
#include "support/outbox_test.hpp"
#include <twinbox/pqxx.hpp>
#include <twinbox/session.hpp>

namespace twinbox::test {
namespace {

using SqliteHandle = std::unique_ptr<sqlite3, decltype(&sqlite3_close)>;

class SqliteNativeSession : public OutboxTest {
 protected:
  SqliteHandle open() { return open(test_store().file()); }
  SqliteHandle open(const std::string& file) {
    outbox();
    sqlite3* handle = nullptr;
    EXPECT_EQ(sqlite3_open(file.c_str(), &handle), SQLITE_OK);
    return {handle, sqlite3_close};
  }
  static void run(const SqliteHandle& handle, const char* sql) {
    char* message = nullptr;
    EXPECT_EQ(sqlite3_exec(handle.get(), sql, nullptr, nullptr, &message), SQLITE_OK)
        << sql << ": " << (message != nullptr ? message : "");
    sqlite3_free(message);
  }
};

TEST_P(SqliteNativeSession, OBX_003_its_commit_shows_the_message_and_is_the_callers) {
  const SqliteHandle handle = open();
  SqliteSession session(handle.get());
  run(handle, "begin immediate");
  outbox().enqueue(session, a_message());
  EXPECT_EQ(sqlite3_get_autocommit(handle.get()), 0) << "somebody has ended the transaction";
  run(handle, "create table orders (name text)");
  run(handle, "commit");
  EXPECT_EQ(outbox().claim(worker_a, 30s, 10).size(), 1u);
  EXPECT_EQ(count("select count(*) from orders"), 0);
}

TEST_P(SqliteNativeSession, OBX_003_its_rollback_leaves_nothing) {
  const Message held = enqueue_and_claim(worker_a);
  const SqliteHandle handle = open();
  SqliteSession session(handle.get());
  run(handle, "begin immediate");
  outbox().enqueue(session, std::vector<NewMessage>(3, a_message()));
  EXPECT_EQ(outbox().ack(session, worker_a, held), 1u);
  run(handle, "rollback");
  EXPECT_EQ(rows("message"), 1);
  EXPECT_EQ(shown("Status"), "1");
}

TEST_P(SqliteNativeSession, a_call_without_a_transaction_is_refused) {
  const SqliteHandle handle = open();
  SqliteSession session(handle.get());
  EXPECT_THROW(outbox().enqueue(session, a_message()), UsageError);
  EXPECT_THROW(std::ignore = outbox().claim(session, worker_a, 30s, 1), UsageError);
  EXPECT_EQ(sqlite3_get_autocommit(handle.get()), 1);
  EXPECT_EQ(rows("message"), 0);
}

TEST_P(SqliteNativeSession, OBX_003_a_session_of_another_file_is_refused_by_name) {
  const TestStore elsewhere{Backend::sqlite_file};
  Database other(elsewhere.address(), {}, environment());
  Outbox same_tables(other, options());
  const SqliteHandle handle = open(elsewhere.file());
  SqliteSession session(handle.get());
  run(handle, "begin immediate");
  try {
    outbox().enqueue(session, a_message());
    ADD_FAILURE() << "a session of another file was accepted";
  } catch (const UsageError& error) {
    const std::string_view words = error.what();
    EXPECT_NE(words.find(elsewhere.file()), std::string_view::npos) << words;
    EXPECT_NE(words.find(test_store().file()), std::string_view::npos) << words;
  }
  EXPECT_NO_THROW(same_tables.enqueue(session, a_message()));
  run(handle, "commit");
  EXPECT_EQ(rows("message"), 0);
  EXPECT_EQ(same_tables.claim(worker_a, 30s, 10).size(), 1u);
}

TEST_P(SqliteNativeSession, an_error_in_the_middle_leaves_no_half_and_the_transaction_usable) {
  refuse_topic("boom");
  const SqliteHandle handle = open();
  SqliteSession session(handle.get());
  run(handle, "begin immediate");
  run(handle, "create table orders (name text)");
  EXPECT_THROW(outbox().enqueue(session, std::vector{a_message("a"), a_message("boom")}),
               DatabaseError);
  outbox().enqueue(session, a_message("after"));
  run(handle, "commit");
  EXPECT_EQ(topics_of(outbox().claim(worker_a, 30s, 10)), (std::vector<std::string>{"after"}));
  EXPECT_EQ(count("select count(*) from orders"), 0);
}

TEST_P(SqliteNativeSession, one_session_serves_many_transactions) {
  const SqliteHandle handle = open();
  SqliteSession session(handle.get());
  for (int i = 0; i < 3; ++i) {
    run(handle, "begin immediate");
    outbox().enqueue(session, a_message());
    const auto claimed = outbox().claim(session, worker_a, 30s, 10);
    ASSERT_EQ(claimed.size(), 1u);
    EXPECT_EQ(outbox().ack(session, worker_a, claimed), 1u);
    run(handle, "commit");
  }
  EXPECT_EQ(rows("outcome"), 3);
}

TEST_P(SqliteNativeSession, OBX_081_nobody_sees_or_claims_what_is_not_committed) {
  const SqliteHandle handle = open();
  SqliteSession session(handle.get());
  Database impatient(test_store().address(), {.wait_timeout = 0ms, .retries = 0}, environment());
  Outbox other(impatient, options());
  run(handle, "begin immediate");
  outbox().enqueue(session, a_message());
  try {
    EXPECT_TRUE(other.claim(worker_b, 30s, 10).empty());
  } catch (const DatabaseError& error) {
    EXPECT_EQ(error.kind(), DatabaseError::Kind::contention) << error.what();
  }
  run(handle, "commit");
  EXPECT_EQ(other.claim(worker_b, 30s, 10).size(), 1u);
}

TEST_P(SqliteNativeSession, nulls_and_missing_columns_are_those_of_every_session) {
  const SqliteHandle handle = open();
  SqliteSession session(handle.get());
  run(handle, "begin");
  std::size_t rows = 0;
  session.execute("select null, null, null, null", {}, [&](const Row& row) {
    ++rows;
    expect_nulls(row, 4);
  });
  EXPECT_EQ(rows, 1u);
  run(handle, "rollback");
}

TWINBOX_ON_BACKENDS(SqliteNativeSession, Backend::sqlite_file);

using PgHandle = std::unique_ptr<PGconn, decltype(&PQfinish)>;

class LibpqNativeSession : public OutboxTest {
 protected:
  PgHandle open() {
    outbox();
    PgHandle handle{PQconnectdb(test_store().address().c_str()), PQfinish};
    EXPECT_EQ(PQstatus(handle.get()), CONNECTION_OK) << PQerrorMessage(handle.get());
    return handle;
  }
  static void run(const PgHandle& handle, const std::string& sql) {
    PGresult* result = PQexec(handle.get(), sql.c_str());
    const ExecStatusType status = PQresultStatus(result);
    EXPECT_TRUE(status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK)
        << sql << ": " << PQerrorMessage(handle.get());
    PQclear(result);
  }
};

TEST_P(LibpqNativeSession, OBX_003_its_commit_shows_the_message_and_is_the_callers) {
  const PgHandle handle = open();
  LibpqSession session(handle.get());
  run(handle, "begin");
  outbox().enqueue(session, a_message());
  EXPECT_EQ(PQtransactionStatus(handle.get()), PQTRANS_INTRANS);
  EXPECT_TRUE(outbox().claim(worker_a, 30s, 10).empty());
  run(handle, "commit");
  EXPECT_EQ(outbox().claim(worker_a, 30s, 10).size(), 1u);
}

TEST_P(LibpqNativeSession, OBX_003_its_rollback_leaves_nothing) {
  const Message held = enqueue_and_claim(worker_a);
  const PgHandle handle = open();
  LibpqSession session(handle.get());
  run(handle, "begin");
  NewMessage keyed = a_message();
  keyed.extras.partition_key = PartitionKey{"k"};
  outbox().enqueue(session, std::vector{a_message(), keyed});
  EXPECT_EQ(outbox().fail(session, worker_a, held, "error"), 1u);
  run(handle, "rollback");
  EXPECT_EQ(rows("message"), 1);
  EXPECT_EQ(rows("failure"), 0);
  EXPECT_EQ(shown("Status"), "1");
}

TEST_P(LibpqNativeSession, a_call_without_a_transaction_or_after_an_error_is_refused) {
  const PgHandle handle = open();
  LibpqSession session(handle.get());
  EXPECT_THROW(outbox().enqueue(session, a_message()), UsageError);
  EXPECT_EQ(PQtransactionStatus(handle.get()), PQTRANS_IDLE);
  run(handle, "begin");
  EXPECT_THROW(session.execute("select 1 / 0"), DatabaseError);
  try {
    outbox().enqueue(session, a_message());
    ADD_FAILURE() << "an aborted transaction was written to";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string{error.what()}.find("roll it back"), std::string::npos) << error.what();
  }
  run(handle, "rollback");
  EXPECT_EQ(rows("message"), 0);
}

TEST_P(LibpqNativeSession, OBX_017_claims_pass_over_rows_that_another_transaction_is_claiming) {
  REQUIREMENT("OBX-081, OBX-084");
  outbox().enqueue(std::vector<NewMessage>(3, a_message()));
  const PgHandle handle = open();
  LibpqSession session(handle.get());
  run(handle, "begin");
  ASSERT_EQ(outbox().claim(session, worker_a, 30s, 2).size(), 2u);
  EXPECT_EQ(outbox().claim(worker_b, 30s, 10).size(), 1u);
  run(handle, "rollback");
  EXPECT_EQ(outbox().claim(worker_b, 30s, 10).size(), 2u);
}

TEST_P(LibpqNativeSession, every_field_comes_through_a_text_protocol_too) {
  const PgHandle handle = open();
  LibpqSession session(handle.get());
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  run(handle, "begin");
  outbox().enqueue(session, {.topic = Topic{"ü"},
                             .payload = bytes,
                             .extras = {.due_at = clock().now() - 1us,
                                        .headers = R"({"a": "\\"})",
                                        .hash = ContentHash::of(bytes)}});
  const auto claimed = outbox().claim(session, worker_a, 30s, 10);
  ASSERT_EQ(claimed.size(), 1u);
  EXPECT_EQ(claimed[0].payload, bytes);
  EXPECT_EQ(claimed[0].due_at, clock().now() - 1us);
  EXPECT_EQ(claimed[0].hash, ContentHash::of(bytes));
  EXPECT_EQ(claimed[0].headers, R"({"a": "\\"})");
  run(handle, "commit");
}

TEST_P(LibpqNativeSession, nulls_and_missing_columns_are_those_of_every_session) {
  const PgHandle handle = open();
  LibpqSession session(handle.get());
  run(handle, "begin");
  std::size_t rows = 0;
  session.execute("select null::bigint, null::boolean, null::text, null::timestamptz", {},
                  [&](const Row& row) {
                    ++rows;
                    expect_nulls(row, 4);
                  });
  EXPECT_EQ(rows, 1u);
  run(handle, "rollback");
}

TWINBOX_ON_BACKENDS(LibpqNativeSession, Backend::postgres);

class PqxxNativeSession : public OutboxTest {};

TEST_P(PqxxNativeSession, OBX_003_its_commit_shows_the_message_and_its_end_without_leaves_nothing) {
  outbox();
  pqxx::connection connection(test_store().address());
  {
    pqxx::work work(connection);
    PqxxSession session(work);
    outbox().enqueue(session, a_message("lost"));
    EXPECT_TRUE(session.in_transaction());
  }
  EXPECT_EQ(rows("message"), 0);
  {
    pqxx::work work(connection);
    PqxxSession session(work);
    work.exec("create table " + in_schema("{schema}orders") + " (name text)");
    outbox().enqueue(session, a_message("kept"));
    EXPECT_TRUE(outbox().claim(worker_a, 30s, 10).empty());
    work.commit();
  }
  EXPECT_EQ(topics_of(outbox().claim(worker_a, 30s, 10)), (std::vector<std::string>{"kept"}));
  EXPECT_EQ(count("select count(*) from {schema}orders"), 0);
}

TEST_P(PqxxNativeSession, claims_and_settles_in_it) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  outbox().enqueue({.topic = Topic{"t"}, .payload = bytes});
  outbox().enqueue(a_message());
  pqxx::connection connection(test_store().address());
  pqxx::work work(connection);
  PqxxSession session(work);
  const auto claimed = outbox().claim(session, worker_a, 30s, 10);
  ASSERT_EQ(claimed.size(), 2u);
  EXPECT_TRUE(claimed[0].payload == bytes || claimed[1].payload == bytes);
  EXPECT_EQ(outbox().ack(session, worker_a, claimed[0]), 1u);
  EXPECT_EQ(outbox().abandon(session, worker_a, claimed[1], "it's \"odd\""), 1u);
  work.commit();
  EXPECT_EQ(shown("Status", claimed[0].id.str()), "2");
  EXPECT_EQ(shown("LastError", claimed[1].id.str()), "it's \"odd\"");
}

TEST_P(PqxxNativeSession, a_transaction_that_has_ended_is_refused) {
  outbox();
  pqxx::connection connection(test_store().address());
  pqxx::work work(connection);
  PqxxSession session(work);
  work.commit();
  EXPECT_THROW(outbox().enqueue(session, a_message()), UsageError);
  EXPECT_EQ(rows("message"), 0);
}

TEST_P(PqxxNativeSession, a_transaction_that_has_failed_is_refused) {
  outbox();
  pqxx::connection connection(test_store().address());
  pqxx::work work(connection);
  PqxxSession session(work);
  EXPECT_THROW(work.exec("select 1 / 0"), pqxx::sql_error);
  EXPECT_THROW(outbox().enqueue(session, a_message()), UsageError);
}

TEST_P(PqxxNativeSession, a_wrong_number_of_parameters_is_no_lost_connection) {
  pqxx::connection connection(test_store().address());
  pqxx::work work(connection);
  PqxxSession session(work);
  try {
    session.execute("select $1::int");
    ADD_FAILURE() << "a parameter without a value was accepted";
  } catch (const DatabaseError& error) {
    EXPECT_EQ(error.native_code(), "08P01");
    EXPECT_EQ(error.kind(), DatabaseError::Kind::invalid_request) << error.what();
    EXPECT_NE(std::string_view{error.what()}.find("@name"), std::string_view::npos) << error.what();
  }
}

TEST_P(PqxxNativeSession, nulls_and_missing_columns_are_those_of_every_session) {
  pqxx::connection connection(test_store().address());
  pqxx::work work(connection);
  PqxxSession session(work);
  std::size_t rows = 0;
  session.execute("select null::bigint, null::boolean, null::text, null::timestamptz", {},
                  [&](const Row& row) {
                    ++rows;
                    expect_nulls(row, 4);
                  });
  EXPECT_EQ(rows, 1u);
}

TWINBOX_ON_BACKENDS(PqxxNativeSession, Backend::postgres);

}  // namespace
}  // namespace twinbox::test
