#include "driver/sqlite/sqlite_driver.hpp"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>
#include <sqlite3.h>

#include "sql/statement.hpp"
#include "twinbox/native_sessions.hpp"

namespace twinbox {
namespace {

using namespace std::chrono_literals;
using Kind = DatabaseError::Kind;

Statement statement(std::string_view name, std::vector<Step> steps) {
  static std::atomic<std::uint32_t> number{1'000'000};
  return {.name = name, .number = number++, .steps = std::move(steps)};
}

Statement statement(std::string_view name, std::string sql) {
  return statement(name, std::vector<Step>{{.sql = std::move(sql), .params = {}}});
}

std::size_t run(Session& session, const Statement& what, std::vector<Arg> args = {},
                RowSink rows = {}) {
  return session.execute(what, args, rows);
}

std::int64_t number_of(Session& session, std::string_view sql) {
  std::int64_t result = -1;
  session.execute(sql, {}, [&](const Row& row) { result = row.integer(0); });
  return result;
}

std::string text_of(Session& session, std::string_view sql) {
  std::string result;
  session.execute(sql, {}, [&](const Row& row) { result = row.text(0); });
  return result;
}

/// The error that `act` throws; the test fails when it throws none.
template <class F>
DatabaseError error_of(F&& act) {
  try {
    act();
  } catch (const DatabaseError& error) {
    return error;
  }
  ADD_FAILURE() << "no DatabaseError was thrown";
  return {Kind::other, ""};
}

bool mentions(const std::exception& error, std::string_view words) {
  return std::string_view{error.what()}.find(words) != std::string_view::npos;
}

/// Rights mean nothing to root: such a test acts as another user.
class AsOrdinaryUser {
 public:
  AsOrdinaryUser() {
    if (geteuid() == 0 && seteuid(65534) != 0) throw std::runtime_error("seteuid failed");
  }
  ~AsOrdinaryUser() {
    if (getuid() == 0 && seteuid(0) != 0) std::abort();
  }
  AsOrdinaryUser(const AsOrdinaryUser&) = delete;
  AsOrdinaryUser& operator=(const AsOrdinaryUser&) = delete;
};

/// A disk that fails on demand to sync a write-ahead log: files opened while this lives are on it.
class FailingDisk {
 public:
  FailingDisk() {
    fails = false;
    system = sqlite3_vfs_find(nullptr);
    vfs_ = *system;
    vfs_.zName = "failing";
    vfs_.xOpen = [](sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out) {
      const int code = system->xOpen(system, name, file, flags, out);
      if (code != SQLITE_OK || (flags & SQLITE_OPEN_WAL) == 0) return code;
      methods = *file->pMethods;
      sync = methods.xSync;
      methods.xSync = [](sqlite3_file* synced, int how) {
        return fails ? SQLITE_IOERR_FSYNC : sync(synced, how);
      };
      file->pMethods = &methods;
      return code;
    };
    sqlite3_vfs_register(&vfs_, 1);
  }
  ~FailingDisk() {
    sqlite3_vfs_unregister(&vfs_);
    sqlite3_vfs_register(system, 1);
  }
  FailingDisk(const FailingDisk&) = delete;
  FailingDisk& operator=(const FailingDisk&) = delete;

  static inline bool fails = false;

 private:
  static inline sqlite3_vfs* system = nullptr;
  static inline sqlite3_io_methods methods = {};
  static inline int (*sync)(sqlite3_file*, int) = nullptr;
  sqlite3_vfs vfs_ = {};
};

class SqliteDriver : public ::testing::Test {
 protected:
  void SetUp() override {
    auto name = (std::filesystem::temp_directory_path() / "twinbox_sqlite_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
    file_ = directory_ / "store.db";
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  [[nodiscard]] std::unique_ptr<Driver> driver() const {
    return make_sqlite_driver(file_.string(), options_, {});
  }
  [[nodiscard]] std::unique_ptr<Connection> connect(Access access = Access::write) const {
    return driver()->connect(access);
  }
  void in_transaction(Connection& connection, const std::function<void()>& work,
                      Access access = Access::write, Scope scope = Scope::transaction) {
    connection.begin(access, scope);
    try {
      work();
    } catch (...) {
      connection.rollback();
      throw;
    }
    connection.commit();
  }
  void create(Connection& connection, std::string_view sql) {
    in_transaction(connection, [&] { connection.execute(sql); });
  }

  std::filesystem::path directory_;
  std::filesystem::path file_;
  DatabaseOptions options_ = {.wait_limit = 10ms};
};

TEST_F(SqliteDriver, has_one_writer_and_as_many_readers_as_the_pool) {
  const auto shape = driver()->shape(8);
  EXPECT_EQ(shape.writers, 1U);
  EXPECT_EQ(shape.readers, 8U);
  EXPECT_FALSE(shape.shared);
  EXPECT_EQ(driver()->describe(), "sqlite:" + file_.string());
}

TEST_F(SqliteDriver, in_memory_everything_shares_one_connection) {
  const auto memory = make_sqlite_driver(":memory:", options_, {});
  const auto shape = memory->shape(8);
  EXPECT_EQ(shape.writers, 1U);
  EXPECT_TRUE(shape.shared);
  const auto connection = memory->connect(Access::write);
  create(*connection, "create table thing(id integer)");
  for (const auto access : {Access::write, Access::write_relaxed}) {
    in_transaction(
        *connection, [&] { connection->execute("insert into thing values (1)"); }, access);
  }
  in_transaction(
      *connection, [&] { EXPECT_EQ(number_of(*connection, "select count(*) from thing"), 2); },
      Access::read);
}

TEST_F(SqliteDriver, refuses_a_file_name_that_can_be_none) {
  EXPECT_THROW(make_sqlite_driver("", options_, {}), std::invalid_argument);
  EXPECT_THROW(make_sqlite_driver(std::string{"a\0b", 3}, options_, {}), std::invalid_argument);
}

TEST_F(SqliteDriver, uses_write_ahead_logging_and_syncs_every_write_but_a_claim) {
  const auto connection = connect();
  for (const auto& [access, level] :
       {std::pair{Access::write, 2}, {Access::write_relaxed, 1}, {Access::write, 2}}) {
    in_transaction(
        *connection,
        [&, expected = level] {
          EXPECT_EQ(text_of(*connection, "pragma journal_mode"), "wal");
          EXPECT_EQ(number_of(*connection, "pragma synchronous"), expected);
        },
        access);
  }
}

TEST_F(SqliteDriver, binds_and_reads_every_type) {
  const auto connection = connect();
  create(*connection, "create table thing(a, b, c, d, e, f, g, h, i)");
  const auto uuid = Uuid{{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 255}};
  const Instant instant{1'700'000'000'123'456us};
  const std::string text{"a\0b ü", 6};
  const std::string bytes{"\x00\xff\x01", 3};
  const auto insert =
      statement("insert", "insert into thing values (@a, @b, @c, @d, @e, @f, @g, @h, @i)");
  in_transaction(*connection, [&] {
    EXPECT_EQ(run(*connection, insert,
                  {{"a", Value{}},
                   {"b", Value{true}},
                   {"c", std::numeric_limits<std::int64_t>::min()},
                   {"d", Value{1.5}},
                   {"e", text},
                   {"f", Value{Bytes{bytes}}},
                   {"g", Value{instant}},
                   {"h", Value{uuid}},
                   {"i", Value{Instant::max()}}}),
              1U);
    int rows = 0;
    connection->execute("select * from thing", {}, [&](const Row& row) {
      ++rows;
      EXPECT_TRUE(row.is_null(0));
      EXPECT_EQ(row.text(0), "");
      EXPECT_TRUE(row.boolean(1));
      EXPECT_EQ(row.integer(2), std::numeric_limits<std::int64_t>::min());
      EXPECT_EQ(row.real(3), 1.5);
      EXPECT_EQ(row.text(4), text);
      EXPECT_EQ(row.bytes(5), bytes);
      EXPECT_EQ(row.instant(6), instant);
      EXPECT_EQ(row.uuid(7), uuid);
      EXPECT_EQ(row.instant(8), Instant::max());
      EXPECT_FALSE(row.is_null(8));
      EXPECT_THROW((void)row.uuid(5), UsageError);
    });
    EXPECT_EQ(rows, 1);
    EXPECT_EQ(text_of(*connection,
                      "select typeof(a) || typeof(b) || typeof(c) || typeof(d) || typeof(e) || "
                      "typeof(f) || typeof(g) || typeof(h) from thing"),
              "nullintegerintegerrealtextblobintegerblob");
  });
}

TEST_F(SqliteDriver, empty_text_and_empty_bytes_are_not_null) {
  const auto connection = connect();
  in_transaction(*connection, [&] {
    connection->execute("select typeof(@text), typeof(@bytes)",
                        {{"text", Value{std::string_view{}}}, {"bytes", Value{Bytes{}}}},
                        [](const Row& row) {
                          EXPECT_EQ(row.text(0), "text");
                          EXPECT_EQ(row.text(1), "blob");
                        });
  });
}

TEST_F(SqliteDriver, a_null_now_of_our_own_statements_is_one_reading_of_the_clock) {
  const auto connection = connect();
  create(*connection, "create table thing(id integer, at integer)");
  const auto insert =
      statement("insert", {{.sql = "insert into thing values (@id, @now)", .params = {}},
                           {.sql = "insert into thing values (-@id, @now)", .params = {}}});
  const std::vector<Value> ids{std::int64_t{1}, std::int64_t{2}, std::int64_t{3}};
  in_transaction(*connection, [&] {
    run(*connection, insert, {{"id", ValueType::integer, ids}, {"now", Value{}}});
    EXPECT_EQ(number_of(*connection, "select count(distinct at) from thing"), 1);
    EXPECT_GT(number_of(*connection, "select at from thing"), 1'600'000'000'000'000);
    const Instant given{5us};
    run(*connection, insert, {{"id", 9}, {"now", Value{given}}});
    EXPECT_EQ(number_of(*connection, "select at from thing where id = -9"), 5);
    EXPECT_EQ(connection->execute("select 1 where @now is null", {{"now", Value{}}}), 1U);
  });
}

TEST_F(SqliteDriver, runs_a_block_once_per_element_of_its_columns) {
  const auto connection = connect();
  create(*connection, "create table thing(id integer, label text, box text)");
  const auto insert = statement("insert", "insert into thing values (@id, @label, @box)");
  const std::vector<Value> ids{std::int64_t{1}, std::int64_t{2}, std::int64_t{3}};
  const std::vector<Value> labels{std::string_view{"one"}, Value{}, std::string_view{"three"}};
  in_transaction(*connection, [&] {
    EXPECT_EQ(
        run(*connection, insert,
            {{"box", "b"}, {"id", ValueType::integer, ids}, {"label", ValueType::text, labels}}),
        3U);
    EXPECT_EQ(
        text_of(*connection, "select group_concat(id || ifnull(label, '-') || box) from thing"),
        "1oneb,2-b,3threeb");
    EXPECT_EQ(run(*connection, insert,
                  {{"label", "x"}, {"id", ValueType::integer, ids}, {"box", "other order"}}),
              3U);
    EXPECT_EQ(run(*connection, statement("erase", "delete from thing where id = @id"),
                  {{"id", ValueType::integer, ids}}),
              6U);
  });
}

TEST_F(SqliteDriver, an_empty_column_runs_nothing) {
  const auto connection = connect();
  create(*connection, "create table thing(id integer)");
  in_transaction(*connection, [&] {
    EXPECT_EQ(run(*connection, statement("insert", "insert into thing values (@id)"),
                  {{"id", ValueType::integer, std::span<const Value>{}}}),
              0U);
    EXPECT_EQ(number_of(*connection, "select count(*) from thing"), 0);
  });
}

TEST_F(SqliteDriver, refuses_columns_of_unequal_length_and_missing_arguments) {
  const auto connection = connect();
  const std::vector<Value> two{std::int64_t{1}, std::int64_t{2}};
  const std::vector<Value> one{std::int64_t{1}};
  const auto select = statement("select", "select @a, @b");
  in_transaction(*connection, [&] {
    EXPECT_THROW(
        run(*connection, select, {{"a", ValueType::integer, two}, {"b", ValueType::integer, one}}),
        std::logic_error);
    EXPECT_THROW(run(*connection, select, {{"a", 1}}), UsageError);
    EXPECT_EQ(run(*connection, select, {{"a", 1}, {"b", 2}}), 1U);
    EXPECT_THROW(connection->execute("select ?", {{"a", 1}}), UsageError);
  });
}

TEST_F(SqliteDriver, an_each_step_runs_once_per_row_of_the_step_before) {
  const auto connection = connect();
  create(*connection, "create table work(id integer, note text, data blob, weight real)");
  create(*connection,
         "create table outcome(id integer, note text, data blob, weight real, by text)");
  create(*connection, "create table trace(id integer)");
  const auto ack = statement(
      "ack", {{.sql = "delete from work where id % @every = 0 returning id, note, data, weight",
               .params = {}},
              {.sql = "insert into outcome values (@id, @note, @data, @weight, @by)",
               .params = {},
               .each = true},
              {.sql = "insert into trace values (@id)", .params = {}, .each = true}});
  in_transaction(*connection, [&] {
    connection->execute(
        "insert into work values (1, 'a', x'00ff', 0.5), (2, null, x'', 1.5), (4, '', null, 2.5)");
    std::vector<std::int64_t> seen;
    // The sink reads the number as text, which converts it in place.
    EXPECT_EQ(run(*connection, ack, {{"every", 2}, {"by", "me"}},
                  [&](const Row& row) { seen.push_back(std::stol(std::string{row.text(0)})); }),
              2U);
    EXPECT_EQ(seen, (std::vector<std::int64_t>{2, 4}));
    EXPECT_EQ(text_of(*connection,
                      "select group_concat(id || typeof(id) || ifnull(note, 'null') || "
                      "ifnull(hex(data), '') || typeof(data) || weight || by, ' ') from outcome"),
              "2integernullblob1.5me 4integernull2.5me");
    EXPECT_EQ(number_of(*connection, "select sum(id) from trace"), 6);
    EXPECT_EQ(run(*connection, ack, {{"every", 2}, {"by", "me"}}), 0U);
  });
}

TEST_F(SqliteDriver, an_each_step_uses_the_rows_of_its_own_element_only) {
  const auto connection = connect();
  create(*connection, "create table work(id integer, kind integer)");
  create(*connection, "create table outcome(id integer, kind integer)");
  const auto ack = statement(
      "ack",
      {{.sql = "delete from work where kind = @kind returning id", .params = {}},
       {.sql = "insert into outcome values (@id, @kind) returning id", .params = {}, .each = true},
       {.sql = "update outcome set id = -id where id = @id", .params = {}, .each = true}});
  const std::vector<Value> kinds{std::int64_t{7}, std::int64_t{9}, std::int64_t{8}};
  in_transaction(*connection, [&] {
    connection->execute("insert into work values (1, 7), (2, 7), (3, 8), (4, 6)");
    EXPECT_EQ(run(*connection, ack, {{"kind", ValueType::integer, kinds}}), 3U);
    EXPECT_EQ(text_of(*connection, "select group_concat(id || '/' || kind) from outcome"),
              "-1/7,-2/7,-3/8");
  });
}

TEST_F(SqliteDriver, an_each_step_needs_a_step_that_returns_rows) {
  const auto connection = connect();
  in_transaction(*connection, [&] {
    EXPECT_THROW(
        run(*connection, statement("wrong", {{.sql = "select 1", .params = {}, .each = true}})),
        std::logic_error);
  });
}

TEST_F(SqliteDriver, counts_changed_rows_and_nothing_for_a_definition) {
  const auto connection = connect();
  in_transaction(*connection, [&] {
    EXPECT_EQ(connection->execute("create table thing(id integer)"), 0U);
    EXPECT_EQ(connection->execute("insert into thing values (1), (2)"), 2U);
    EXPECT_EQ(connection->execute("create table other(id integer)"), 0U);
    EXPECT_EQ(connection->execute("update thing set id = 5 where id = 9"), 0U);
    EXPECT_EQ(connection->execute("update thing set id = 5 returning id"), 2U);
  });
}

TEST_F(SqliteDriver, rolls_back_and_tolerates_a_second_rollback) {
  const auto connection = connect();
  create(*connection, "create table thing(id integer)");
  connection->begin(Access::write, Scope::transaction);
  connection->execute("insert into thing values (1)");
  EXPECT_TRUE(connection->in_transaction());
  connection->rollback();
  connection->rollback();
  EXPECT_FALSE(connection->in_transaction());
  in_transaction(
      *connection, [&] { EXPECT_EQ(number_of(*connection, "select count(*) from thing"), 0); },
      Access::read);
}

TEST_F(SqliteDriver, the_callers_sql_can_neither_begin_nor_end_the_transaction) {
  const auto connection = connect();
  in_transaction(*connection, [&] {
    for (const auto* sql : {"commit", " /* so */ COMMIT;", "-- x\nend", "rollback",
                            "BEGIN immediate", "rollback transaction"}) {
      EXPECT_THROW(connection->execute(sql), UsageError) << sql;
    }
    EXPECT_THROW(connection->execute("select 1; commit"), UsageError);
    EXPECT_THROW(connection->execute("  -- nothing"), UsageError);
    EXPECT_EQ(connection->execute("select 1; -- and a remark"), 1U);
    connection->execute("savepoint mine");
    connection->execute("rollback to mine");
    connection->execute("release mine");
    EXPECT_TRUE(connection->in_transaction());
  });
}

TEST_F(SqliteDriver, forgets_the_callers_oldest_statements_and_prepares_them_again) {
  const auto connection = connect();
  in_transaction(*connection, [&] {
    for (int round = 0; round < 2; ++round) {
      for (int number = 0; number < 100; ++number) {
        const auto sql = "select " + std::to_string(number);
        EXPECT_EQ(number_of(*connection, sql), number);
      }
    }
  });
}

TEST_F(SqliteDriver, a_busy_file_is_contention_that_names_file_and_limit) {
  const auto first = connect();
  const auto second = connect();
  create(*first, "create table thing(id integer)");
  first->begin(Access::write, Scope::transaction);
  first->execute("insert into thing values (1)");
  const auto error = error_of([&] { second->begin(Access::write, Scope::transaction); });
  EXPECT_EQ(error.kind(), Kind::contention);
  EXPECT_TRUE(error.retryable());
  EXPECT_TRUE(mentions(error, file_.string())) << error.what();
  EXPECT_TRUE(mentions(error, "wait_limit (10 ms)")) << error.what();
  EXPECT_TRUE(second->usable());
  in_transaction(
      *second, [&] { EXPECT_EQ(number_of(*second, "select count(*) from thing"), 0); },
      Access::read);
  first->commit();
  in_transaction(*second, [&] { EXPECT_EQ(number_of(*second, "select count(*) from thing"), 1); });
}

TEST_F(SqliteDriver, waits_for_a_busy_file_within_the_limit) {
  options_.wait_limit = 60s;
  const auto first = connect();
  create(*first, "create table thing(id integer)");
  first->begin(Access::write, Scope::transaction);
  first->execute("insert into thing values (1)");
  auto waiting = std::async(std::launch::async, [&] {
    const auto second = connect();
    in_transaction(*second, [&] { second->execute("insert into thing values (2)"); });
  });
  first->commit();
  EXPECT_NO_THROW(waiting.get());
}

TEST_F(SqliteDriver, many_connections_may_open_a_new_file_at_once) {
  options_.wait_limit = 60s;
  for (int round = 0; round < 10; ++round) {
    file_ = directory_ / ("new" + std::to_string(round) + ".db");
    std::vector<std::future<void>> openers;
    openers.reserve(6);
    for (int opener = 0; opener < 6; ++opener) {
      openers.push_back(std::async(std::launch::async, [&] {
        const auto connection = connect();
        in_transaction(*connection, [&] {
          connection->execute("create table if not exists thing(id integer)");
          connection->execute("insert into thing values (1)");
        });
      }));
    }
    for (auto& opener : openers) EXPECT_NO_THROW(opener.get());
    const auto connection = connect(Access::read);
    in_transaction(
        *connection, [&] { EXPECT_EQ(number_of(*connection, "select count(*) from thing"), 6); },
        Access::read);
  }
}

TEST_F(SqliteDriver, a_read_only_file_is_refused_for_writing_and_can_be_read) {
  ASSERT_EQ(chmod(directory_.c_str(), 0777), 0);
  create(*connect(), "create table thing(id integer)");
  ASSERT_EQ(chmod(file_.c_str(), 0444), 0);
  const AsOrdinaryUser ordinary;
  const auto error = error_of([&] { (void)connect(); });
  EXPECT_EQ(error.kind(), Kind::read_only) << error.what();
  EXPECT_TRUE(mentions(error, file_.string()));
  EXPECT_TRUE(mentions(error, "write permission"));
  const auto reader = connect(Access::read);
  in_transaction(
      *reader, [&] { EXPECT_EQ(number_of(*reader, "select count(*) from thing"), 0); },
      Access::read);
}

TEST_F(SqliteDriver, a_directory_without_write_permission_is_named) {
  create(*connect(), "create table thing(id integer)");
  ASSERT_EQ(chmod(file_.c_str(), 0666), 0);
  ASSERT_EQ(chmod(directory_.c_str(), 0555), 0);
  {
    const AsOrdinaryUser ordinary;
    const auto error = error_of([&] { create(*connect(), "create table other(id integer)"); });
    EXPECT_TRUE(error.kind() == Kind::read_only || error.kind() == Kind::permission)
        << error.what();
    EXPECT_TRUE(mentions(error, file_.string()));
    EXPECT_TRUE(mentions(error, "directory")) << error.what();
  }
  ASSERT_EQ(chmod(directory_.c_str(), 0755), 0);
}

TEST_F(SqliteDriver, a_missing_directory_is_named) {
  file_ = directory_ / "nowhere" / "store.db";
  const auto error = error_of([&] { (void)connect(); });
  EXPECT_EQ(error.kind(), Kind::connection_lost);
  EXPECT_TRUE(mentions(error, file_.string()));
  EXPECT_TRUE(mentions(error, "No such file or directory")) << error.what();
  EXPECT_TRUE(mentions(error, "check that the directory exists"));
}

TEST_F(SqliteDriver, a_file_that_is_no_database_is_corrupt) {
  std::ofstream{file_} << std::string(8192, 'x');
  const auto error = error_of([&] { (void)connect(); });
  EXPECT_EQ(error.kind(), Kind::corrupt);
  EXPECT_TRUE(mentions(error, file_.string()));
  EXPECT_TRUE(mentions(error, "check the path")) << error.what();
}

TEST_F(SqliteDriver, a_damaged_file_is_corrupt_and_its_connection_is_dropped) {
  {
    const auto connection = connect();
    create(*connection, "create table thing(id integer, data text)");
    in_transaction(*connection, [&] {
      connection->execute(
          "with recursive n(i) as (select 1 union all select i + 1 from n where i < 500) "
          "insert into thing select i, hex(randomblob(100)) from n");
    });
  }
  {
    std::fstream damage{file_, std::ios::in | std::ios::out | std::ios::binary};
    damage.seekp(4096);
    damage << std::string(std::size_t{3} * 4096, '\x5a');
  }
  const auto connection = connect();
  const auto error = error_of([&] {
    in_transaction(*connection,
                   [&] { connection->execute("update thing set data = data || 'x'"); });
  });
  EXPECT_EQ(error.kind(), Kind::corrupt) << error.what();
  EXPECT_TRUE(mentions(error, "restore a backup"));
  EXPECT_FALSE(connection->usable());
}

TEST_F(SqliteDriver, a_full_file_is_out_of_space) {
  const auto connection = connect();
  in_transaction(*connection, [&] {
    connection->execute("create table thing(data blob)");
    connection->execute("pragma max_page_count = 4");
  });
  const auto error = error_of([&] {
    in_transaction(*connection,
                   [&] { connection->execute("insert into thing values (zeroblob(100000))"); });
  });
  EXPECT_EQ(error.kind(), Kind::out_of_space);
  EXPECT_TRUE(mentions(error, "free some space")) << error.what();
  EXPECT_TRUE(connection->usable());
}

TEST_F(SqliteDriver, a_transaction_that_sqlite_rolled_back_cannot_be_committed) {
  const auto connection = connect();
  create(*connection, "create table thing(id integer primary key)");
  connection->begin(Access::write, Scope::caller);
  connection->execute("insert into thing values (1)");
  const auto lost =
      error_of([&] { connection->execute("insert or rollback into thing values (1)"); });
  EXPECT_EQ(lost.kind(), Kind::invalid_request);
  EXPECT_TRUE(mentions(lost, "rolled back the whole transaction")) << lost.what();
  const auto error = error_of([&] { connection->commit(); });
  EXPECT_TRUE(mentions(error, "nothing of it was committed")) << error.what();
}

TEST_F(SqliteDriver, a_failed_commit_leaves_no_transaction_open) {
  const auto connection = connect();
  create(*connection, "create table parent(id integer primary key)");
  create(*connection,
         "create table child(id integer references parent deferrable initially deferred)");
  // The pragma has no effect inside a transaction.
  connection->execute("pragma foreign_keys = on");
  connection->begin(Access::write, Scope::transaction);
  connection->execute("insert into child values (1)");
  const auto error = error_of([&] { connection->commit(); });
  EXPECT_EQ(error.kind(), Kind::invalid_request);
  EXPECT_TRUE(mentions(error, "commit: "));
  EXPECT_FALSE(connection->in_transaction());
  in_transaction(*connection,
                 [&] { EXPECT_EQ(number_of(*connection, "select count(*) from child"), 0); });
}

TEST_F(SqliteDriver, a_commit_that_the_disk_did_not_confirm_is_in_doubt) {
  const FailingDisk disk;
  const auto connection = connect();
  create(*connection, "create table thing(id integer)");
  connection->begin(Access::write, Scope::transaction);
  connection->execute("insert into thing values (1)");
  FailingDisk::fails = true;
  const auto error = error_of([&] { connection->commit(); });
  FailingDisk::fails = false;
  EXPECT_EQ(error.kind(), Kind::commit_in_doubt) << error.what();
  EXPECT_FALSE(error.retryable());
  EXPECT_TRUE(mentions(error, "before you repeat")) << error.what();
  EXPECT_FALSE(connection->usable());
  EXPECT_FALSE(connection->in_transaction());
}

TEST_F(SqliteDriver, a_missing_table_is_a_missing_schema) {
  const auto connection = connect();
  connection->begin(Access::read, Scope::statement);
  const auto error =
      error_of([&] { run(*connection, statement("claim", "select 1 from outbox_work")); });
  connection->rollback();
  EXPECT_EQ(error.kind(), Kind::missing_schema);
  EXPECT_TRUE(mentions(error, "claim: no such table: outbox_work; deploy the schema first"))
      << error.what();
}

TEST_F(SqliteDriver, a_refused_statement_is_an_invalid_request_without_its_data) {
  const auto connection = connect();
  create(*connection, "create table thing(id text primary key)");
  in_transaction(
      *connection,
      [&] {
        connection->execute("insert into thing values (@id)", {{"id", "secret"}});
        const auto error = error_of([&] {
          connection->execute("insert into thing values (@id)", {{"id", "secret"}});
        });
        EXPECT_EQ(error.kind(), Kind::invalid_request);
        EXPECT_FALSE(mentions(error, "secret")) << error.what();
        EXPECT_EQ(error.native_code(), std::to_string(SQLITE_CONSTRAINT_PRIMARYKEY));
        EXPECT_EQ(error_of([&] { connection->execute("selec 1"); }).kind(), Kind::invalid_request);
      },
      Access::write, Scope::caller);
}

TEST_F(SqliteDriver, an_interrupt_ends_a_running_statement) {
  const auto connection = connect();
  connection->begin(Access::read, Scope::statement);
  std::atomic<bool> running = false;
  std::jthread stopper{[&] {
    running.wait(false);
    connection->interrupt();
  }};
  const auto error = error_of([&] {
    connection->execute(
        "with recursive n(i) as (select 1 union all select i + 1 from n) select i from n", {},
        [&](const Row&) {
          running = true;
          running.notify_one();
        });
  });
  connection->rollback();
  EXPECT_EQ(error.kind(), Kind::cancelled);
  stopper.join();
  in_transaction(*connection, [&] { EXPECT_EQ(number_of(*connection, "select 1"), 1); });
}

TEST_F(SqliteDriver, an_interrupt_between_two_elements_is_not_lost) {
  const auto connection = connect();
  connection->begin(Access::read, Scope::statement);
  connection->interrupt();
  const std::vector<Value> ids{std::int64_t{1}, std::int64_t{2}};
  const auto error = error_of([&] {
    run(*connection, statement("select", "select @id"), {{"id", ValueType::integer, ids}});
  });
  EXPECT_EQ(error.kind(), Kind::cancelled);
  connection->rollback();
}

TEST_F(SqliteDriver, an_interrupt_ends_the_wait_for_a_busy_file) {
  options_.wait_limit = 1h;
  const auto first = connect();
  const auto second = connect();
  first->begin(Access::write, Scope::transaction);
  std::jthread stopper{[&] { second->interrupt(); }};
  const auto error = error_of([&] { second->begin(Access::write, Scope::transaction); });
  EXPECT_EQ(error.kind(), Kind::cancelled) << error.what();
  EXPECT_FALSE(second->in_transaction());
  first->rollback();
}

TEST_F(SqliteDriver, a_failed_call_in_a_callers_transaction_leaves_no_half) {
  const auto connection = connect();
  create(*connection, "create table thing(id integer primary key)");
  const auto insert = statement("insert", "insert into thing values (@id)");
  const std::vector<Value> ids{std::int64_t{1}, std::int64_t{2}, std::int64_t{1}};
  in_transaction(
      *connection,
      [&] {
        connection->execute("insert into thing values (7)");
        EXPECT_THROW(run(*connection, insert, {{"id", ValueType::integer, ids}}), DatabaseError);
        EXPECT_EQ(text_of(*connection, "select group_concat(id) from thing"), "7");
      },
      Access::write, Scope::caller);
}

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
