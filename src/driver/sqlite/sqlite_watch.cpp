#include "driver/sqlite/sqlite_watch.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <new>
#include <sys/stat.h>
#include <system_error>
#include <utility>

namespace twinbox {
namespace {

using namespace std::chrono_literals;

// The hint comes when a commit is written, the confirmation only once it is on disk: so it is
// polled repeatedly, each time after a quarter of the time so far. A disk that took t to sync costs
// t / 4 at most.
constexpr std::chrono::microseconds first_step = 100us;
constexpr std::chrono::milliseconds slow_sync = 50ms;  // from here on the interval doubles
// For changes without a hint: a replaced parent directory, a network file system.
constexpr std::chrono::seconds heartbeat = 5s;
constexpr std::chrono::milliseconds blind_interval = 10ms;

std::atomic<int> blind_count = 0;

bool is_busy(int code) {
  const int primary = code & 0xff;
  return primary == SQLITE_BUSY || primary == SQLITE_LOCKED || primary == SQLITE_PROTOCOL;
}

}  // namespace

SqliteWatch::PollingWatchCount::PollingWatchCount() noexcept { ++blind_count; }
SqliteWatch::PollingWatchCount::~PollingWatchCount() { --blind_count; }

Watch::Clock::duration SqliteWatch::PollingWatchCount::interval() noexcept {
  return blind_interval * std::max(1, blind_count.load());
}

SqliteWatch::SqliteWatch(const std::string& file, std::shared_ptr<DirectoryWatch> directories)
    : file_(std::filesystem::absolute(file).string()), directories_(std::move(directories)) {
  follow_links();
  look();
  plan(true);
}

int SqliteWatch::descriptor() const noexcept {
  return hints_.empty() ? -1 : directories_->descriptor();
}

std::optional<Watch::Clock::time_point> SqliteWatch::look_again() const {
  if (!waiting_) return {};
  // Another watch has read the event: the descriptor will not report it again.
  const bool told = std::ranges::any_of(hints_, [](const auto& hint) { return hint->told(); });
  return told ? Clock::time_point{} : next_look_;
}

void SqliteWatch::set_waiting(bool waiting) {
  if (waiting == waiting_) return;
  waiting_ = waiting;
  if (waiting) {
    follow_links();
    next_look_ = {};
  } else {
    hints_.clear();
    polling_count_.reset();
  }
}

std::optional<SqliteWatch::Identity> SqliteWatch::find() const {
  struct stat found {};
  if (::stat(file_.c_str(), &found) == 0) return Identity{found.st_dev, found.st_ino};
  return {};
}

void SqliteWatch::follow_links() {
  hints_.clear();
  hints_ = DirectoryWatch::follow(directories_, file_, DirectoryWatch::Notify::changes);
  if (hints_.empty() != (polling_count_ != nullptr)) {
    polling_count_ = hints_.empty() ? std::make_unique<PollingWatchCount>() : nullptr;
  }
}

bool SqliteWatch::take_hints() {
  bool told = false;
  bool lost = false;
  for (const auto& hint : hints_) {
    told = hint->take() || told;
    lost = hint->lost() || lost;
  }
  if (lost) follow_links();
  return told;
}

bool SqliteWatch::changed() {
  if (!waiting_) return false;
  const bool told = take_hints();
  if (!told && Clock::now() < next_look_) return false;
  const bool news = look();
  if (news) {
    for (const auto& hint : hints_) hint->confirm();
  }
  plan(told || news || busy_);
  return news;
}

void SqliteWatch::plan(bool restart) {
  if (polling_count_ != nullptr) {
    step_ = PollingWatchCount::interval();
  } else if (restart) {
    step_ = first_step;
    waited_ = {};
  } else {
    const auto longer = waited_ < slow_sync ? waited_ / 4 : waited_;
    step_ = std::clamp<Clock::duration>(longer, first_step, heartbeat);
  }
  waited_ += step_;
  next_look_ = Clock::now() + step_;
  // Many idle files are polled together: one wake-up for all of them.
  if (step_ == heartbeat) {
    next_look_ = Clock::time_point{} +
                 std::chrono::ceil<std::chrono::seconds>(next_look_.time_since_epoch()) /
                     heartbeat * heartbeat;
  }
}

bool SqliteWatch::look() {
  busy_ = false;
  auto identity = find();
  if (!identity) {
    close();
    follow_links();  // its directory may have changed
    identity = find();
    if (!identity) return false;
  }
  if (db_ == nullptr || identity != identity_) return open(*identity);
  const ResetAtEnd reset{data_version_.get()};
  const int code = sqlite3_step(data_version_.get());
  if (code == SQLITE_ROW) {
    return std::exchange(version_, sqlite3_column_int64(data_version_.get(), 0)) !=
           sqlite3_column_int64(data_version_.get(), 0);
  }
  busy_ = is_busy(code);
  if (!busy_) throw handle_->error("data_version");
  return false;
}

bool SqliteWatch::open(const Identity& identity) {
  close();
  follow_links();
  sqlite3* db = nullptr;
  const int code =
      sqlite3_open_v2(file_.c_str(), &db,
                      SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nullptr);
  db_.reset(db);
  if (db == nullptr) throw std::bad_alloc{};
  handle_ = std::make_unique<SqliteHandle>(db, file_, "try again");
  try {
    if (code != SQLITE_OK) throw handle_->error("watch");
    data_version_ = prepare(*handle_, "watch", "pragma data_version");
    identity_ = identity;
    look();
  } catch (const DatabaseError& error) {
    const bool vanished = !find();
    if (!vanished && !error.retryable()) throw;
    close();
    busy_ = true;
    return false;
  }
  return true;
}

void SqliteWatch::close() noexcept {
  data_version_.reset();
  handle_.reset();
  db_.reset();
  identity_.reset();
}

}  // namespace twinbox
