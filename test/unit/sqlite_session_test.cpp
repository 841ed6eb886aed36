// Our statements in a caller's transaction.
#include <stdexcept>
#include <thread>

#include <sqlite3.h>

#include "sqlite_driver_test.hpp"
#include "twinbox/session.hpp"

namespace twinbox {
namespace {

using namespace sqlite_test;

class SqliteSessions : public SqliteDriver {
 protected:
  void SetUp() override {
    SqliteDriver::SetUp();
    db_ = open();
    exec("create table thing(id integer primary key, note text)");
  }
  void TearDown() override {
    EXPECT_EQ(sqlite3_close(db_), SQLITE_OK) << "a statement was left behind";
    SqliteDriver::TearDown();
  }
  [[nodiscard]] sqlite3* open() const {
    sqlite3* db = nullptr;
    EXPECT_EQ(sqlite3_open(file_.c_str(), &db), SQLITE_OK);
    return db;
  }
  void exec(const char* sql) const {
    ASSERT_EQ(sqlite3_exec(db_, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(db_);
  }
  [[nodiscard]] std::string things() const {
    std::string found;
    sqlite3_exec(
        db_, "select group_concat(id) from thing",
        [](void* into, int, char** values, char**) {
          if (values[0] != nullptr) *static_cast<std::string*>(into) = values[0];
          return 0;
        },
        &found, nullptr);
    return found;
  }

  sqlite3* db_ = nullptr;
  Statement insert_ = statement("insert", "insert into thing(id) values (@id)");
};

TEST_F(SqliteSessions, refuse_a_connection_without_a_transaction) {
  EXPECT_THROW(SqliteSession{nullptr}, std::invalid_argument);
  SqliteSession session{db_};
  EXPECT_EQ(session.dialect(), Dialect::sqlite);
  EXPECT_FALSE(session.in_transaction());
  EXPECT_THROW(run(session, insert_, {{"id", 1}}), UsageError);
  EXPECT_THROW(session.execute("insert into thing(id) values (1)"), UsageError);
  EXPECT_EQ(things(), "");
}

TEST_F(SqliteSessions, leave_commit_and_rollback_to_the_caller) {
  SqliteSession session{db_};
  exec("begin");
  EXPECT_TRUE(session.in_transaction());
  EXPECT_EQ(run(session, insert_, {{"id", 1}}), 1U);
  EXPECT_THROW(session.execute("commit"), UsageError);
  exec("rollback");
  EXPECT_EQ(things(), "");
  exec("begin");
  EXPECT_EQ(session.execute("insert into thing(id) values (@id)", {{"id", 2}}), 1U);
  exec("commit");
  EXPECT_EQ(things(), "2");
}

TEST_F(SqliteSessions, undo_a_call_that_fails_half_way_and_nothing_else) {
  SqliteSession session{db_};
  exec("begin");
  exec("insert into thing(id) values (10)");
  const std::vector<Value> ids{std::int64_t{1}, std::int64_t{2}, std::int64_t{10}};
  EXPECT_THROW(run(session, insert_, {{"id", ValueType::integer, ids}}), DatabaseError);
  EXPECT_EQ(things(), "10");
  const auto two_steps =
      statement("two", {{.sql = "insert into thing(id) values (@id)", .params = {}},
                        {.sql = "insert into thing(id) values (@id)", .params = {}}});
  EXPECT_THROW(run(session, two_steps, {{"id", 5}}), DatabaseError);
  EXPECT_EQ(things(), "10");
  EXPECT_TRUE(session.in_transaction());
  EXPECT_EQ(run(session, insert_, {{"id", 3}}), 1U);
  exec("commit");
  EXPECT_EQ(things(), "3,10");
}

TEST_F(SqliteSessions, undo_a_call_whose_sink_throws) {
  SqliteSession session{db_};
  exec("begin");
  EXPECT_THROW(session.execute("insert into thing(id) values (1), (2) returning id", {},
                               [](const Row&) { throw std::runtime_error("full"); }),
               std::runtime_error);
  EXPECT_EQ(things(), "");
  exec("commit");
}

TEST_F(SqliteSessions, say_so_when_sqlite_rolled_the_transaction_back) {
  SqliteSession session{db_};
  exec("begin");
  exec("insert into thing(id) values (1)");
  const std::vector<Value> ids{std::int64_t{2}, std::int64_t{1}};
  const auto error = error_of([&] {
    run(session, statement("insert", "insert or rollback into thing(id) values (@id)"),
        {{"id", ValueType::integer, ids}});
  });
  EXPECT_TRUE(mentions(error, "SQLite has rolled back the whole transaction")) << error.what();
  EXPECT_FALSE(session.in_transaction());
  EXPECT_THROW(run(session, insert_, {{"id", 1}}), UsageError);
}

TEST_F(SqliteSessions, name_the_way_out_of_a_busy_file) {
  sqlite3* other = open();
  sqlite3_exec(other, "begin immediate", nullptr, nullptr, nullptr);
  {
    SqliteSession session{db_};
    exec("begin");
    const auto error = error_of([&] { run(session, insert_, {{"id", 1}}); });
    EXPECT_EQ(error.kind(), Kind::contention);
    EXPECT_TRUE(mentions(error, "sqlite3_busy_timeout")) << error.what();
    EXPECT_TRUE(mentions(error, file_.string()));
    exec("rollback");
  }
  sqlite3_close(other);
}

TEST_F(SqliteSessions, name_the_way_out_of_an_old_snapshot) {
  exec("pragma journal_mode = wal");
  sqlite3* other = open();
  {
    SqliteSession session{db_};
    exec("begin");
    EXPECT_EQ(number_of(session, "select count(*) from thing"), 0);
    sqlite3_exec(other, "insert into thing(id) values (5)", nullptr, nullptr, nullptr);
    const auto error = error_of([&] { run(session, insert_, {{"id", 1}}); });
    EXPECT_EQ(error.kind(), Kind::contention);
    EXPECT_TRUE(mentions(error, "BEGIN IMMEDIATE")) << error.what();
    exec("rollback");
  }
  sqlite3_close(other);
}

TEST_F(SqliteSessions, refuse_while_a_writing_statement_of_the_caller_is_running) {
  SqliteSession session{db_};
  exec("begin");
  sqlite3_stmt* running = nullptr;
  sqlite3_prepare_v2(db_, "insert into thing(id) values (1), (2) returning id", -1, &running,
                     nullptr);
  ASSERT_EQ(sqlite3_step(running), SQLITE_ROW);
  const std::vector<Value> ids{std::int64_t{3}, std::int64_t{4}};
  EXPECT_THROW(run(session, insert_, {{"id", ValueType::integer, ids}}), UsageError);
  sqlite3_finalize(running);
  EXPECT_EQ(run(session, insert_, {{"id", ValueType::integer, ids}}), 2U);
  exec("commit");
  EXPECT_EQ(things(), "1,2,3,4");
}

TEST_F(SqliteSessions, work_inside_a_savepoint_of_the_caller) {
  SqliteSession session{db_};
  exec("savepoint twinbox_call");
  const std::vector<Value> ids{std::int64_t{3}, std::int64_t{4}};
  EXPECT_EQ(run(session, insert_, {{"id", ValueType::integer, ids}}), 2U);
  EXPECT_TRUE(session.in_transaction());
  exec("rollback to twinbox_call");
  exec("release twinbox_call");
  EXPECT_EQ(things(), "");
}

}  // namespace
}  // namespace twinbox
