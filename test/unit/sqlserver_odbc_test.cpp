// The ODBC half of the SQL Server driver, through unixODBC on another driver that Debian has: what
// is bound comes back, errors have their kind, a broken connection is noticed and a running
// statement can be ended.
#include <functional>
#include <future>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include "driver/sqlserver/batch.hpp"
#include "driver/sqlserver/connect.hpp"
#include "driver/sqlserver/sqlserver_connection.hpp"
#include "support/postgres.hpp"

namespace twinbox::sqlserver {
namespace {

using Kind = DatabaseError::Kind;

/// PostgreSQL by its ODBC driver.
Address on_postgres() {
  const std::string url = test::test_setting("TWINBOX_TEST_POSTGRES");
  const auto at = url.find('@') + 1;
  const auto colon = url.find(':', at);
  const auto slash = url.find('/', at);
  return {.connection_string = "Driver={PostgreSQL Unicode};Server=" + url.substr(at, colon - at) +
                               ";Port=" + url.substr(colon + 1, slash - colon - 1) +
                               ";Database=" + url.substr(slash + 1) +
                               ";UID=twinbox;ByteaAsLongVarBinary=1;MaxLongVarcharSize=1000000",
          .shown = "odbc-postgresql"};
}

class SqlServerOdbc : public ::testing::Test {
 protected:
  ExecutionContext target() { return {connection_.get(), "odbc-postgresql", &running_}; }
  Answer run(std::string_view sql, std::initializer_list<Value> values = {}) {
    Parameters parameters;
    for (const Value& value : values) parameters.add(value);
    return run_text(target(), "test", sql, &parameters);
  }
  Kind refusal(std::string_view sql) {
    try {
      run(sql);
    } catch (const DatabaseError& error) {
      return error.kind();
    }
    throw std::logic_error("it was not refused");
  }

  EnvironmentHandle environment_ = new_environment();
  ConnectionHandle connection_ = connect_to(environment_.get(), on_postgres());
  Running running_;
};

TEST_F(SqlServerOdbc, what_is_bound_comes_back) {
  const std::string text = "a\xC3\xA9\xF0\x9F\x98\x80'\"\\";
  const Instant moment{std::chrono::microseconds{1'794'797'400'123'456}};
  const Uuid uuid = Uuid::parse("01234567-89ab-4def-8123-456789abcdef");
  std::size_t rows = 0;
  const Answer answer =
      run("select ?::bigint, ?::float8, ?::text, ?::bytea, ?::timestamp, ?::uuid, ?::text",
          {std::int64_t{-9'000'000'000}, 1.5, std::string_view{text},
           Bytes{std::string_view{"\0\xff", 2}}, moment, uuid, Value{}});
  answer.deliver([&](const Row& row) {
    ++rows;
    EXPECT_EQ(row.integer(0), -9'000'000'000);
    EXPECT_EQ(row.text(0), "-9000000000");
    EXPECT_EQ(row.real(1), 1.5);
    EXPECT_EQ(row.text(2), text);
    EXPECT_EQ(row.bytes(3), std::string_view("\0\xff", 2));
    EXPECT_EQ(row.instant(4), moment);
    EXPECT_EQ(row.text(4), "2026-11-16 02:50:00.123456");
    EXPECT_EQ(row.uuid(5), uuid);
    EXPECT_TRUE(row.is_null(6));
    EXPECT_EQ(row.text(6), "");
    EXPECT_THROW(static_cast<void>(row.integer(7)), std::out_of_range);
  });
  EXPECT_EQ(rows, 1u);
  EXPECT_EQ(answer.count(), 1u);
}

TEST_F(SqlServerOdbc, long_values_are_whole) {
  std::string bytes;
  for (int i = 0; i < 300'000; ++i) bytes.push_back(static_cast<char>(i * 7 + i / 256));
  std::string text;
  for (int i = 0; i < 30'000; ++i) text += "\xE2\x82\xAC" + std::to_string(i % 10);
  std::size_t rows = 0;
  run("select ?::bytea, ?::text, ?::bytea, ?::text",
      {Bytes{bytes}, std::string_view{text}, Bytes{""}, std::string_view{""}})
      .deliver([&](const Row& row) {
        ++rows;
        EXPECT_TRUE(row.bytes(0) == bytes) << row.bytes(0).size();
        EXPECT_TRUE(row.text(1) == text) << row.text(1).size();
        EXPECT_FALSE(row.is_null(2));
        EXPECT_EQ(row.bytes(2), "");
        EXPECT_FALSE(row.is_null(3));
      });
  EXPECT_EQ(rows, 1u);
}

TEST_F(SqlServerOdbc, rows_and_changes_are_counted) {
  EXPECT_EQ(run("select i from generate_series(1, 1000) s(i)").count(), 1000u);
  EXPECT_EQ(run("select 1 where false").count(), 0u);
  run("create temp table t (i int)");
  EXPECT_EQ(run("insert into t select generate_series(1, 5)").count(), 5u);
  EXPECT_EQ(run("update t set i = i where i > 3").count(), 2u);
  EXPECT_EQ(run("delete from t where i > 5").count(), 0u);
}

TEST_F(SqlServerOdbc, a_refused_statement_leaves_the_connection_usable) {
  EXPECT_EQ(refusal("selec 1"), Kind::invalid_request);
  run("create temp table k (i int primary key)");
  run("insert into k values (1)");
  EXPECT_EQ(refusal("insert into k values (1)"), Kind::invalid_request);
  EXPECT_EQ(run("select 1").count(), 1u);
}

TEST_F(SqlServerOdbc, a_connection_that_was_ended_is_lost_and_a_new_one_works) {
  test::PgClient other{test::test_setting("TWINBOX_TEST_POSTGRES")};
  std::string pid;
  run("select pg_backend_pid()::text").deliver([&](const Row& row) { pid = row.text(0); });
  other.run("select pg_terminate_backend(" + pid + ", 60000)");
  EXPECT_EQ(refusal("select 1"), Kind::connection_lost);
  connection_ = connect_to(environment_.get(), on_postgres());
  EXPECT_EQ(run("select 1").count(), 1u);
}

TEST_F(SqlServerOdbc, a_server_that_is_not_there_is_a_lost_connection) {
  auto address = on_postgres();
  address.connection_string = "Driver={PostgreSQL Unicode};Server=127.0.0.1;Port=1;Database=x";
  try {
    connect_to(environment_.get(), address);
    FAIL() << "it is there";
  } catch (const DatabaseError& error) {
    EXPECT_EQ(error.kind(), Kind::connection_lost) << error.what();
  }
}

TEST_F(SqlServerOdbc, a_driver_that_is_not_installed_has_a_way_out) {
  try {
    connect_to(environment_.get(), {.connection_string = "Driver={No Such}", .shown = "x"});
    FAIL() << "it is installed";
  } catch (const DatabaseError& error) {
    EXPECT_NE(std::string_view{error.what()}.find("odbcinst -q -d"), std::string_view::npos)
        << error.what();
  }
}

TEST_F(SqlServerOdbc, a_running_statement_can_be_ended_from_another_thread) {
  test::PgClient other{test::test_setting("TWINBOX_TEST_POSTGRES")};
  std::string pid;
  run("select pg_backend_pid()::text").deliver([&](const Row& row) { pid = row.text(0); });
  auto ended = std::async(std::launch::async, [&] { return refusal("select pg_sleep(600)"); });
  const std::string sleeps =
      "select count(*) > 0 from pg_stat_activity where state = 'active' and pid = " + pid;
  while (other.value(sleeps) != "t") std::this_thread::yield();
  running_.interrupt();
  ended.wait();
  EXPECT_NE(ended.get(), Kind::connection_lost);
  EXPECT_TRUE(running_.interrupted());
}

/// A connection that says PostgreSQL's words, and what is seen of it on the server.
class SqlServerCutOff : public ::testing::Test {
 protected:
  void connect() {
    Address address = on_postgres();
    address.connection_string += ";Protocol=7.4-0";  // else the driver undoes a failure on its own
    connection_ = std::make_unique<SqlServerConnection>(address, transaction_sql_);
    connection_->execute("select pg_backend_pid()::text", {},
                         [this](const Row& row) { pid_ = row.text(0); });
  }
  std::string state() {
    return other_.value("select state from pg_stat_activity where pid = " + pid_);
  }
  /// Ends `call` in its middle, which is asleep.
  void cut_off(const std::function<void()>& call) {
    auto ended = std::async(std::launch::async, call);
    const std::string asleep =
        "select count(*) from pg_stat_activity where wait_event = 'PgSleep' and pid = " + pid_;
    while (other_.value(asleep) != "1" &&
           ended.wait_for(std::chrono::seconds{0}) != std::future_status::ready) {
      std::this_thread::yield();
    }
    connection_->interrupt();
    EXPECT_THROW(ended.get(), DatabaseError);
  }

  TransactionSql transaction_sql_{.settings = "select 1",
                                  .begin_own = "begin",
                                  .begin_callers = "begin",
                                  .commit = "commit",
                                  .rollback = "rollback"};
  std::unique_ptr<SqlServerConnection> connection_;
  test::PgClient other_{test::test_setting("TWINBOX_TEST_POSTGRES")};
  std::string pid_;
};

TEST_F(SqlServerCutOff, a_begin_leaves_no_transaction_after_the_rollback) {
  transaction_sql_.begin_own = "begin; select pg_sleep(600)";
  connect();
  cut_off([this] { connection_->begin(Access::write, Scope::statement); });
  ASSERT_EQ(state(), "idle in transaction (aborted)") << "it had begun";
  connection_->rollback();
  EXPECT_EQ(state(), "idle");
  EXPECT_FALSE(connection_->usable());
}

TEST_F(SqlServerCutOff, a_commit_leaves_no_transaction_after_the_rollback) {
  transaction_sql_.commit = "select pg_sleep(600)";
  connect();
  connection_->begin(Access::write, Scope::caller);
  connection_->execute("select 1");
  cut_off([this] { connection_->commit(); });
  ASSERT_EQ(state(), "idle in transaction (aborted)") << "it was not committed";
  connection_->rollback();
  EXPECT_EQ(state(), "idle");
  EXPECT_FALSE(connection_->usable());
}

TEST_F(SqlServerCutOff, a_commit_that_is_refused_leaves_no_transaction_after_the_rollback) {
  transaction_sql_.commit = "select 1 / 0";
  connect();
  connection_->begin(Access::write, Scope::statement);
  EXPECT_THROW(connection_->commit(), DatabaseError);
  ASSERT_EQ(state(), "idle in transaction (aborted)");
  connection_->rollback();
  EXPECT_EQ(state(), "idle");
  EXPECT_FALSE(connection_->usable());
}

}  // namespace
}  // namespace twinbox::sqlserver
