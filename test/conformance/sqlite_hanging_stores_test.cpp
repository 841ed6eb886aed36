// Stores whose files another program keeps locked hold up no other store of the dispatcher.
#include <deque>
#include <latch>
#include <memory>

#include <sqlite3.h>

#include "support/hanging_stores.hpp"

namespace twinbox::test {
namespace {

/// Another program that holds the write lock of a file.
class WriteLock {
 public:
  explicit WriteLock(const std::string& address) {
    const std::string file = address.substr(address.find(':') + 1);
    sqlite3* opened = nullptr;
    const bool ok = sqlite3_open(file.c_str(), &opened) == SQLITE_OK;
    connection_.reset(opened);
    sqlite3_busy_timeout(opened, 60'000);
    if (!ok || sqlite3_exec(opened, "begin immediate", nullptr, nullptr, nullptr) != SQLITE_OK)
      throw std::runtime_error("cannot lock " + file + ": " + sqlite3_errmsg(opened));
  }

 private:
  std::unique_ptr<sqlite3, decltype(&sqlite3_close)> connection_{nullptr, &sqlite3_close};
};

class SqliteHangingStores : public HangingStores {
 protected:
  ~SqliteHangingStores() override { stop(); }

  /// Stores that wait for the write lock as long as it takes.
  void add_patient(const std::string& prefix, int count = store_count) {
    for (int i = 0; i < count; ++i) {
      StoreDefinition& store = add(define(name_of(prefix, i)));
      store.database.wait_limit = 1h;
      addresses_[prefix].push_back(store.address);
    }
  }
  void lock(const std::string& prefix) {
    for (const std::string& address : addresses_[prefix]) locks_.emplace_back(address);
  }
  void unlock() { locks_.clear(); }

  std::latch finish_{1};  ///< for handlers

 private:
  std::map<std::string, std::vector<std::string>> addresses_;
  std::deque<WriteLock> locks_;
};

TEST_P(SqliteHangingStores, that_were_locked_before_the_start_hold_up_no_other) {
  add_patient("locked");
  add_working("healthy");
  enqueue("locked");
  enqueue("healthy");
  lock("locked");
  start();
  ASSERT_TRUE(all_handled("healthy", 1));
  for (int round = 2; round <= 4; ++round) {
    enqueue("healthy");
    ASSERT_TRUE(all_handled("healthy", round));
  }
  EXPECT_EQ(handled("locked"), 0);
  unlock();
  EXPECT_TRUE(all_handled("locked", 1)) << "they are worked on once they answer";
}

TEST_P(SqliteHangingStores, that_worked_before_hold_up_no_other) {
  add_patient("locked");
  add_working("healthy");
  enqueue("locked");
  enqueue("healthy");
  start();
  ASSERT_TRUE(all_handled("locked", 1) && all_handled("healthy", 1));
  dispatcher().pause();
  enqueue("locked");
  lock("locked");
  dispatcher().resume();
  for (int round = 2; round <= 4; ++round) {
    enqueue("healthy");
    ASSERT_TRUE(all_handled("healthy", round));
  }
  EXPECT_EQ(handled("locked"), store_count);
  unlock();
  EXPECT_TRUE(all_handled("locked", 2)) << "they are worked on once they answer";
}

TEST_P(SqliteHangingStores, one_poller_is_enough_for_the_others) {
  add_patient("locked");
  add_working("healthy", 2);
  enqueue("locked");
  lock("locked");
  DispatcherOptions options = without_chores();
  options.pollers = 1;
  start(one_handler(), options);
  for (int round = 1; round <= 3; ++round) {
    enqueue("healthy", 2);
    ASSERT_TRUE(all_handled("healthy", round, 2));
  }
  EXPECT_EQ(handled("locked"), 0);
}

TEST_P(SqliteHangingStores, leave_the_leases_of_others_renewed) {
  add_patient("locked");
  add_working("healthy", 1);
  enqueue("locked");
  enqueue("healthy", 1);
  lock("locked");
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message&) { finish_.wait(); });
  DispatcherOptions options = without_chores();
  options.lease = 3s;
  start(std::move(handlers), options);
  const bool renewed = reached([&] { return statements_["renew"] >= 5; });
  finish_.count_down();
  ASSERT_TRUE(renewed);
  ASSERT_TRUE(all_handled("healthy", 1, 1));
  EXPECT_EQ(handled("healthy"), 1);
  EXPECT_EQ(lost("healthy"), 0);
}

TEST_P(SqliteHangingStores, leave_the_chores_of_others_done) {
  add_patient("locked");
  add_working("healthy");
  set();
  const ChoreOptions often{.interval = 1ms};
  DispatcherOptions options;
  options.housekeeping = HousekeepingOptions{.reap = often, .expire = often, .shortest_lease = 1ms};
  start(one_handler(), options);
  const auto all_kept = [&](const std::string& prefix, const Counts& since) {
    return reached([&] {
      for (int i = 0; i < store_count; ++i) {
        const auto before = since.find(name_of(prefix, i));
        if (chores_[name_of(prefix, i)] < (before == since.end() ? 0 : before->second) + 4)
          return false;
      }
      return true;
    });
  };
  ASSERT_TRUE(all_kept("locked", {}) && all_kept("healthy", {}));
  lock("locked");
  for (int round = 0; round < 3; ++round) {
    Counts now;
    reached([&] {
      now = chores_;
      return true;
    });
    ASSERT_TRUE(all_kept("healthy", now));
  }
}

TWINBOX_ON_BACKENDS(SqliteHangingStores, Backend::sqlite_file);

}  // namespace
}  // namespace twinbox::test
