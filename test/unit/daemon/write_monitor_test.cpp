#include "daemon/store/write_monitor.hpp"

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <latch>
#include <unistd.h>

#include <gtest/gtest.h>

#include <twinbox/database.hpp>
#include <twinbox/outbox.hpp>

namespace twinbox::app {
namespace {

using namespace std::chrono_literals;

constexpr auto patience = 60s;  // only a failure waits so long

/// A store in a folder of its own, and how many test writes ran on it.
class WriteMonitorTest : public ::testing::Test {
 protected:
  ~WriteMonitorTest() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] Config config() const {
    return parse_config("[store.main]\nurl = \"sqlite:" + (folder_ / "main.db").string() + "\"\n",
                        "t", {});
  }
  Environment environment() {
    Environment environment;
    environment.timing = [this](std::string_view name, std::chrono::nanoseconds, std::size_t) {
      if (name != "worker_leave") return;
      {
        const std::lock_guard lock{mutex_};
        ++written_;
      }
      changed_.notify_all();
    };
    return environment;
  }
  bool wait_for_writes(int count) {
    std::unique_lock lock{mutex_};
    return changed_.wait_for(lock, patience, [&] { return written_ >= count; });
  }
  template <class Fits>
  static bool wait_until(Fits fits) {
    const auto end = std::chrono::steady_clock::now() + patience;
    while (!fits()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::yield();
    }
    return true;
  }

  std::filesystem::path folder_ = [] {
    std::string name = (std::filesystem::temp_directory_path() / "twinbox_writes_XXXXXX").string();
    return std::filesystem::path{mkdtemp(name.data())};
  }();
  std::mutex mutex_;
  std::condition_variable changed_;
  int written_ = 0;
};

TEST_F(WriteMonitorTest, tests_a_store_at_the_start_and_again_after_a_pause) {
  Stores stores{config(), environment()};
  WriteMonitor writes{stores, {}, {.pause = 1ms}};
  writes.start();
  EXPECT_TRUE(wait_for_writes(3));
  EXPECT_TRUE(wait_until([&] { return !writes.refusal(*stores.all()[0].store); }));
}

TEST_F(WriteMonitorTest, tests_nothing_while_messages_are_stored_or_nobody_asks) {
  Stores stores{config(), environment()};
  Store& store = *stores.all()[0].store;
  store.outbox().enqueue({.topic = Topic{"a"}, .payload = "x"});
  {
    WriteMonitor writes{stores, {}, {.pause = 1h}};
    writes.start();
    for (int i = 0; i < 1000; ++i) {
      writes.watch();
      EXPECT_FALSE(writes.refusal(store));
    }
    writes.stop();
    EXPECT_EQ(writes.probes(store), 0u);
  }
  WriteMonitor unwatched{stores, {}, {.pause = 0ms, .watched = -1s}};
  unwatched.start();
  unwatched.stop();
  EXPECT_EQ(unwatched.probes(store), 0u);
  EXPECT_EQ(written_, 0);
}

TEST_F(WriteMonitorTest, a_test_write_that_hangs_is_told_after_its_limit) {
  Stores stores{config(), environment()};
  Store& store = *stores.all()[0].store;
  store.outbox();
  store.inbox();
  Database other{"sqlite:" + (folder_ / "main.db").string()};
  WriteMonitor writes{stores, {}, {.fresh = 0ms, .pause = 1ms, .limit = 200ms}};
  other.in_transaction([&](Session& session) {
    session.execute("create table held (n)");
    writes.start();
    EXPECT_TRUE(wait_until([&] {
      writes.watch();
      return writes.refusal(store).value_or("").starts_with("store main: a test write");
    }));
    const std::lock_guard lock{mutex_};
    EXPECT_EQ(written_, 0);
  });
  EXPECT_TRUE(wait_until([&] { return !writes.refusal(store); }));
}

TEST_F(WriteMonitorTest, a_store_that_could_not_be_opened_is_refused_until_it_is_tested) {
  Stores stores{config(), environment()};
  Store& store = *stores.all()[0].store;
  WriteMonitor writes{stores, {}};
  EXPECT_TRUE(writes.refusal(store)) << "nothing is known yet";
  writes.mark_unreachable(store, "no server");
  EXPECT_EQ(writes.refusal(store), "no server");
  writes.start();
  EXPECT_TRUE(wait_until([&] { return !writes.refusal(store); }));
  EXPECT_EQ(writes.probes(store), 1u);
}

TEST_F(WriteMonitorTest, a_store_is_not_ready_before_its_first_test_write_has_ended) {
  std::latch finish{1};
  Environment environment;
  environment.timing = [&](std::string_view name, std::chrono::nanoseconds, std::size_t) {
    if (name == "worker_leave") finish.wait();
  };
  Stores stores{config(), environment};
  Store& store = *stores.all()[0].store;
  WriteMonitor writes{stores, {}, {.limit = 1h}};
  writes.start();
  ASSERT_TRUE(wait_until([&] { return writes.probes(store) == 1; }));
  ASSERT_TRUE(writes.refusal(store));
  EXPECT_NE(writes.refusal(store)->find("store main: waiting for a test write"), std::string::npos)
      << *writes.refusal(store);
  finish.count_down();
  EXPECT_TRUE(wait_until([&] { return !writes.refusal(store); }));
}

TEST_F(WriteMonitorTest, a_store_that_was_written_to_is_ready_without_a_test_write) {
  Stores stores{config(), environment()};
  Store& store = *stores.all()[0].store;
  const WriteMonitor writes{stores, {}};
  EXPECT_TRUE(writes.refusal(store));
  store.outbox().enqueue({.topic = Topic{"a"}, .payload = "x"});
  EXPECT_FALSE(writes.refusal(store));
}

TEST_F(WriteMonitorTest, test_writes_that_hang_keep_no_other_store_from_being_tested) {
  constexpr int count = 20;
  std::string text;
  for (int i = 0; i < count; ++i) {
    const std::string name = "s" + std::to_string(10 + i);
    text += "[store." + name + "]\nurl = \"sqlite:" + (folder_ / (name + ".db")).string() + "\"\n";
  }
  std::latch finish{1};
  Environment environment;
  environment.timing = [&](std::string_view name, std::chrono::nanoseconds, std::size_t) {
    if (name == "worker_leave") finish.wait();  // as in a commit: it cannot be ended
  };
  Stores stores{parse_config(text, "t", {}), environment};
  WriteMonitor writes{stores, {}, {.limit = 1ms}};
  writes.start();
  const bool all = wait_until([&] {
    writes.watch();
    return std::ranges::all_of(stores.all(), [&](const Stores::ServedStore& entry) {
      return writes.probes(*entry.store) == 1;
    });
  });
  finish.count_down();
  EXPECT_TRUE(all) << "while none of them had ended";
}

}  // namespace
}  // namespace twinbox::app
