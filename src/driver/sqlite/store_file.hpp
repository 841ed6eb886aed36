// The identity of a store's file: detects when its name leads to another file or to none.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>

#include <sqlite3.h>

#include "twinbox/error.hpp"

namespace twinbox {

/// The database file, its write-ahead log and the shared memory of the log, shared by the
/// connections of one driver. What is written to a file that no name leads to is lost with the last
/// process that has it open; what is written to another file than before may be anybody's.
/// Thread-safe.
class StoreFile {
 public:
  /// `path` as it was given; relative ones count from the current directory of the process.
  explicit StoreFile(const std::string& path);

  /// A connection that is open. End it before the connection is closed: the last one removes the
  /// log and its shared memory.
  class Use {
   public:
    /// Throws as check() does, and DatabaseError `connection_lost` when the file was replaced while
    /// `db` was being opened.
    Use(std::shared_ptr<StoreFile> file, sqlite3* db);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    std::shared_ptr<StoreFile> file_;  ///< shared by the driver and its connections
  };

  /// What is wrong, as words for an error; empty: the files are where they were. A file that was
  /// not opened yet may be missing.
  [[nodiscard]] std::string problem() const;
  /// Throws DatabaseError `read_only` with SQLite's code for a file that has moved.
  void check(std::string_view what) const;
  /// The log and its shared memory are there now: from here on they must stay.
  void remember_log();

 private:
  struct Identity {
    dev_t device = 0;
    ino_t number = 0;
    bool operator==(const Identity&) const = default;
  };
  static std::optional<Identity> find(const std::string& path) noexcept;

  const std::string path_;
  mutable std::mutex mutex_;
  std::string log_path_;  ///< next to the file that symbolic links lead to
  std::string index_path_;
  std::optional<Identity> file_;
  std::optional<Identity> log_;    ///< while a connection is open
  std::optional<Identity> index_;  ///< the same
  int uses_ = 0;
};

}  // namespace twinbox
