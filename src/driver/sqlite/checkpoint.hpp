// Copies the write-ahead log back into the file, while no connection can write.
#pragma once

#include <atomic>

#include <sqlite3.h>

namespace twinbox {

/// The checkpoints of one writing connection. SQLite 3.7.0 to 3.51.2 can damage a file when a
/// connection begins the log anew while another one checkpoints (sqlite.org/wal.html#walresetbug).
/// So the connection holds the write lock, and a second one that is opened for it checkpoints: that
/// keeps out every writer, also in other processes, and ends with the process that holds it.
class Checkpoints {
 public:
  /// Commits of `db` no longer checkpoint by themselves. `db` is borrowed.
  explicit Checkpoints(sqlite3* db) noexcept;
  Checkpoints(const Checkpoints&) = delete;
  Checkpoints& operator=(const Checkpoints&) = delete;

  /// True when the log has grown enough.
  [[nodiscard]] bool due() noexcept;
  /// Call it in a transaction that holds the write lock and has written nothing.
  void run() noexcept;

  /// Pages in the log; SQLite's own default. Only tests set it, before they open a store.
  static inline std::atomic<int> every = 1000;

 private:
  sqlite3* db_;
  int pages_ = 0;  ///< in the log, after the last commit
  int last_ = 0;   ///< when due() was last asked
  int next_ = every;
};

}  // namespace twinbox
