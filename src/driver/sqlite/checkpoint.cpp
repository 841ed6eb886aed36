#include "driver/sqlite/checkpoint.hpp"

#include <utility>

namespace twinbox {

Checkpoints::Checkpoints(sqlite3* db) noexcept : db_(db) {
  // Replaces SQLite's own hook, which checkpoints.
  sqlite3_wal_hook(
      db,
      [](void* self, sqlite3*, const char*, int pages) {
        static_cast<Checkpoints*>(self)->pages_ = pages;
        return SQLITE_OK;
      },
      this);
}

bool Checkpoints::due() noexcept {
  if (pages_ < std::exchange(last_, pages_)) next_ = every;  // the log began anew
  return pages_ >= next_;
}

void Checkpoints::run() noexcept {
  // Pages that a reader keeps in the log, or a failure leaves there, are retried some pages later.
  next_ = pages_ + every;
  sqlite3* second = nullptr;
  const int code =
      sqlite3_open_v2(sqlite3_db_filename(db_, "main"), &second,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nullptr);
  // A connection without a read so far does not know that there is a log.
  if (code == SQLITE_OK &&
      sqlite3_exec(second, "pragma user_version", nullptr, nullptr, nullptr) == SQLITE_OK) {
    sqlite3_wal_checkpoint_v2(second, "main", SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
  }
  sqlite3_close_v2(second);
}

}  // namespace twinbox
