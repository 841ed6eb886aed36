// Detects commits in a SQLite file: `data_version` is the proof, inotify the hint to check it.
#pragma once

#include <memory>
#include <string>
#include <sys/types.h>

#include <sqlite3.h>

#include "database/watch.hpp"
#include "driver/sqlite/directory_watch.hpp"
#include "driver/sqlite/handle.hpp"
#include "driver/sqlite/prepared.hpp"

namespace twinbox {

/// The file may be missing, may be replaced, and may lie behind symbolic links.
class SqliteWatch final : public Watch {
 public:
  /// Without `directories`, or where they cannot be watched, the file is polled every few
  /// milliseconds. Throws DatabaseError.
  SqliteWatch(const std::string& file, std::shared_ptr<DirectoryWatch> directories);

  [[nodiscard]] int descriptor() const noexcept override;
  bool changed() override;
  [[nodiscard]] std::optional<Clock::time_point> look_again() const override;
  void set_waiting(bool waiting) override;

 private:
  struct Close {
    void operator()(sqlite3* db) const noexcept { sqlite3_close_v2(db); }
  };
  /// The file that a path leads to.
  struct Identity {
    dev_t device = 0;
    ino_t number = 0;
    bool operator==(const Identity&) const = default;
  };
  /// Counts the watches of this process that have no hints; they share a bound for the cost of
  /// polling.
  class PollingWatchCount {
   public:
    PollingWatchCount() noexcept;
    ~PollingWatchCount();
    PollingWatchCount(const PollingWatchCount&) = delete;
    PollingWatchCount& operator=(const PollingWatchCount&) = delete;
    [[nodiscard]] static Clock::duration interval() noexcept;
  };

  [[nodiscard]] std::optional<Identity> find() const;
  void follow_links();
  bool take_hints();
  bool look();
  bool open(const Identity& identity);
  void close() noexcept;
  void plan(bool restart);

  std::string file_;
  std::shared_ptr<DirectoryWatch> directories_;  ///< shared by all watches of the process
  DirectoryWatch::Hints hints_;
  std::unique_ptr<PollingWatchCount> polling_count_;
  std::unique_ptr<sqlite3, Close> db_;
  std::unique_ptr<SqliteHandle> handle_;
  PreparedStatement data_version_;
  std::optional<Identity> identity_;
  std::int64_t version_ = 0;
  bool waiting_ = true;
  bool busy_ = false;  ///< the last poll got no answer
  Clock::duration step_ = {};
  Clock::duration waited_ = {};  ///< since the last hint or change
  Clock::time_point next_look_ = {};
};

}  // namespace twinbox
