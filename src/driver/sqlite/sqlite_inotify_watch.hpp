// Detects commits in a SQLite file without opening it: by inotify alone.
#pragma once

#include <memory>
#include <string>

#include "database/watch.hpp"
#include "driver/sqlite/directory_watch.hpp"

namespace twinbox {

/// Reports a commit when it was written to the log, and again when a commit of Twinbox has ended. A
/// commit of another program may become visible a little later: poll a few times.
class SqliteInotifyWatch final : public Watch {
 public:
  /// Throws DatabaseError when the directory cannot be watched now, WatchImpossible when the system
  /// has no inotify instance left.
  SqliteInotifyWatch(const std::string& file, const std::shared_ptr<DirectoryWatch>& directories);

  [[nodiscard]] int descriptor() const noexcept override;
  bool changed() override;
  [[nodiscard]] std::optional<Clock::time_point> look_again() const override;
  void set_waiting(bool waiting) override { waiting_ = waiting; }

 private:
  void follow_links();

  std::string file_;
  std::shared_ptr<DirectoryWatch> directories_;  ///< shared by all watches of the process
  DirectoryWatch::Hints hints_;
  bool waiting_ = true;
};

}  // namespace twinbox
