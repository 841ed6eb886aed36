// What goes wrong with a file: busy, read-only, damaged, full, interrupted.
#include <fstream>
#include <future>
#include <stdexcept>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include <sqlite3.h>

#include "sqlite_driver_test.hpp"
#include "support/ordinary_user.hpp"

namespace twinbox {
namespace {

using namespace sqlite_test;
using test::AsOrdinaryUser;

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
  EXPECT_TRUE(mentions(error, "wait_timeout (10 ms)")) << error.what();
  EXPECT_TRUE(second->usable());
  in_transaction(
      *second, [&] { EXPECT_EQ(number_of(*second, "select count(*) from thing"), 0); },
      Access::read);
  first->commit();
  in_transaction(*second, [&] { EXPECT_EQ(number_of(*second, "select count(*) from thing"), 1); });
}

TEST_F(SqliteDriver, waits_for_a_busy_file_within_the_limit) {
  options_.wait_timeout = 60s;
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
  options_.wait_timeout = 60s;
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
  options_.wait_timeout = 1h;
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

}  // namespace
}  // namespace twinbox
