// A SQLite file that is watched without being opened: what is taken for a commit, and what is not.
#include "driver/sqlite/sqlite_inotify_watch.hpp"

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include <gtest/gtest.h>
#include <sqlite3.h>

#include "support/process.hpp"
#include <twinbox/error.hpp>
#include <twinbox/outbox.hpp>

namespace twinbox {
namespace {

namespace fs = std::filesystem;

class SqliteInotifyWatchTest : public testing::Test {
 protected:
  SqliteInotifyWatchTest() : folder_(make_folder()) {}
  ~SqliteInotifyWatchTest() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  [[nodiscard]] std::string path(const std::string& name = "store.db") const {
    return (folder_ / name).string();
  }
  std::unique_ptr<SqliteInotifyWatch> watch(const std::string& name = "store.db") {
    return std::make_unique<SqliteInotifyWatch>(path(name), directories_);
  }
  /// What has happened is told at once: whoever looks reads it all.
  static int times_told(SqliteInotifyWatch& hint) {
    int times = 0;
    while (hint.changed()) ++times;
    return times;
  }

  struct Close {
    void operator()(sqlite3* db) const noexcept { sqlite3_close(db); }
  };
  using Connection = std::unique_ptr<sqlite3, Close>;
  [[nodiscard]] Connection open(const std::string& name = "store.db") const {
    sqlite3* db = nullptr;
    EXPECT_EQ(sqlite3_open(path(name).c_str(), &db), SQLITE_OK);
    Connection connection{db};
    sqlite3_busy_timeout(db, 10'000);
    return connection;
  }
  static void run(const Connection& connection, const char* sql) {
    EXPECT_EQ(sqlite3_exec(connection.get(), sql, nullptr, nullptr, nullptr), SQLITE_OK)
        << sqlite3_errmsg(connection.get());
  }
  void make_store(const std::string& name = "store.db", const char* mode = "wal") {
    const Connection db = open(name);
    run(db, ("pragma journal_mode = " + std::string{mode} + "; create table t (x)").c_str());
  }

  fs::path folder_;
  std::shared_ptr<DirectoryWatch> directories_ = DirectoryWatch::shared();

 private:
  static fs::path make_folder() {
    std::string pattern = (fs::temp_directory_path() / "hint_XXXXXX").string();
    return mkdtemp(pattern.data());
  }
};

TEST_F(SqliteInotifyWatchTest, hears_each_commit_and_has_the_file_not_open) {
  make_store();
  const auto hint = watch();
  EXPECT_EQ(test::open_files(path()), 0u);
  EXPECT_FALSE(hint->changed());
  const Connection db = open();
  for (int i = 0; i < 5; ++i) {
    run(db, "insert into t values (1)");
    EXPECT_TRUE(hint->look_again() || hint->changed()) << i;
    times_told(*hint);
    EXPECT_FALSE(hint->changed()) << i;
  }
}

TEST_F(SqliteInotifyWatchTest, hears_nothing_when_the_file_is_opened_read_checkpointed_and_closed) {
  make_store();
  Connection db = open();
  run(db, "insert into t values (1)");
  const auto hint = watch();
  times_told(*hint);
  run(db, "pragma wal_checkpoint(passive)");
  EXPECT_FALSE(hint->changed()) << "a look would open the file, and its end would be told again";
  db.reset();
  for (int i = 0; i < 3; ++i) {
    const Connection reader = open();
    run(reader, "begin immediate; select * from t; commit");
  }
  EXPECT_FALSE(hint->changed());
}

TEST_F(SqliteInotifyWatchTest, hears_nothing_of_another_file_of_the_directory) {
  make_store("one.db");
  make_store("two.db");
  const auto one = watch("one.db");
  const auto two = watch("two.db");
  run(open("two.db"), "insert into t values (1)");
  EXPECT_FALSE(one->changed());
  EXPECT_TRUE(two->look_again()) << "read by the other, and kept for this one";
  EXPECT_TRUE(two->changed());
}

TEST_F(SqliteInotifyWatchTest, is_told_once_more_when_a_commit_of_ours_has_ended) {
  Database database("sqlite:" + path());
  Outbox outbox(database, {.deploy_schema = true});
  make_store("other.db");
  const auto hint = watch();
  const auto other = watch("other.db");
  outbox.enqueue({.topic = Topic{"order.placed"}, .payload = "x"});
  EXPECT_TRUE(hint->changed());
  times_told(*hint);
  Database elsewhere("sqlite:" + path("elsewhere.db"));
  Outbox(elsewhere, {.deploy_schema = true});
  EXPECT_FALSE(hint->changed()) << "commits to other files are none of its business";
  EXPECT_FALSE(other->changed());
}

TEST_F(SqliteInotifyWatchTest, hears_commits_with_a_rollback_journal) {
  for (const char* mode : {"delete", "truncate", "persist"}) {
    const std::string name = std::string{mode} + ".db";
    make_store(name, mode);
    const auto hint = watch(name);
    const Connection db = open(name);
    run(db, ("pragma journal_mode = " + std::string{mode}).c_str());
    times_told(*hint);
    run(db, "insert into t values (1)");
    EXPECT_TRUE(hint->changed()) << mode;
  }
}

TEST_F(SqliteInotifyWatchTest, hears_of_a_file_that_is_made_or_replaced) {
  make_store("new.db");
  const auto hint = watch();
  EXPECT_FALSE(hint->changed());
  make_store();
  EXPECT_TRUE(hint->changed());
  times_told(*hint);
  fs::rename(path("new.db"), path());
  EXPECT_TRUE(hint->changed());
}

TEST_F(SqliteInotifyWatchTest, keeps_what_it_hears_while_nobody_waits) {
  make_store();
  const auto hint = watch();
  hint->set_waiting(false);
  EXPECT_LT(hint->descriptor(), 0);
  run(open(), "insert into t values (1)");
  EXPECT_FALSE(hint->changed());
  EXPECT_FALSE(hint->look_again());
  hint->set_waiting(true);
  EXPECT_TRUE(hint->changed());
}

TEST_F(SqliteInotifyWatchTest, follows_links_and_says_when_the_directory_is_gone) {
  fs::create_directory(folder_ / "real");
  fs::create_symlink("real/store.db", path());
  make_store("real/store.db");
  const auto hint = watch();
  run(open("real/store.db"), "insert into t values (1)");
  EXPECT_TRUE(hint->changed());
  times_told(*hint);
  fs::remove_all(folder_ / "real");
  try {
    while (true) {
      if (!hint->changed() && !hint->look_again()) FAIL() << "it goes on without a directory";
    }
  } catch (const DatabaseError& error) {
    EXPECT_EQ(error.kind(), DatabaseError::Kind::connection_lost);
    EXPECT_NE(std::string_view{error.what()}.find(path()), std::string_view::npos);
  }
}

TEST_F(SqliteInotifyWatchTest, is_impossible_without_inotify) {
  EXPECT_THROW(SqliteInotifyWatch(path(), nullptr), WatchImpossible);
}

}  // namespace
}  // namespace twinbox
