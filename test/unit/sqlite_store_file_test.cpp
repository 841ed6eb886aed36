// A store whose file is removed, renamed or replaced while it is in use.
#include <fstream>

#include <sqlite3.h>

#include "sqlite_driver_test.hpp"

namespace twinbox {
namespace {

using namespace sqlite_test;
namespace fs = std::filesystem;

class SqliteStoreFile : public SqliteDriver {
 protected:
  void SetUp() override {
    SqliteDriver::SetUp();
    store_ = driver();
    connection_ = store_->connect(Access::write);
    create(*connection_, "create table thing(id integer)");
  }
  void TearDown() override {
    connection_.reset();
    SqliteDriver::TearDown();
  }
  void insert() {
    in_transaction(*connection_, [&] { connection_->execute("insert into thing values (1)"); });
  }
  /// Reads, writes and new connections are all refused, with these words.
  void expect_refused(std::string_view words) {
    for (const Access access : {Access::read, Access::write, Access::write_relaxed}) {
      const auto error = error_of([&] { connection_->begin(access, Scope::transaction); });
      connection_->rollback();
      EXPECT_EQ(error.kind(), Kind::read_only);
      EXPECT_EQ(error.native_code(), std::to_string(SQLITE_READONLY_DBMOVED));
      EXPECT_TRUE(mentions(error, words)) << error.what();
      EXPECT_TRUE(mentions(error, file_.string())) << error.what();
      EXPECT_TRUE(mentions(error_of([&] { (void)store_->connect(access); }), words));
    }
  }
  [[nodiscard]] std::string moved() const { return file_.string() + ".moved"; }

  std::unique_ptr<Driver> store_;
  std::unique_ptr<Connection> connection_;
};

TEST_F(SqliteStoreFile, that_was_removed_is_refused_and_not_made_anew) {
  fs::remove(file_);
  expect_refused("was removed or renamed");
  EXPECT_FALSE(fs::exists(file_));
}

TEST_F(SqliteStoreFile, that_was_renamed_is_refused_until_it_is_back) {
  fs::rename(file_, moved());
  expect_refused("was removed or renamed");
  fs::rename(moved(), file_);
  insert();
  in_transaction(
      *connection_, [&] { EXPECT_EQ(number_of(*connection_, "select count(*) from thing"), 1); },
      Access::read);
}

TEST_F(SqliteStoreFile, that_was_replaced_is_refused_as_another_file) {
  fs::rename(file_, moved());
  std::ofstream{file_};
  expect_refused("another file has taken the name");
  EXPECT_EQ(fs::file_size(file_), 0u);
}

TEST_F(SqliteStoreFile, behind_a_link_that_leads_elsewhere_is_refused_as_another_file) {
  const fs::path other = directory_ / "other.db";
  const fs::path link = directory_ / "link.db";
  fs::create_symlink(file_, link);
  store_ = make_sqlite_driver(link.string(), options_, {});
  connection_ = store_->connect(Access::write);
  insert();
  std::ofstream{other};
  fs::remove(link);
  fs::create_symlink(other, link);
  file_ = link;
  expect_refused("another file has taken the name");
}

TEST_F(SqliteStoreFile, whose_log_was_removed_is_refused_and_saved_when_it_is_closed) {
  insert();
  fs::remove(file_.string() + "-wal");
  expect_refused("write-ahead log");
  connection_.reset();
  connection_ = store_->connect(Access::write);
  insert();
  in_transaction(
      *connection_, [&] { EXPECT_EQ(number_of(*connection_, "select count(*) from thing"), 2); },
      Access::read);
}

TEST_F(SqliteStoreFile, whose_shared_memory_was_removed_is_refused_and_works_after_a_close) {
  insert();
  fs::remove(file_.string() + "-shm");
  expect_refused("shared memory");
  connection_.reset();
  connection_ = store_->connect(Access::write);
  insert();
  in_transaction(
      *connection_, [&] { EXPECT_EQ(number_of(*connection_, "select count(*) from thing"), 2); },
      Access::read);
}

TEST_F(SqliteStoreFile, that_is_removed_during_a_transaction_confirms_no_commit) {
  connection_->begin(Access::write, Scope::transaction);
  connection_->execute("insert into thing values (1)");
  fs::remove(file_);
  const auto error = error_of([&] { connection_->commit(); });
  EXPECT_EQ(error.kind(), Kind::commit_in_doubt);
  EXPECT_TRUE(mentions(error, "was removed or renamed")) << error.what();
  EXPECT_TRUE(mentions(error, "before you repeat")) << error.what();
}

TEST_F(SqliteStoreFile, that_nobody_has_open_may_lose_its_log) {
  insert();
  connection_.reset();
  EXPECT_FALSE(fs::exists(file_.string() + "-wal"));
  connection_ = store_->connect(Access::write);
  insert();
}

}  // namespace
}  // namespace twinbox
