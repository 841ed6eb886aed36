#include "driver/sqlite/sqlite_inotify_watch.hpp"

#include <algorithm>
#include <filesystem>

#include "twinbox/error.hpp"

namespace twinbox {

SqliteInotifyWatch::SqliteInotifyWatch(const std::string& file,
                                       const std::shared_ptr<DirectoryWatch>& directories)
    : file_(std::filesystem::absolute(file).string()), directories_(directories) {
  if (directories_ == nullptr) {
    throw WatchImpossible("sqlite:" + file_ +
                          ": the system has no inotify instance left, so the file is polled; raise "
                          "fs.inotify.max_user_instances or connections_to_files");
  }
  follow_links();
}

void SqliteInotifyWatch::follow_links() {
  hints_.clear();
  hints_ = DirectoryWatch::follow(directories_, file_, DirectoryWatch::Notify::commits);
  if (!hints_.empty()) return;
  throw DatabaseError(DatabaseError::Kind::connection_lost,
                      "sqlite:" + file_ +
                          ": its directory cannot be watched; check that it exists and that "
                          "fs.inotify.max_user_watches is not used up");
}

int SqliteInotifyWatch::descriptor() const noexcept {
  return waiting_ ? directories_->descriptor() : -1;
}

std::optional<Watch::Clock::time_point> SqliteInotifyWatch::look_again() const {
  if (!waiting_) return {};
  // Another watch has read the event: the descriptor will not report it again.
  const bool told = std::ranges::any_of(hints_, [](const auto& hint) { return hint->told(); });
  return told ? std::optional{Clock::time_point{}} : std::nullopt;
}

bool SqliteInotifyWatch::changed() {
  if (!waiting_) return false;
  bool told = false;
  bool lost = false;
  for (const auto& hint : hints_) {
    told = hint->take() || told;
    lost = hint->lost() || lost;
  }
  if (lost) follow_links();
  return told;
}

}  // namespace twinbox
