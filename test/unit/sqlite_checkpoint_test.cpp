// Checkpoints: only while no connection can write, and often enough that the log stays short.
#include <functional>
#include <map>
#include <set>

#include <sqlite3.h>

#include "sqlite_driver_test.hpp"

namespace twinbox {
namespace {

using namespace sqlite_test;

/// Sees every write to a database file, and which connections hold the write lock of its log: files
/// opened while this lives are watched.
class WatchedDisk {
 public:
  WatchedDisk() {
    holders.clear();
    guarded = unguarded = 0;
    on_unlock = {};
    system = sqlite3_vfs_find(nullptr);
    vfs_ = *system;
    vfs_.zName = "watched";
    vfs_.xOpen = [](sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out) {
      const int code = system->xOpen(system, name, file, flags, out);
      if (code != SQLITE_OK || (flags & SQLITE_OPEN_MAIN_DB) == 0) return code;
      original = *file->pMethods;
      methods = original;
      methods.xWrite = write;
      methods.xShmLock = lock;
      methods.xShmUnmap = [](sqlite3_file* closed, int deletes) {
        holders.erase(closed);
        return original.xShmUnmap(closed, deletes);
      };
      file->pMethods = &methods;
      return code;
    };
    sqlite3_vfs_register(&vfs_, 1);
  }
  ~WatchedDisk() {
    sqlite3_vfs_unregister(&vfs_);
    sqlite3_vfs_register(system, 1);
  }
  WatchedDisk(const WatchedDisk&) = delete;
  WatchedDisk& operator=(const WatchedDisk&) = delete;

  static inline int guarded = 0;    ///< writes while a connection held the write lock
  static inline int unguarded = 0;  ///< writes while none did
  /// Called once, when a writer has let go of the lock.
  static inline std::function<void()> on_unlock = {};

 private:
  static constexpr int write_lock = 0;  // WAL_WRITE_LOCK

  static int write(sqlite3_file* file, const void* data, int size, sqlite3_int64 at) {
    ++(holders.empty() ? unguarded : guarded);
    return original.xWrite(file, data, size, at);
  }
  static int lock(sqlite3_file* file, int first, int count, int flags) {
    const int code = original.xShmLock(file, first, count, flags);
    if (code != SQLITE_OK || first != write_lock || (flags & SQLITE_SHM_EXCLUSIVE) == 0)
      return code;
    if ((flags & SQLITE_SHM_LOCK) != 0) {
      holders.insert(file);
    } else {
      holders.erase(file);
      if (const auto act = std::exchange(on_unlock, {})) act();
    }
    return code;
  }

  static inline sqlite3_vfs* system = nullptr;
  static inline sqlite3_io_methods original = {};
  static inline sqlite3_io_methods methods = {};
  static inline std::set<sqlite3_file*> holders = {};
  sqlite3_vfs vfs_ = {};
};

class SqliteCheckpoint : public SqliteDriver {
 protected:
  /// One transaction of about as many mebibytes.
  void write(Connection& connection, int mebibytes) {
    in_transaction(connection, [&] {
      connection.execute("insert into thing values (zeroblob(" +
                         std::to_string(mebibytes * 1'048'576) + "))");
    });
  }
  [[nodiscard]] std::uintmax_t log_size() const {
    return std::filesystem::file_size(file_.string() + "-wal");
  }
  /// How many rows a fresh reader finds in an undamaged file.
  std::int64_t sound_rows() {
    const auto reader = connect(Access::read);
    std::int64_t rows = 0;
    in_transaction(
        *reader,
        [&] {
          EXPECT_EQ(text_of(*reader, "pragma integrity_check"), "ok");
          rows = number_of(*reader, "select count(*) from thing");
        },
        Access::read);
    return rows;
  }
};

TEST_F(SqliteCheckpoint, writes_to_the_file_only_while_it_holds_the_write_lock) {
  const WatchedDisk disk;
  const auto connection = connect();
  create(*connection, "create table thing(data blob)");
  WatchedDisk::unguarded = 0;  // the file was made without a log
  for (int i = 0; i < 5; ++i) write(*connection, 5);
  EXPECT_GT(WatchedDisk::guarded, 1000);
  EXPECT_EQ(WatchedDisk::unguarded, 0);
}

TEST_F(SqliteCheckpoint, leaves_a_file_alone_that_another_connection_writes_to) {
  const WatchedDisk disk;
  const auto connection = connect();
  const auto other = connect();
  create(*connection, "create table thing(data blob)");
  WatchedDisk::unguarded = WatchedDisk::guarded = 0;
  WatchedDisk::on_unlock = [&] { other->begin(Access::write, Scope::transaction); };
  write(*connection, 5);
  ASSERT_TRUE(other->in_transaction());
  EXPECT_EQ(WatchedDisk::guarded + WatchedDisk::unguarded, 0);
  other->rollback();
  write(*connection, 1);
  EXPECT_GT(WatchedDisk::guarded, 1000);
  EXPECT_EQ(WatchedDisk::unguarded, 0);
  EXPECT_EQ(sound_rows(), 2);
}

TEST_F(SqliteCheckpoint, keeps_the_log_short) {
  const auto connection = connect();
  const auto reader = connect(Access::read);
  create(*connection, "create table thing(data blob)");
  for (int i = 0; i < 40; ++i) write(*connection, 1);
  EXPECT_LT(log_size(), 8u * 1'048'576);
  EXPECT_EQ(sound_rows(), 40);
}

TEST_F(SqliteCheckpoint, comes_back_to_a_log_that_a_reader_held) {
  const auto connection = connect();
  const auto reader = connect(Access::read);
  create(*connection, "create table thing(data blob)");
  reader->begin(Access::read, Scope::transaction);
  EXPECT_EQ(number_of(*reader, "select count(*) from thing"), 0);
  for (int i = 0; i < 20; ++i) write(*connection, 1);
  EXPECT_EQ(number_of(*reader, "select count(*) from thing"), 0);
  reader->rollback();
  for (int i = 0; i < 10; ++i) write(*connection, 1);
  const auto before = log_size();
  for (int i = 0; i < 40; ++i) write(*connection, 1);
  EXPECT_EQ(log_size(), before);
  EXPECT_EQ(sound_rows(), 70);
}

}  // namespace
}  // namespace twinbox
