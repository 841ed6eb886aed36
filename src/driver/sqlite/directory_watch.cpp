#include "driver/sqlite/directory_watch.hpp"

#include <array>
#include <cstring>
#include <filesystem>
#include <sys/inotify.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace twinbox {
namespace {

constexpr std::uint32_t changes = IN_MODIFY | IN_ATTRIB | IN_CREATE | IN_DELETE | IN_MOVED_FROM |
                                  IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF;
// Only of the directory itself: a commit opens it. Files in it are opened all the time.
constexpr std::uint32_t interesting = changes | IN_OPEN | IN_ONLYDIR;

/// One read serves the queries of this many files.
constexpr std::size_t files_in_a_read = 64;
constexpr std::chrono::microseconds just_now{50};
constexpr int most_links = 40;

/// The database's own name, without what SQLite appends for its log and journal.
std::string_view base_of(std::string_view name) {
  for (const std::string_view suffix : {"-wal", "-journal", "-shm"}) {
    if (name.ends_with(suffix)) return name.substr(0, name.size() - suffix.size());
  }
  return name;
}

/// A commit writes to the log, or ends with the journal. Checkpoints write the file itself, and
/// opening and closing the file creates and removes the log and its index.
bool may_be_a_commit(std::string_view name, std::uint32_t event) {
  if (name.ends_with("-shm")) return false;
  if (name.ends_with("-wal")) return (event & IN_MODIFY) != 0;
  if (name.ends_with("-journal")) return (event & (IN_MODIFY | IN_DELETE | IN_MOVED_FROM)) != 0;
  return (event & (IN_CREATE | IN_MOVED_TO)) != 0;
}

}  // namespace

std::shared_ptr<DirectoryWatch> DirectoryWatch::shared() {
  static std::mutex mutex;
  static std::weak_ptr<DirectoryWatch> instance;
  const std::scoped_lock lock{mutex};
  auto found = instance.lock();
  if (found == nullptr) {
    const int descriptor = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (descriptor < 0) return nullptr;
    found = std::make_shared<DirectoryWatch>(descriptor);
    instance = found;
  }
  return found;
}

DirectoryWatch::~DirectoryWatch() { ::close(descriptor_); }

std::unique_ptr<DirectoryWatch::Hint> DirectoryWatch::watch(
    const std::shared_ptr<DirectoryWatch>& shared, const std::string& directory,
    const std::string& name, Notify tells) {
  const std::scoped_lock lock{shared->mutex_};
  const int number =
      ::inotify_add_watch(shared->descriptor_, directory.c_str(), interesting | IN_MASK_ADD);
  if (number < 0) return nullptr;
  std::unique_ptr<Hint> hint{new Hint(shared, number, name, tells)};
  shared->directories_[number].emplace(name, hint.get());
  ++shared->hints_;
  return hint;
}

DirectoryWatch::Hints DirectoryWatch::follow(const std::shared_ptr<DirectoryWatch>& shared,
                                             const std::string& file, Notify tells) {
  namespace fs = std::filesystem;
  Hints hints;
  fs::path path = file;
  for (int links = 0; shared != nullptr && links < most_links; ++links) {
    auto hint = watch(shared, path.parent_path(), path.filename(), tells);
    if (hint == nullptr) return {};
    hints.push_back(std::move(hint));
    std::error_code none;
    const fs::path target = fs::read_symlink(path, none);
    if (none) break;
    path = target.is_absolute() ? target : path.parent_path() / target;
  }
  return hints;
}

DirectoryWatch::Hint::Hint(std::shared_ptr<DirectoryWatch> owner, int directory, std::string name,
                           Notify tells)
    : owner_(std::move(owner)), directory_(directory), name_(std::move(name)), notify_(tells) {}

DirectoryWatch::Hint::~Hint() {
  const std::scoped_lock lock{owner_->mutex_};
  --owner_->hints_;
  const auto found = owner_->directories_.find(directory_);
  if (lost_ || found == owner_->directories_.end()) return;
  std::erase_if(found->second, [&](const auto& entry) { return entry.second == this; });
  if (!found->second.empty()) return;
  ::inotify_rm_watch(owner_->descriptor_, directory_);
  owner_->directories_.erase(found);
}

bool DirectoryWatch::Hint::take() {
  owner_->drain();
  return told_ && told_.exchange(false);
}

bool DirectoryWatch::Hint::told() const { return told_; }

void DirectoryWatch::Hint::confirm() {
  const std::scoped_lock lock{owner_->mutex_};
  written_ = false;
}

bool DirectoryWatch::Hint::lost() const { return lost_; }

void DirectoryWatch::drain() {
  // A thousand files are queried one after the other; events since the first query keep the
  // descriptor readable.
  const auto now = Clock::now().time_since_epoch();
  if (now - Clock::duration{drained_} < just_now * (1 + hints_ / files_in_a_read)) return;
  const std::scoped_lock lock{mutex_};
  drained_ = now.count();
  alignas(inotify_event) std::array<char, 16384> buffer{};
  // Bounded: later events make the descriptor readable again.
  for (int round = 0; round < 64; ++round) {
    const ssize_t size = ::read(descriptor_, buffer.data(), buffer.size());
    if (size <= 0) return;
    for (std::size_t at = 0; at < static_cast<std::size_t>(size);) {
      inotify_event event{};
      std::memcpy(&event, buffer.data() + at, sizeof event);
      const char* name = buffer.data() + at + sizeof event;
      at += sizeof event + event.len;
      if ((event.mask & IN_Q_OVERFLOW) != 0) {
        mark_all();
      } else if ((event.mask & (IN_IGNORED | IN_DELETE_SELF | IN_MOVE_SELF)) != 0) {
        lose(event.wd);
      } else if (event.len == 0) {
        mark_written(event.wd);
      } else if ((event.mask & changes) != 0) {
        mark(event.wd, std::string_view{name}, event.mask);
      }
    }
  }
}

void DirectoryWatch::mark(int directory, std::string_view name, std::uint32_t event) {
  const auto found = directories_.find(directory);
  if (found == directories_.end()) return;
  const bool commit = may_be_a_commit(name, event);
  const auto set = [&](std::string_view file) {
    const auto [begin, end] = found->second.equal_range(file);
    for (auto at = begin; at != end; ++at) {
      Hint& hint = *at->second;
      if (commit || hint.notify_ == Notify::changes) {
        hint.written_ = true;
        hint.told_ = true;
      }
    }
  };
  set(name);
  if (const auto base = base_of(name); base != name) set(base);
}

void DirectoryWatch::mark_written(int directory) {
  const auto found = directories_.find(directory);
  if (found == directories_.end()) return;
  for (auto& [name, hint] : found->second) {
    if (hint->written_) hint->told_ = true;
    // No confirmation follows: a write is reported twice, not with every commit to other files.
    if (hint->notify_ == Notify::commits) hint->written_ = false;
  }
}

void DirectoryWatch::mark_all() {
  for (auto& [number, names] : directories_) {
    for (auto& [name, hint] : names) hint->told_ = true;
  }
}

void DirectoryWatch::lose(int directory) {
  const auto found = directories_.find(directory);
  if (found == directories_.end()) return;
  for (auto& [name, hint] : found->second) {
    hint->lost_ = true;
    hint->told_ = true;
  }
  ::inotify_rm_watch(descriptor_, directory);  // a moved directory still exists
  directories_.erase(found);
}

}  // namespace twinbox
