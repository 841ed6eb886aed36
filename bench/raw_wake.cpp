#include "raw_wake.hpp"

#include <array>
#include <filesystem>
#include <poll.h>
#include <stdexcept>
#include <stop_token>
#include <sys/inotify.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include <libpq-fe.h>
#include <sqlite3.h>

#include "sql/notify_channel.hpp"

namespace twinbox::bench {
namespace {

using namespace std::chrono_literals;

constexpr int batch = 50;
constexpr int stop_check = 50;  // milliseconds

void handle_what_is_due(RawConnection& store, Bell& bell) {
  const std::vector<Message> messages = store.claim(batch);
  if (messages.empty()) return;
  bell.ring();
  store.ack(messages);
}

class ConditionWaiter final : public RawWaiter {
 public:
  ConditionWaiter(const StoreAddress& site, Bell& bell)
      : thread_([this, &bell, store = std::shared_ptr{open_raw(site, BoxKind::outbox)}](
                    const std::stop_token& stop) {
          std::unique_lock lock{mutex_};
          while (told_cv_.wait(lock, stop, [&] { return told_; })) {
            told_ = false;
            lock.unlock();
            handle_what_is_due(*store, bell);
            lock.lock();
          }
        }) {}

  void tell() override {
    {
      const std::scoped_lock lock{mutex_};
      told_ = true;
    }
    told_cv_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any told_cv_;
  bool told_ = false;
  std::jthread thread_;
};

class Listener final : public RawWaiter {
 public:
  Listener(const StoreAddress& site, Bell& bell)
      : connection_(PQconnectdb(site.address.c_str())), store_(open_raw(site, BoxKind::outbox)) {
    const std::string channel = channel_of({site.schema, "outbox"}).name;
    const std::unique_ptr<PGresult, decltype(&PQclear)> answer{
        PQexec(connection_.get(), ("listen \"" + channel + "\"").c_str()), &PQclear};
    if (PQresultStatus(answer.get()) != PGRES_COMMAND_OK)
      throw std::runtime_error(PQerrorMessage(connection_.get()));
    thread_ = std::jthread([this, &bell](const std::stop_token& stop) { run(stop, bell); });
  }

 private:
  void run(const std::stop_token& stop, Bell& bell) {
    while (!stop.stop_requested()) {
      pollfd socket{PQsocket(connection_.get()), POLLIN, 0};
      if (poll(&socket, 1, stop_check) <= 0) continue;
      PQconsumeInput(connection_.get());
      bool told = false;
      while (PGnotify* notification = PQnotifies(connection_.get())) {
        PQfreemem(notification);
        told = true;
      }
      if (told) handle_what_is_due(*store_, bell);
    }
  }

  struct Finish {
    void operator()(PGconn* connection) const noexcept { PQfinish(connection); }
  };
  std::unique_ptr<PGconn, Finish> connection_;
  std::unique_ptr<RawConnection> store_;
  std::jthread thread_;
};

/// Handles what is due whenever `data_version` says that others have committed.
class VersionWaiter : public RawWaiter {
 public:
  VersionWaiter(const StoreAddress& site, Bell& bell)
      : bell_(bell), store_(open_raw(site, BoxKind::outbox)) {
    sqlite3* db = nullptr;
    sqlite3_open_v2(site.file().c_str(), &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, nullptr);
    db_.reset(db);
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v2(db, "pragma data_version", -1, &statement, nullptr) != SQLITE_OK)
      throw std::runtime_error(sqlite3_errmsg(db));
    look_.reset(statement);
    seen_ = version();
  }

 protected:
  void look() {
    // What it writes itself makes it look once more; so nothing that came meanwhile is missed.
    const std::int64_t before = std::exchange(seen_, version());
    if (seen_ != before) handle_what_is_due(*store_, bell_);
  }

 private:
  std::int64_t version() {
    sqlite3_step(look_.get());
    const std::int64_t number = sqlite3_column_int64(look_.get(), 0);
    sqlite3_reset(look_.get());
    return number;
  }

  struct Close {
    void operator()(sqlite3* db) const noexcept { sqlite3_close_v2(db); }
    void operator()(sqlite3_stmt* statement) const noexcept { sqlite3_finalize(statement); }
  };
  Bell& bell_;
  std::unique_ptr<RawConnection> store_;
  std::unique_ptr<sqlite3, Close> db_;
  std::unique_ptr<sqlite3_stmt, Close> look_;
  std::int64_t seen_ = 0;
};

/// Asks without a rest, and keeps a processor busy.
class SpinningWaiter final : public VersionWaiter {
 public:
  SpinningWaiter(const StoreAddress& site, Bell& bell)
      : VersionWaiter(site, bell), thread_([this](const std::stop_token& stop) {
          while (!stop.stop_requested()) look();
        }) {}

 private:
  std::jthread thread_;
};

/// Asks when something happens in the directory of the file. Whoever sends opens it once the commit
/// is visible; it was written before that.
class DirectoryWaiter final : public VersionWaiter {
 public:
  DirectoryWaiter(const StoreAddress& site, Bell& bell)
      : VersionWaiter(site, bell), events_(inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    const std::string directory = std::filesystem::path{site.file()}.parent_path().string();
    if (inotify_add_watch(events_, directory.c_str(), IN_MODIFY | IN_OPEN) < 0) {
      close(events_);
      throw std::runtime_error("inotify: " + directory + " cannot be watched");
    }
    thread_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) wait_and_look();
    });
  }
  ~DirectoryWaiter() override {
    thread_ = {};
    close(events_);
  }

 private:
  void wait_and_look() {
    pollfd events{events_, POLLIN, 0};
    poll(&events, 1, stop_check);
    std::array<char, 4096> drained{};
    while (read(events_, drained.data(), drained.size()) > 0) {
    }
    look();
  }

  int events_;
  std::jthread thread_;
};

}  // namespace

void Bell::ring() {
  const auto now = Clock::now();
  const std::scoped_lock lock{mutex_};
  at_ = now;
  rung_.notify_one();
}

Bell::Clock::time_point Bell::wait() {
  std::unique_lock lock{mutex_};
  if (!rung_.wait_for(lock, 10s, [&] { return at_ != Clock::time_point{}; }))
    throw std::runtime_error(owner_ + ": a message was not handled within ten seconds");
  return std::exchange(at_, {});
}

std::unique_ptr<RawWaiter> wait_for_condition(const StoreAddress& site, Bell& bell) {
  return std::make_unique<ConditionWaiter>(site, bell);
}

std::unique_ptr<RawWaiter> wait_for_commits(const StoreAddress& site, Bell& bell) {
  if (site.dialect == Dialect::sqlite) return std::make_unique<DirectoryWaiter>(site, bell);
  return std::make_unique<Listener>(site, bell);
}

std::unique_ptr<RawWaiter> spin_for_commits(const StoreAddress& site, Bell& bell) {
  return std::make_unique<SpinningWaiter>(site, bell);
}

}  // namespace twinbox::bench
