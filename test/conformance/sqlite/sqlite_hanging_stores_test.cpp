// Stores whose files another program keeps locked hold up no other store of the dispatcher.
#include <algorithm>
#include <atomic>
#include <deque>
#include <latch>
#include <mutex>

#include "support/hanging_stores.hpp"
#include "support/write_lock.hpp"

namespace twinbox::test {
namespace {

class SqliteHangingStores : public HangingStores {
 protected:
  ~SqliteHangingStores() override { stop(); }

  /// Stores that wait for the write lock as long as it takes.
  void add_patient(const std::string& prefix, int count = store_count) {
    for (int i = 0; i < count; ++i) {
      StoreDefinition& store = add(define(name_of(prefix, i)));
      store.database.wait_timeout = 1h;
      addresses_[prefix].push_back(store.address);
    }
  }
  void lock(const std::string& prefix) {
    for (const std::string& address : addresses_[prefix]) locks_.emplace_back(address);
  }
  void unlock() { locks_.clear(); }
  /// From now on each visit to these stores that claims something hangs until the end of the test:
  /// it cannot be ended, as if it were in its commit.
  void hang_visits_to(const std::string& prefix) {
    at_claim([this, prefix](std::string_view store) {
      if (!hangs_ || !store.starts_with(prefix)) return;
      ++hanging_;
      finish_.wait();
      --hanging_;
    });
  }
  /// The database part of each call for these stores hangs: their files are locked once they have
  /// been claimed from.
  void hang_calls_of(const std::string& prefix) {
    at_claim([this, prefix](std::string_view store) {
      if (!store.starts_with(prefix)) return;
      const auto number = std::stoul(std::string{store.substr(prefix.size() + 1)});
      const std::scoped_lock lock{locking_};
      locks_.emplace_back(addresses_[prefix].at(number));
    });
  }
  void healthy_ones_are_handled(Handlers handlers, const DispatcherOptions& options) {
    start(std::move(handlers), options);
    ASSERT_TRUE(reached_locks(2 * options.workers));
    for (int round = 1; round <= 3; ++round) {
      enqueue("healthy", 2);
      ASSERT_TRUE(all_handled("healthy", round, 2)) << "round " << round;
    }
    EXPECT_EQ(handled("locked"), 0);
    unlock();
    EXPECT_TRUE(all_handled("locked", 1, 2 * options.workers));
  }
  bool reached_locks(int count) {
    const auto ends = std::chrono::steady_clock::now() + 120s;
    for (;;) {
      const std::scoped_lock lock{locking_};
      if (std::ssize(locks_) >= count) return true;
      if (std::chrono::steady_clock::now() > ends) return false;
    }
  }
  std::atomic<bool> hangs_ = false;
  std::atomic<int> hanging_ = 0;  ///< visits

  std::latch finish_{1};  ///< for handlers

 private:
  std::map<std::string, std::vector<std::string>> addresses_;
  std::mutex locking_;
  std::deque<WriteLock> locks_;
};

class SqliteVisitsThatHang : public SqliteHangingStores {
 protected:
  ~SqliteVisitsThatHang() override {
    finish_.count_down();
    stop();
  }
  static constexpr int rounds = 3;

  /// The first `count` stores hang for good, then messages come for the others.
  void hold_up_no_other(int count) {
    add_patient("hanging", count);
    add_working("healthy");
    hang_visits_to("hanging");
    enqueue("hanging", count);
    enqueue("healthy");
    start();
    ASSERT_TRUE(all_handled("hanging", 1, count) && all_handled("healthy", 1));
    const auto with_none = median_latency("healthy", 1, rounds);
    dispatcher().pause();
    enqueue("hanging", count);
    hangs_ = true;
    dispatcher().resume();
    constexpr int most_that_hang = 64;
    const int hanging = std::min(count, most_that_hang);
    ASSERT_TRUE(reached([&] {
      return std::ranges::count_if(claimed_, [](const auto& store) {
               return store.first.starts_with("hanging") && store.second == 2;
             }) >= hanging;
    }));
    expect_no_delay(with_none, median_latency("healthy", 1 + rounds, rounds));
    EXPECT_GE(hanging_, hanging) << "none of them has ended";
    EXPECT_EQ(handled("hanging"), count);
  }
};

TEST_P(SqliteVisitsThatHang, fifty_hold_up_no_other) { hold_up_no_other(50); }
TEST_P(SqliteVisitsThatHang, a_hundred_and_fifty_two_hold_up_no_other) { hold_up_no_other(152); }

TEST_P(SqliteHangingStores, whose_transactional_handlers_hang_leave_workers_to_the_others) {
  DispatcherOptions options = without_chores();
  add_patient("locked", 2 * options.workers);
  add_working("healthy", 2);
  hang_calls_of("locked");
  enqueue("locked", 2 * options.workers);
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [](Session&, const Message&) {});
  healthy_ones_are_handled(std::move(handlers), options);
}

TEST_P(SqliteHangingStores, whose_calls_at_most_once_hang_leave_workers_to_the_others) {
  DispatcherOptions options = without_chores();
  add_patient("locked", 2 * options.workers);
  add_working("healthy", 2);
  hang_calls_of("locked");
  enqueue("locked", 2 * options.workers);
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [](const Message&) {}, {.at_most_once = true});
  healthy_ones_are_handled(std::move(handlers), options);
}

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
  options.housekeeping = HousekeepingOptions{.reap = often, .expire = often, .min_lease = 1ms};
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
TWINBOX_ON_BACKENDS(SqliteVisitsThatHang, Backend::sqlite_file);

}  // namespace
}  // namespace twinbox::test
