#include "driver/sqlite/store_file.hpp"

#include <filesystem>
#include <sys/stat.h>
#include <utility>

namespace twinbox {

StoreFile::StoreFile(const std::string& path) : path_(std::filesystem::absolute(path).string()) {}

StoreFile::Use::Use(std::shared_ptr<StoreFile> file, sqlite3* db) : file_(std::move(file)) {
  const std::string opened = sqlite3_db_filename(db, "main");
  int moved = 0;
  sqlite3_file_control(db, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
  if (moved != 0) {
    throw DatabaseError(DatabaseError::Kind::connection_lost,
                        "open: the store file " + opened +
                            " was removed or replaced while it was being opened; try again",
                        std::to_string(SQLITE_READONLY_DBMOVED));
  }
  {
    const std::scoped_lock lock{file_->mutex_};
    if (!file_->file_) file_->file_ = find(file_->path_);
    file_->log_path_ = opened + "-wal";
    file_->index_path_ = opened + "-shm";
  }
  file_->check("open");
  const std::scoped_lock lock{file_->mutex_};
  ++file_->uses_;
}

StoreFile::Use::~Use() {
  const std::scoped_lock lock{file_->mutex_};
  if (--file_->uses_ > 0) return;
  file_->log_.reset();
  file_->index_.reset();
}

std::optional<StoreFile::Identity> StoreFile::find(const std::string& path) noexcept {
  struct stat found {};
  if (::stat(path.c_str(), &found) == 0) return Identity{found.st_dev, found.st_ino};
  return {};
}

std::string StoreFile::problem() const {
  const std::scoped_lock lock{mutex_};
  if (file_) {
    const auto now = find(path_);
    if (!now) {
      return "the store file " + path_ +
             " was removed or renamed while it was in use, and nothing more is written to it; put "
             "it back under this name, or restore a backup and restart this program";
    }
    if (*now != *file_) {
      return "another file has taken the name of the store file " + path_ +
             " while it was in use, and neither of them is written to; put the first one back, or "
             "restart this program to use the new one";
    }
  }
  if (log_ && find(log_path_) != log_) {
    return "the write-ahead log " + log_path_ +
           " was removed or replaced while it was in use, and nothing more is written; stop this "
           "program, which saves what it holds of the log, before another one opens the store";
  }
  if (index_ && find(index_path_) != index_) {
    return "the shared memory " + index_path_ +
           " of the write-ahead log was removed or replaced while it was in use, and nothing more "
           "is written, because another program would lock and index the log by a new one; stop "
           "this program before another one opens the store";
  }
  return {};
}

void StoreFile::check(std::string_view what) const {
  const std::string words = problem();
  if (words.empty()) return;
  throw DatabaseError(DatabaseError::Kind::read_only, std::string{what} + ": " + words,
                      std::to_string(SQLITE_READONLY_DBMOVED));
}

void StoreFile::remember_log() {
  const std::scoped_lock lock{mutex_};
  if (!log_) log_ = find(log_path_);
  if (!index_) index_ = find(index_path_);
}

}  // namespace twinbox
