// One file and what can happen to it: many users, no rights, damage, a full disk.
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <sys/stat.h>
#include <thread>
#include <tuple>
#include <unistd.h>

#include "support/backend.hpp"
#include "support/ordinary_user.hpp"
#include <twinbox/health.hpp>

namespace twinbox::test {
namespace {

using Kind = DatabaseError::Kind;

struct Refused {
  std::optional<Kind> kind;
  std::string words;
};

template <class F>
Refused refusal_of(const F& body) {
  try {
    body();
  } catch (const DatabaseError& error) {
    return {error.kind(), error.what()};
  }
  return {};
}

/// A folder of its own, removed at the end.
class Folder {
 public:
  explicit Folder(const std::filesystem::path& parent = std::filesystem::temp_directory_path())
      : path_((parent / "twinbox_file_XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  }
  ~Folder() {
    chmod(path_.c_str(), 0755);
    std::filesystem::remove_all(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] std::string file() const { return path_ + "/store.db"; }

 private:
  std::string path_;
};

class SqliteFile : public BoxTest {
 protected:
  std::string address() const { return "sqlite:" + folder_.file(); }
  /// A store with some messages, closed again.
  void make_store(int messages = 3) {
    Database database(address());
    Outbox box(database, options());
    for (int i = 0; i < messages; ++i) box.enqueue(a_message());
  }
  Refused refusal_of_use() {
    return refusal_of([&] {
      Database database(address(), {.retries = 0});
      Outbox box(database, options());
      std::ignore = box.claim(worker_a, 30s, 1000);
      box.enqueue(a_message());
    });
  }
  /// Opens the store as if nothing had happened.
  std::size_t claimable() {
    Database database(address());
    Outbox box(database, options());
    return box.claim(worker_a, 30s, 1000).size();
  }

  Folder folder_;
};

TEST_P(SqliteFile, IBX_106_many_users_of_one_file_lose_and_double_nothing) {
  REQUIREMENT("OBX-083, OBX-084");
  constexpr int users = 6;
  constexpr int each = 30;
  make_store(0);
  std::atomic<std::size_t> settled = 0;
  std::atomic<int> writing = users;
  std::vector<std::thread> threads;
  for (int i = 0; i < users; ++i) {
    threads.emplace_back([&] {
      Database database(address(), {.wait_timeout = 2min});
      Outbox box(database, options());
      for (int n = 0; n < each; ++n) box.enqueue(a_message());
      --writing;
      const auto me = OwnerToken::make({});
      for (;;) {
        const bool all_written = writing == 0;
        const auto held = box.claim(me, 30s, 7);
        settled += box.ack(me, held);
        if (held.empty() && all_written) return;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(settled, static_cast<std::size_t>(users * each));
}

TEST_P(SqliteFile, a_file_that_may_not_be_written_is_refused_and_stays_as_it_is) {
  make_store();
  ASSERT_EQ(chmod(folder_.path().c_str(), 0777), 0);
  ASSERT_EQ(chmod(folder_.file().c_str(), 0444), 0);
  {
    const AsOrdinaryUser ordinary;
    const Refused refused = refusal_of_use();
    EXPECT_EQ(refused.kind, Kind::read_only) << refused.words;
    EXPECT_NE(refused.words.find(folder_.file()), std::string::npos) << refused.words;
    EXPECT_NE(refused.words.find("write permission"), std::string::npos) << refused.words;
  }
  ASSERT_EQ(chmod(folder_.file().c_str(), 0644), 0);
  EXPECT_EQ(claimable(), 3u);
}

TEST_P(SqliteFile, a_directory_that_may_not_be_written_is_refused_and_stays_as_it_is) {
  make_store();
  ASSERT_EQ(chmod(folder_.file().c_str(), 0666), 0);
  ASSERT_EQ(chmod(folder_.path().c_str(), 0555), 0);
  {
    const AsOrdinaryUser ordinary;
    const Refused refused = refusal_of_use();
    EXPECT_TRUE(refused.kind == Kind::read_only || refused.kind == Kind::permission)
        << refused.words;
    EXPECT_NE(refused.words.find("directory"), std::string::npos) << refused.words;
  }
  ASSERT_EQ(chmod(folder_.path().c_str(), 0755), 0);
  EXPECT_EQ(claimable(), 3u);
}

TEST_P(SqliteFile, a_directory_that_does_not_exist_is_named) {
  const std::string address = "sqlite:" + folder_.path() + "/nowhere/store.db";
  const Refused refused = refusal_of([&] {
    Database database(address, {.retries = 0});
    Outbox box(database, options());
  });
  EXPECT_EQ(refused.kind, Kind::connection_lost);
  EXPECT_NE(refused.words.find("nowhere"), std::string::npos) << refused.words;
}

TEST_P(SqliteFile, a_file_that_is_no_database_is_left_alone) {
  const std::string content(10'000, 'x');
  std::ofstream{folder_.file()} << content;
  const Refused refused = refusal_of_use();
  EXPECT_EQ(refused.kind, Kind::corrupt) << refused.words;
  EXPECT_NE(refused.words.find(folder_.file()), std::string::npos) << refused.words;
  std::ifstream file(folder_.file());
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), content);
}

TEST_P(SqliteFile, a_damaged_file_is_told_from_an_empty_one) {
  make_store(300);
  {
    std::fstream damage(folder_.file(), std::ios::in | std::ios::out | std::ios::binary);
    damage.seekp(4096);
    damage << std::string(std::filesystem::file_size(folder_.file()) - 4096, '\x5a');
  }
  const Refused refused = refusal_of_use();
  EXPECT_EQ(refused.kind, Kind::corrupt) << refused.words;
  EXPECT_NE(refused.words.find("backup"), std::string::npos) << refused.words;
}

/// A store that is in use while its file is changed under it.
class SqliteFileInUse : public SqliteFile {
 protected:
  SqliteFileInUse() {
    make_store();
    database_.emplace(address());
    box_.emplace(*database_, options());
    box_->enqueue(a_message());
  }
  void expect_refused(std::string_view words) {
    EXPECT_EQ(check_health(*box_).state, HealthState::unhealthy);
    EXPECT_TRUE(check_health(*box_).broken);
    const std::vector<std::function<void()>> calls{
        [&] { box_->enqueue(a_message()); },
        [&] {
          std::ignore = box_->enqueue(std::vector<NewMessage>{a_message(), a_message()});
        },
        [&] { std::ignore = box_->claim(worker_a, 30s, 10); },
        [&] { database_->in_transaction([&](Session& s) { box_->enqueue(s, a_message()); }); },
    };
    for (const auto& call : calls) {
      const Refused refused = refusal_of(call);
      EXPECT_EQ(refused.kind, Kind::read_only) << refused.words;
      EXPECT_NE(refused.words.find(words), std::string::npos) << refused.words;
      EXPECT_NE(refused.words.find(folder_.file()), std::string::npos) << refused.words;
    }
  }

  std::optional<Database> database_;
  std::optional<Outbox> box_;
};

TEST_P(SqliteFileInUse, that_is_removed_takes_no_more_messages) {
  std::filesystem::remove(folder_.file());
  expect_refused("was removed or renamed");
  EXPECT_FALSE(std::filesystem::exists(folder_.file()));
}

TEST_P(SqliteFileInUse, that_is_renamed_takes_no_more_messages_until_it_is_back) {
  std::filesystem::rename(folder_.file(), folder_.file() + ".away");
  expect_refused("was removed or renamed");
  std::filesystem::rename(folder_.file() + ".away", folder_.file());
  box_->enqueue(a_message());
  EXPECT_EQ(box_->claim(worker_a, 30s, 100).size(), 5u);
}

TEST_P(SqliteFileInUse, that_is_replaced_by_another_store_takes_no_more_messages) {
  std::filesystem::rename(folder_.file(), folder_.file() + ".away");
  std::ofstream{folder_.file()};
  expect_refused("another file has taken the name");
}

TEST_P(SqliteFileInUse, that_loses_its_log_keeps_what_it_has_confirmed) {
  std::filesystem::remove(folder_.file() + "-wal");
  expect_refused("write-ahead log");
  box_.reset();
  database_.reset();
  EXPECT_EQ(claimable(), 4u);
}

TWINBOX_ON_BACKENDS(SqliteFileInUse, Backend::sqlite_file);
TWINBOX_ON_BACKENDS(SqliteFile, Backend::sqlite_file);

/// Where space can run out: a file that may not grow, and a small disk where we may mount one.
class SqliteFullDisk : public ::testing::TestWithParam<std::string> {
 protected:
  static constexpr std::string_view limited_file = "limited_file";

  SqliteFullDisk()
      : folder_(GetParam() == limited_file || small_disk() == nullptr
                    ? std::filesystem::temp_directory_path()
                    : std::filesystem::path{small_disk()}),
        database_("sqlite:" + folder_.file()),
        box_(database_, {.deploy_schema = true}) {
    skip_without_disk();
  }

  static const char* small_disk() { return std::getenv("TWINBOX_TEST_SMALL_DISK"); }
  static void skip_without_disk() {
    if (GetParam() == limited_file || small_disk() != nullptr) return;
    GTEST_SKIP() << "TWINBOX_TEST_SMALL_DISK is not set: only root can mount a small disk";
  }

  /// Leaves room for some 100 messages.
  void make_scarce() {
    if (GetParam() == limited_file) {
      allow_pages("(select page_count + 100 from pragma_page_count)");
    } else {
      std::ofstream ballast(folder_.path() + "/ballast");
      for (int i = 0; i < 2500; ++i) ballast << std::string(1024, 'b');
    }
  }
  void free_space() {
    if (GetParam() == limited_file) {
      allow_pages("1000000");
    } else {
      std::filesystem::remove(folder_.path() + "/ballast");
    }
  }

  static NewMessage large_message() {
    return {.topic = Topic{"order.placed"}, .payload = std::string(4000, 'p')};
  }
  /// Calls `write` until there is no space, and returns how often it went well.
  template <class F>
  static std::size_t fill(F write) {
    std::size_t written = 0;
    Refused refused = refusal_of(write);
    for (; !refused.kind && written < 100'000; ++written) refused = refusal_of(write);
    EXPECT_EQ(refused.kind, Kind::out_of_space) << refused.words;
    EXPECT_NE(refused.words.find("free some space"), std::string::npos) << refused.words;
    EXPECT_GT(written, 0u);
    return written;
  }

  Folder folder_;
  Database database_;
  Outbox box_;

 private:
  void allow_pages(const std::string& count) {
    std::string pages;
    database_.in_transaction([&](Session& session) {
      session.execute("select " + count, {}, [&](const Row& row) { pages = row.text(0); });
      session.execute("pragma max_page_count = " + pages);
    });
  }
};

TEST_P(SqliteFullDisk, loses_nothing_and_works_again_when_there_is_space) {
  const OwnerToken worker{Uuid::parse("00000000-0000-4000-8000-00000000000a")};
  const NewMessage message = large_message();
  for (int i = 0; i < 20; ++i) box_.enqueue(message);
  make_scarce();
  const std::size_t written = 20 + fill([&] { box_.enqueue(message); });
  const auto again = refusal_of([&] { box_.enqueue(std::vector<NewMessage>(50, message)); });
  EXPECT_EQ(again.kind, Kind::out_of_space) << again.words;
  const Health full = check_health(box_);
  EXPECT_EQ(full.state, HealthState::unhealthy);
  EXPECT_TRUE(full.broken);
  EXPECT_NE(full.reasons.at(0).find("cannot accept writes"), std::string::npos) << full.reasons[0];
  free_space();
  box_.enqueue(message);
  EXPECT_EQ(check_health(box_).state, HealthState::healthy);
  std::size_t settled = 0;
  for (auto held = box_.claim(worker, std::chrono::seconds{30}, 1000); !held.empty();
       held = box_.claim(worker, std::chrono::seconds{30}, 1000)) {
    settled += box_.ack(worker, held);
  }
  EXPECT_EQ(settled, written + 1);
}

TEST_P(SqliteFullDisk, is_told_of_until_messages_are_stored_again) {
  box_.enqueue(large_message());
  make_scarce();
  fill([&] { box_.enqueue(large_message()); });
  EXPECT_EQ(check_health(box_).state, HealthState::unhealthy);
  EXPECT_EQ(box_.reap(), 0);
  database_.in_transaction([](Session&) {});
  EXPECT_EQ(check_health(box_).state, HealthState::unhealthy) << "neither has stored anything";
  free_space();
  EXPECT_EQ(check_health(box_).state, HealthState::unhealthy);
  box_.enqueue(std::vector<NewMessage>(2, large_message()));
  EXPECT_EQ(check_health(box_).state, HealthState::healthy);
}

TEST_P(SqliteFullDisk, is_told_of_when_only_a_callers_transaction_has_met_it) {
  box_.enqueue(large_message());
  make_scarce();
  fill([&] {
    database_.in_transaction([&](Session& session) { box_.enqueue(session, large_message()); });
  });
  const Health full = check_health(box_);
  EXPECT_EQ(full.state, HealthState::unhealthy);
  EXPECT_TRUE(full.broken);
}

std::vector<std::string> disks() {
  if (backends({Backend::sqlite_file}).empty()) return {};
  return {"limited_file", "small_disk"};
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SqliteFullDisk);
INSTANTIATE_TEST_SUITE_P(all, SqliteFullDisk, ::testing::ValuesIn(disks()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace twinbox::test
