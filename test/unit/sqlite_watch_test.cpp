// Who is told of a commit in a SQLite file: by another connection, by another process, and however
// one gets to the file.
#include "driver/sqlite/sqlite_watch.hpp"

#include <array>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <memory>
#include <poll.h>
#include <spawn.h>
#include <string>
#include <sys/inotify.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "driver/sqlite/sqlite_driver.hpp"
#include "sql/render.hpp"

namespace twinbox {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Clock = Watch::Clock;

/// A connection of somebody else.
class Writer {
 public:
  explicit Writer(const std::string& file) {
    sqlite3* db = nullptr;
    EXPECT_EQ(sqlite3_open(file.c_str(), &db), SQLITE_OK);
    db_.reset(db);
    sqlite3_busy_timeout(db, 10'000);
    run("pragma journal_mode = wal; create table if not exists t (x)");
  }

  void run(const std::string& sql) {
    char* words = nullptr;
    EXPECT_EQ(sqlite3_exec(db_.get(), sql.c_str(), nullptr, nullptr, &words), SQLITE_OK) << words;
    sqlite3_free(words);
  }
  void commit() { run("insert into t values (1)"); }

 private:
  struct Close {
    void operator()(sqlite3* db) const noexcept { sqlite3_close(db); }
  };
  std::unique_ptr<sqlite3, Close> db_;
};

class SqliteWatchTest : public testing::TestWithParam<bool> {
 protected:
  SqliteWatchTest() : folder_(make_folder()) {}
  ~SqliteWatchTest() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  [[nodiscard]] std::string path(const std::string& name = "store.db") const {
    return (folder_ / name).string();
  }

  /// With inotify, or as if the system had none to give.
  static std::unique_ptr<SqliteWatch> open(const std::string& file) {
    return std::make_unique<SqliteWatch>(file, GetParam() ? DirectoryWatch::shared() : nullptr);
  }

  /// Waits as the watcher does until the watch says so.
  static bool hears(SqliteWatch& watch) {
    const auto end = Clock::now() + 60s;
    while (Clock::now() < end) {
      if (watch.changed()) return true;
      wait(watch, 1s);
    }
    return false;
  }

  /// Asks until the watch has nothing to tell for some looks in a row.
  static void settle(SqliteWatch& watch) {
    for (int quiet = 0; quiet < 6;) {
      quiet = watch.changed() ? 0 : quiet + 1;
      wait(watch, 5ms);
    }
  }

  fs::path folder_;

 private:
  static fs::path make_folder() {
    std::string pattern = (fs::temp_directory_path() / "watch_XXXXXX").string();
    return mkdtemp(pattern.data());
  }

  static void wait(SqliteWatch& watch, std::chrono::milliseconds most) {
    const auto look = watch.look_again().value_or(Clock::now() + most) - Clock::now();
    const auto limit = std::min(std::chrono::ceil<std::chrono::milliseconds>(look), most);
    pollfd events{watch.descriptor(), POLLIN, 0};
    ::poll(&events, 1, static_cast<int>(std::max<std::int64_t>(0, limit.count())));
  }
};

TEST_P(SqliteWatchTest, hears_each_commit_of_another_connection) {
  Writer writer{path()};
  const auto watch = open(path());
  settle(*watch);
  for (int i = 0; i < 20; ++i) {
    writer.commit();
    ASSERT_TRUE(hears(*watch)) << i;
    settle(*watch);
    ASSERT_FALSE(watch->changed()) << i;
  }
}

TEST_P(SqliteWatchTest, hears_nothing_of_a_transaction_before_its_commit_nor_of_a_rollback) {
  Writer writer{path()};
  const auto watch = open(path());
  settle(*watch);
  writer.run("begin immediate; insert into t values (1)");
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(watch->changed());
  writer.run("rollback");
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(watch->changed());
  writer.run("begin immediate; insert into t values (1); commit");
  EXPECT_TRUE(hears(*watch));
}

TEST_P(SqliteWatchTest, hears_nothing_while_nobody_waits_and_then_of_what_it_missed) {
  Writer writer{path()};
  const auto watch = open(path());
  for (int i = 0; i < 3; ++i) {
    settle(*watch);
    watch->set_waiting(false);
    EXPECT_LT(watch->descriptor(), 0);
    EXPECT_FALSE(watch->look_again()) << "it costs nothing";
    writer.commit();
    EXPECT_FALSE(watch->changed());
    watch->set_waiting(true);
    EXPECT_TRUE(watch->changed());
  }
}

TEST_P(SqliteWatchTest, hears_another_process) {
  Writer writer{path()};
  const auto watch = open(path());
  settle(*watch);
  std::string program = "/proc/self/exe";
  std::string filter = "--gtest_filter=SqliteWatchProcess.*";
  const std::string file = "TWINBOX_TEST_WATCHED_FILE=" + path();
  char* words[] = {program.data(), filter.data(), nullptr};
  std::vector<char*> world{const_cast<char*>(file.c_str())};
  for (char** one = environ; *one != nullptr; ++one) world.push_back(*one);
  world.push_back(nullptr);
  posix_spawn_file_actions_t quiet;
  posix_spawn_file_actions_init(&quiet);
  posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t process = 0;
  ASSERT_EQ(posix_spawn(&process, words[0], &quiet, nullptr, words, world.data()), 0);
  posix_spawn_file_actions_destroy(&quiet);
  EXPECT_TRUE(hears(*watch));
  int status = 0;
  ASSERT_EQ(waitpid(process, &status, 0), process);
  EXPECT_EQ(status, 0);
}

TEST_P(SqliteWatchTest, hears_of_a_file_that_did_not_exist) {
  const auto watch = open(path());
  EXPECT_FALSE(watch->changed());
  EXPECT_FALSE(fs::exists(path())) << "a watch makes no file";
  Writer writer{path()};
  EXPECT_TRUE(hears(*watch));
  settle(*watch);
  writer.commit();
  EXPECT_TRUE(hears(*watch));
}

TEST_P(SqliteWatchTest, hears_of_a_file_whose_directory_did_not_exist) {
  const auto watch = open(path("later/store.db"));
  EXPECT_FALSE(watch->changed());
  fs::create_directory(folder_ / "later");
  Writer writer{path("later/store.db")};
  EXPECT_TRUE(hears(*watch));
  settle(*watch);
  writer.commit();
  EXPECT_TRUE(hears(*watch));
}

TEST_P(SqliteWatchTest, hears_of_a_file_whose_directory_was_removed_and_came_again) {
  fs::create_directory(folder_ / "deep");
  auto writer = std::make_unique<Writer>(path("deep/store.db"));
  const auto watch = open(path("deep/store.db"));
  settle(*watch);
  fs::remove_all(folder_ / "deep");
  settle(*watch);
  fs::create_directory(folder_ / "deep");
  Writer again{path("deep/store.db")};
  EXPECT_TRUE(hears(*watch));
  settle(*watch);
  again.commit();
  EXPECT_TRUE(hears(*watch));
}

TEST_P(SqliteWatchTest, follows_a_file_that_is_replaced) {
  auto old = std::make_unique<Writer>(path());
  const auto watch = open(path());
  settle(*watch);
  old.reset();
  auto fresh = std::make_unique<Writer>(path("new.db"));
  fresh.reset();
  for (const char* suffix : {"-wal", "-shm"}) fs::remove(path() + suffix);
  fs::rename(path("new.db"), path());
  EXPECT_TRUE(hears(*watch));
  settle(*watch);
  Writer writer{path()};
  settle(*watch);
  writer.commit();
  EXPECT_TRUE(hears(*watch));
}

TEST_P(SqliteWatchTest, follows_symbolic_links_to_where_the_file_really_lies) {
  fs::create_directory(folder_ / "real");
  fs::create_directory(folder_ / "link");
  fs::create_symlink("../real/store.db", folder_ / "link/middle.db");
  fs::create_symlink("link/middle.db", folder_ / "store.db");
  const auto watch = open(path());
  Writer writer{path("real/store.db")};
  EXPECT_TRUE(hears(*watch));
  settle(*watch);
  writer.commit();
  EXPECT_TRUE(hears(*watch));
  settle(*watch);
  Writer by_link{path()};
  settle(*watch);
  by_link.commit();
  EXPECT_TRUE(hears(*watch));
}

TEST_P(SqliteWatchTest, notices_that_a_link_leads_elsewhere) {
  Writer one{path("one.db")};
  Writer two{path("two.db")};
  fs::create_symlink("one.db", folder_ / "store.db");
  const auto watch = open(path());
  settle(*watch);
  fs::create_symlink("two.db", folder_ / "next");
  fs::rename(folder_ / "next", folder_ / "store.db");
  EXPECT_TRUE(hears(*watch));
  settle(*watch);
  two.commit();
  EXPECT_TRUE(hears(*watch));
}

TEST_P(SqliteWatchTest, a_file_that_is_no_database_is_an_error_that_names_it) {
  std::ofstream{path()} << std::string(4096, 'x');
  try {
    open(path());
    ADD_FAILURE() << "it was taken for a database";
  } catch (const DatabaseError& error) {
    EXPECT_EQ(error.kind(), DatabaseError::Kind::corrupt);
    EXPECT_NE(std::string{error.what()}.find("store.db"), std::string::npos) << error.what();
  }
}

TEST_P(SqliteWatchTest, looks_less_and_less_often_while_nothing_happens) {
  Writer writer{path()};
  const auto watch = open(path());
  settle(*watch);
  // However long this thread is held up, the first is no longer than it was, the last no shorter.
  const auto before = *watch->look_again() - Clock::now();
  Clock::time_point asked;
  for (int i = 0; i < 3; ++i) {
    while (Clock::now() < *watch->look_again()) std::this_thread::yield();
    asked = Clock::now();
    watch->changed();
  }
  if (GetParam()) {
    EXPECT_GT(*watch->look_again() - asked, before);
  } else {
    EXPECT_LE(*watch->look_again() - Clock::now(), 10ms) << "without hints it has to look";
  }
}

INSTANTIATE_TEST_SUITE_P(all, SqliteWatchTest, testing::Values(true, false),
                         [](const auto& test) { return test.param ? "with_hints" : "blind"; });

TEST(SqliteWatches, share_one_descriptor_and_hear_of_their_own_file_only) {
  std::string pattern = (fs::temp_directory_path() / "watch_XXXXXX").string();
  const fs::path folder = mkdtemp(pattern.data());
  std::vector<std::unique_ptr<Writer>> writers;
  std::vector<std::unique_ptr<DirectoryWatch::Hint>> hints;
  const auto shared = DirectoryWatch::shared();
  ASSERT_NE(shared, nullptr);
  EXPECT_EQ(shared, DirectoryWatch::shared());
  for (const char* name : {"a.db", "b.db"}) {
    writers.push_back(std::make_unique<Writer>((folder / name).string()));
    hints.push_back(DirectoryWatch::watch(shared, folder, name));
    ASSERT_NE(hints.back(), nullptr);
  }
  // What happened while the files were made is told as well.
  for (pollfd events{shared->descriptor(), POLLIN, 0}; ::poll(&events, 1, 0) > 0;) hints[0]->take();
  for (const auto& hint : hints) hint->take();
  const auto heard = [&](std::size_t which) {
    pollfd events{shared->descriptor(), POLLIN, 0};
    bool told = false;
    while (!told && ::poll(&events, 1, 30'000) > 0) told = hints[which]->take();
    return told;
  };
  writers[0]->commit();
  EXPECT_TRUE(heard(0));
  EXPECT_FALSE(hints[1]->take());
  writers[1]->commit();
  EXPECT_TRUE(heard(1));
  EXPECT_FALSE(hints[0]->take());
  writers.clear();
  fs::remove_all(folder);
  pollfd events{shared->descriptor(), POLLIN, 0};
  while (!hints[0]->lost() && ::poll(&events, 1, 30'000) > 0) hints[0]->take();
  EXPECT_TRUE(hints[0]->lost());
  EXPECT_TRUE(hints[1]->lost());
}

TEST(SqliteWatches, what_one_reads_about_the_file_of_another_is_not_lost_to_it) {
  std::string pattern = (fs::temp_directory_path() / "watch_XXXXXX").string();
  const fs::path folder = mkdtemp(pattern.data());
  const auto shared = DirectoryWatch::shared();
  ASSERT_NE(shared, nullptr);
  const std::string file = (folder / "b.db").string();
  Writer beside{(folder / "a.db").string()};
  Writer writer{file};
  SqliteWatch other{(folder / "a.db").string(), shared};
  SqliteWatch watch{file, shared};
  pollfd events{shared->descriptor(), POLLIN, 0};
  while (::poll(&events, 1, 0) > 0 || watch.changed()) other.changed();
  const auto planned = *watch.look_again();
  writer.commit();
  // As when it was time for the other one to look, and the descriptor had a rest.
  ASSERT_EQ(::poll(&events, 1, 30'000), 1);
  while (::poll(&events, 1, 0) > 0) other.changed();
  EXPECT_LT(*watch.look_again(), planned) << "nothing else would tell it";
  EXPECT_TRUE(watch.changed());
  EXPECT_NE(*watch.look_again(), Clock::time_point{}) << "once is enough";
  fs::remove_all(folder);
}

TEST(SqliteWatches, share_the_cost_of_looking_without_hints) {
  std::string pattern = (fs::temp_directory_path() / "watch_XXXXXX").string();
  const fs::path folder = mkdtemp(pattern.data());
  Writer writer{(folder / "store.db").string()};
  std::vector<std::unique_ptr<SqliteWatch>> watches;
  Clock::time_point begin;
  for (int i = 0; i < 100; ++i) {
    begin = Clock::now();
    watches.push_back(std::make_unique<SqliteWatch>((folder / "store.db").string(), nullptr));
    EXPECT_LT(watches.back()->descriptor(), 0);
  }
  EXPECT_GE(*watches.back()->look_again() - begin, 1s)
      << "a hundred watches look a hundredth as often";
  fs::remove_all(folder);
}

TEST(SqliteWatches, are_told_by_our_own_commits_when_they_are_visible) {
  std::string pattern = (fs::temp_directory_path() / "watch_XXXXXX").string();
  const fs::path folder = mkdtemp(pattern.data());
  {
    const auto driver = make_sqlite_driver((folder / "store.db").string(), {}, {});
    const auto connection = driver->connect(Access::write);
    connection->begin(Access::write, Scope::transaction);
    connection->execute("create table t (x)");
    connection->commit();
    const int events = ::inotify_init1(IN_NONBLOCK);
    ASSERT_GE(::inotify_add_watch(events, folder.c_str(), IN_OPEN), 0);
    const auto told = [&] {
      alignas(inotify_event) std::array<char, 4096> buffer{};
      return ::read(events, buffer.data(), buffer.size()) > 0;
    };
    const auto commit = [&](Access access, const char* sql) {
      connection->begin(access, Scope::transaction);
      connection->execute(sql);
      EXPECT_FALSE(told()) << "before the commit";
      connection->commit();
    };
    commit(Access::write, "insert into t values (1)");
    EXPECT_TRUE(told());
    EXPECT_FALSE(told()) << "once for each commit";
    commit(Access::write_relaxed, "insert into t values (1)");
    EXPECT_FALSE(told()) << "a claim brings nothing new";
    commit(Access::read, "select * from t");
    EXPECT_FALSE(told());
    ::close(events);
  }
  fs::remove_all(folder);
}

TEST(SqliteWatches, are_told_again_of_what_was_written_when_the_directory_is_opened) {
  std::string pattern = (fs::temp_directory_path() / "watch_XXXXXX").string();
  const fs::path folder = mkdtemp(pattern.data());
  const auto shared = DirectoryWatch::shared();
  ASSERT_NE(shared, nullptr);
  const auto written = DirectoryWatch::watch(shared, folder, "a.db");
  const auto other = DirectoryWatch::watch(shared, folder, "b.db");
  ASSERT_TRUE(written != nullptr && other != nullptr);
  const auto heard = [&](DirectoryWatch::Hint& hint) {
    // What came within microseconds of the last look is read by a later one.
    for (pollfd events{shared->descriptor(), POLLIN, 0}; ::poll(&events, 1, 0) > 0;) {
      if (hint.take()) return true;
    }
    return hint.take();
  };
  const auto open_directory = [&] { fs::directory_iterator{folder}; };

  open_directory();
  EXPECT_FALSE(heard(*written)) << "nothing was written";
  std::ofstream{folder / "a.db-wal"} << "x";
  EXPECT_TRUE(heard(*written));
  EXPECT_FALSE(heard(*written));
  std::ifstream{folder / "a.db-wal"}.get();
  EXPECT_FALSE(heard(*written)) << "who opens a file has not committed";
  open_directory();
  EXPECT_TRUE(heard(*written));
  EXPECT_FALSE(heard(*other));
  written->confirm();
  open_directory();
  EXPECT_FALSE(heard(*written));
  fs::remove_all(folder);
}

TEST(SqliteWatches, do_not_exist_in_memory) {
  EXPECT_FALSE(make_sqlite_driver(":memory:", {}, {})->watch({"infra", "outbox"}));
  EXPECT_TRUE(make_sqlite_driver("store.db", {}, {})->watch({"infra", "outbox"}));
}

/// The other process of hears_another_process.
TEST(SqliteWatchProcess, writes_when_it_is_told_where) {
  const char* file = std::getenv("TWINBOX_TEST_WATCHED_FILE");
  if (file != nullptr) Writer{file}.commit();
}

}  // namespace
}  // namespace twinbox
