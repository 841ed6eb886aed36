#include "database/connection_budget.hpp"

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <future>
#include <latch>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "database/pool.hpp"
#include "fake_driver.hpp"
#include "sql/render.hpp"
#include "support/process.hpp"
#include "twinbox/stores.hpp"

namespace twinbox {
namespace {

using namespace std::chrono_literals;
using Acts = std::vector<std::string>;

/// Pools that share a budget. Their time stands still, so that a wait_timeout is really waited for.
class BudgetTest : public ::testing::Test {
 protected:
  void limit_to(std::size_t connections) {
    budget_ = std::make_shared<ConnectionBudget>(
        ConnectionBudget::BudgetOptions{.limit = connections,
                                        .where = "there:5432",
                                        .option = "connections_per_server",
                                        .now = [this] { return idle_time_; }});
  }

  std::unique_ptr<Pool> pool(std::string name, std::chrono::milliseconds wait_timeout = 60s,
                             std::optional<Driver::Shape> shape = {}) {
    const PoolTime time{.now =
                            [this] {
                              const std::scoped_lock lock{mutex_};
                              ++asked_;
                              changed_.notify_all();
                              return std::chrono::steady_clock::time_point{};
                            },
                        .wait = [](auto) {}};
    return std::make_unique<Pool>(
        std::make_unique<FakeDriver>(world_, shape),
        DatabaseOptions{.name = std::move(name), .wait_timeout = wait_timeout, .retries = 0},
        Environment{}, time, budget_);
  }

  static int use(Pool& pool) {
    return pool.run(Access::write, Scope::statement,
                    [](Session& session) { return number_of(session); });
  }

  template <class F>
  static std::string refusal(F body) {
    try {
      body();
    } catch (const PoolExhausted& error) {
      return error.what();
    }
    return "granted";
  }

  /// Runs `work` on a thread of its own and returns once it waits: a call asks for the time when it
  /// begins, and again before it waits.
  template <class F>
  std::jthread queued(F work) {
    std::unique_lock lock{mutex_};
    const int before = asked_;
    std::jthread thread{std::move(work)};
    changed_.wait(lock, [&] { return asked_ >= before + 2; });
    return thread;
  }

  World world_;
  ConnectionBudget::Time idle_time_{0};
  std::shared_ptr<ConnectionBudget> budget_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int asked_ = 0;
};

TEST_F(BudgetTest, closes_the_connection_that_was_idle_for_longest_before_it_opens_another) {
  limit_to(3);
  const auto a = pool("a");
  const auto b = pool("b");
  const auto c = pool("c");
  const auto d = pool("d");
  for (Pool* one : {a.get(), b.get(), c.get(), a.get()}) use(*one);
  world_.acts.clear();
  EXPECT_EQ(use(*d), 4);
  EXPECT_EQ(world_.acts, (Acts{"2 close", "4 connect", "4 begin", "4 commit"}));
  EXPECT_EQ(use(*a), 1);
  EXPECT_EQ(use(*b), 5);
  EXPECT_EQ(world_.acts.at(6), "3 close");
}

TEST_F(BudgetTest, never_opens_more_than_allowed_over_all_pools) {
  limit_to(4);
  std::vector<std::unique_ptr<Pool>> pools;
  for (int i = 0; i < 6; ++i) pools.push_back(pool("p" + std::to_string(i)));
  std::atomic<int> calls = 0;
  std::jthread housekeeper{[&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      if (budget_->reserve_connection()) budget_->unreserve_connection();
      budget_->close_idle(1h);
      std::this_thread::yield();
    }
  }};
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < 8; ++i) {
      threads.emplace_back([&, i] {
        for (std::size_t j = 0; j < 200; ++j) {
          pools[(i + j) % 6]->in_transaction([&](Session& session) {
            if (j % 3 == 0) use(*pools[(i + j + 1) % 6]);
            if (j % 50 == 0) dynamic_cast<FakeConnection&>(session).break_it();
            ++calls;
          });
        }
      });
    }
  }
  housekeeper = {};
  EXPECT_EQ(calls, 1600);
  EXPECT_LE(world_.most_open, 4);
  EXPECT_EQ(budget_->open(), static_cast<std::size_t>(world_.open));
  pools.clear();
  EXPECT_EQ(budget_->open(), 0u);
  EXPECT_EQ(world_.open, 0);
}

TEST_F(BudgetTest, lets_those_who_wait_for_different_pools_have_their_turn) {
  limit_to(1);
  const auto a = pool("a");
  const auto b = pool("b");
  std::string order;
  std::vector<std::jthread> threads;
  a->in_transaction([&](Session&) {
    for (const char name : {'b', 'a', 'B', 'A'}) {
      Pool& wanted = name == 'a' || name == 'A' ? *a : *b;
      threads.push_back(queued(
          [&order, &wanted, name] { wanted.in_transaction([&](Session&) { order += name; }); }));
    }
  });
  threads.clear();
  EXPECT_EQ(order, "baBA");
  EXPECT_EQ(world_.most_open, 1);
}

TEST_F(BudgetTest, names_the_budget_when_nothing_becomes_free) {
  limit_to(1);
  const auto a = pool("a");
  const auto b = pool("b", 0ms);
  a->in_transaction([&](Session&) {
    std::jthread{[&] {
      EXPECT_EQ(
          refusal([&] { use(*b); }),
          "store b: no free connection to there:5432 within 0 s (connections_per_server 1, "
          "over all stores of the set); raise connections_per_server or wait_timeout, or keep "
          "transactions short");
    }}.join();
  });
}

TEST_F(BudgetTest, names_the_pool_when_it_is_the_pool_that_is_full) {
  limit_to(10);
  const auto a = pool("a", 0ms, Driver::Shape{1, 4, false});
  a->in_transaction([&](Session&) {
    std::jthread{[&] {
      EXPECT_TRUE(
          refusal([&] { use(*a); }).starts_with("store a: no free connection within 0 s ("));
    }}.join();
  });
}

TEST_F(BudgetTest, keeps_a_connection_for_threads_that_hold_one_already) {
  constexpr int limit = 5;
  limit_to(limit);
  const auto a = pool("a", 5s);
  const auto b = pool("b", 5s);
  int hold = 0;
  std::atomic<int> finished = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < limit; ++i) {
    threads.emplace_back([&] {
      EXPECT_NO_THROW(a->in_transaction([&](Session&) {
        {
          // All that can be had is in use when the first of them asks for a second one.
          std::unique_lock lock{mutex_};
          ++hold;
          changed_.notify_all();
          changed_.wait(lock, [&] { return hold + asked_ - limit >= limit; });
        }
        use(*b);
      }));
      ++finished;
    });
  }
  threads.clear();
  EXPECT_EQ(finished, limit);
  EXPECT_LE(world_.most_open, limit);
}

TEST_F(BudgetTest, serves_all_who_can_be_served_when_one_connection_comes_back) {
  limit_to(4);
  const auto narrow = pool("narrow", 5s, Driver::Shape{1, 1, true});
  const auto wide = pool("wide", 5s);
  std::promise<void> second_done;
  std::jthread first;
  std::jthread second;
  narrow->in_transaction([&](Session&) {
    std::promise<void> holds;
    std::promise<void> on_progress;
    second = std::jthread{[&] {
      wide->in_transaction([&](Session&) {
        holds.set_value();
        on_progress.get_future().wait();
        EXPECT_NO_THROW(use(*narrow)) << "it holds one, and so may have the last but one";
      });
      second_done.set_value();
    }};
    holds.get_future().wait();
    first =
        queued([&] { wide->in_transaction([&](Session&) { second_done.get_future().wait(); }); });
    std::unique_lock lock{mutex_};
    const int before = asked_;
    on_progress.set_value();
    changed_.wait(lock, [&] { return asked_ >= before + 2; });
  });
}

TEST_F(BudgetTest, refuses_at_once_what_could_only_wait_for_itself) {
  limit_to(3);
  const auto a = pool("a");
  const auto b = pool("b");
  a->in_transaction([&](Session&) {
    b->in_transaction([&](Session&) {
      a->in_transaction([&](Session&) {
        EXPECT_EQ(refusal([&] { b->in_transaction([](Session&) {}); }),
                  "store b: this thread holds 3 connections already, and none is left for one more "
                  "to there:5432 (connections_per_server 3, over all stores of the set); raise "
                  "connections_per_server, or use fewer stores inside one transaction");
      });
    });
  });
  EXPECT_EQ(use(*b), 2) << "and nothing was lost by it";
}

TEST_F(BudgetTest, counts_what_a_thread_holds_over_all_budgets) {
  limit_to(1);
  const auto a = pool("a");
  limit_to(1);
  const auto b = pool("b");
  // Else two threads could wait for each other's server.
  a->in_transaction([&](Session&) {
    use(*b);
    b->in_transaction([&](Session&) {
      std::jthread{[&] { EXPECT_FALSE(Pool::holds_budgeted()); }}.join();
      EXPECT_TRUE(Pool::holds_budgeted());
    });
  });
  EXPECT_FALSE(Pool::holds_budgeted());
}

TEST_F(BudgetTest, gets_back_what_could_not_be_opened) {
  limit_to(1);
  const auto a = pool("a");
  const auto b = pool("b", 0ms);
  world_.connect_faults = {DatabaseError::Kind::permission};
  EXPECT_THROW(use(*a), DatabaseError);
  EXPECT_EQ(budget_->open(), 0u);
  EXPECT_EQ(use(*b), 1);
}

TEST_F(BudgetTest, gives_the_place_of_a_broken_connection_to_another_pool) {
  limit_to(1);
  const auto a = pool("a");
  const auto b = pool("b");
  int number = 0;
  std::jthread other;
  a->in_transaction([&](Session& session) {
    other = queued([&] { number = use(*b); });
    dynamic_cast<FakeConnection&>(session).break_it();
  });
  other.join();
  EXPECT_EQ(number, 2);
}

TEST_F(BudgetTest, closes_what_nobody_has_used_for_a_while) {
  limit_to(10);
  const auto a = pool("a");
  const auto b = pool("b");
  a->in_transaction([&](Session&) { a->in_transaction([](Session&) {}); });
  idle_time_ = 30s;
  use(*b);
  use(*a);
  world_.acts.clear();
  budget_->close_idle(29s);
  EXPECT_EQ(world_.acts, Acts{"2 close"});
  budget_->close_idle(30s);
  EXPECT_EQ(world_.acts, (Acts{"2 close", "3 close", "1 close"}));
  EXPECT_EQ(budget_->open(), 0u);
  EXPECT_EQ(use(*a), 4);
}

TEST_F(BudgetTest, leaves_a_connection_in_use_alone) {
  limit_to(10);
  const auto a = pool("a");
  a->in_transaction([&](Session& session) {
    budget_->close_idle(1h);
    EXPECT_EQ(number_of(session), 1);
    EXPECT_EQ(budget_->open(), 1u);
  });
  EXPECT_EQ(use(*a), 1);
}

TEST_F(BudgetTest, serves_those_who_wait_once_a_pool_is_gone) {
  limit_to(2);
  auto a = pool("a");
  const auto b = pool("b");
  use(*a);
  a.reset();
  EXPECT_EQ(budget_->open(), 0u);
  EXPECT_EQ(use(*b), 2);
}

TEST_F(BudgetTest, sets_a_quarter_aside_at_most_and_keeps_the_rest_usable) {
  limit_to(8);
  const auto a = pool("a", 0ms);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(budget_->reserve_connection());
  EXPECT_FALSE(budget_->reserve_connection());
  // Of the six that are left, the last two are for those who hold one already.
  a->in_transaction([&](Session&) {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 2; ++i) threads.push_back(std::jthread{[&] { use(*a); }});
    threads.clear();
    EXPECT_TRUE(Pool::holds_budgeted());
  });
  budget_->unreserve_connection();
  EXPECT_TRUE(budget_->reserve_connection());
}

TEST_F(BudgetTest, closes_an_idle_connection_for_one_that_is_set_aside) {
  limit_to(4);
  const auto a = pool("a");
  a->in_transaction([&](Session&) {
    a->in_transaction([&](Session&) {
      a->in_transaction([&](Session&) {
        EXPECT_FALSE(budget_->reserve_connection()) << "those in use are nearly all there are";
        a->in_transaction([](Session&) {});
      });
    });
  });
  EXPECT_EQ(budget_->open(), 4u);
  world_.acts.clear();
  EXPECT_TRUE(budget_->reserve_connection());
  EXPECT_EQ(world_.acts, Acts{"4 close"});
  EXPECT_EQ(budget_->open(), 3u);
}

TEST_F(BudgetTest, does_not_touch_a_pool_that_stands_alone) {
  limit_to(1);
  const auto a = pool("a");
  budget_ = nullptr;
  const auto alone = pool("alone");
  alone->in_transaction([&](Session&) {
    EXPECT_FALSE(Pool::holds_budgeted());
    alone->in_transaction([](Session&) {});
    use(*a);
  });
  EXPECT_EQ(world_.open, 3);
}

TEST(BudgetsTest, are_one_for_each_server_and_one_for_all_files) {
  ConnectionBudgets budgets({.per_server = 20, .files = 200},
                            [] { return ConnectionBudget::Time{0}; });
  const auto north = budgets.at({"north:5432", "a"});
  EXPECT_EQ(budgets.at({"north:5432", "b"}), north);
  EXPECT_NE(budgets.at({"south:5432", "a"}), north);
  EXPECT_EQ(north->budget_options().limit, 20u);
  EXPECT_EQ(budgets.at({"files", "/tmp/a"})->budget_options().limit, 200u);
  EXPECT_EQ(budgets.at({}), nullptr);
}

/// Two SQLite files that share a budget of three.
class BudgetedStoreTest : public ::testing::Test {
 protected:
  BudgetedStoreTest() {
    folder_ = std::filesystem::temp_directory_path() /
              ("twinbox_budget_" + std::to_string(std::random_device{}()));
    std::filesystem::create_directory(folder_);
  }
  ~BudgetedStoreTest() override { std::filesystem::remove_all(folder_); }

  StoreDefinition define(std::string name) {
    const std::string address = "sqlite:" + (folder_ / name).string();
    return {.name = std::move(name),
            .address = address,
            .database = {.wait_timeout = 5s},
            .outbox = {.deploy_schema = true},
            .inbox = {.deploy_schema = true}};
  }

  std::filesystem::path folder_;
  ConnectionBudgets budgets_{{.per_server = 3, .files = 3},
                             [] { return ConnectionBudget::Time{0}; }};
};

TEST_F(BudgetedStoreTest, watches_without_a_connection_what_the_budget_has_none_to_spare_for) {
  ConnectionBudgets budgets{{.per_server = 3, .files = 8},
                            [] { return ConnectionBudget::Time{0}; }};
  std::vector<std::unique_ptr<Store>> stores;
  for (const char* name : {"a", "b", "c"}) {
    stores.push_back(std::make_unique<Store>(define(name), Environment{}, &budgets));
    stores.back()->outbox();
  }
  budgets.close_idle(0s);
  const auto watch = [&](std::size_t store) {
    const OpenWatch open = pool_of(stores[store]->database()).watch({"infra", "outbox"});
    return open({});
  };
  const auto connections = [&](const char* name) {
    return test::open_files((folder_ / name).string());
  };
  auto first = watch(0);
  const auto second = watch(1);
  auto third = watch(2);
  EXPECT_GT(connections("a"), 0u);
  EXPECT_GT(connections("b"), 0u);
  EXPECT_EQ(connections("c"), 0u);
  ASSERT_TRUE(third);
  Store{define("c")}.outbox().enqueue({.topic = Topic{"order.placed"}, .payload = "x"});
  EXPECT_TRUE(third->changed());
  first = nullptr;
  third = watch(2);
  EXPECT_GT(connections("c"), 0u) << "the first one's connection";
}

TEST_F(BudgetTest, keeps_half_for_stores_that_do_not_hang) {
  limit_to(6);  // four for threads that hold none
  std::vector<std::unique_ptr<Pool>> hanging;
  for (const char* name : {"a", "b", "c"}) hanging.push_back(pool(name, 0ms));
  const auto healthy = pool("healthy", 0ms);
  const auto other = pool("other", 0ms);
  for (const auto& one : hanging) {
    world_.begin_faults.push_back(DatabaseError::Kind::contention);
    EXPECT_THROW(use(*one), DatabaseError);
  }
  std::promise<void> end;
  const std::shared_future<void> ended = end.get_future().share();
  std::latch under_way{2};
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      hanging[i]->run(Access::write, Scope::statement, [&](Session&) {
        under_way.count_down();
        ended.wait();
      });
    });
  }
  under_way.wait();
  EXPECT_EQ(refusal([&] { use(*hanging[2]); }),
            "store c: no free connection to there:5432 within 0 s (connections_per_server 6, over "
            "all stores of the set); raise connections_per_server or wait_timeout, or keep "
            "transactions short");
  EXPECT_EQ(refusal([&] { healthy->in_transaction([&](Session&) { use(*other); }); }), "granted");
  EXPECT_EQ(refusal([&] { healthy->in_transaction([&](Session&) { use(*hanging[2]); }); }),
            "granted")
      << "whoever holds a connection can go on";
  EXPECT_EQ(refusal([&] { use(*hanging[2]); }), "granted") << "its last call has worked";
  end.set_value();
}

TEST_F(BudgetTest, has_no_connection_to_listen_with_beyond_a_quarter) {
  limit_to(8);
  struct Silent final : Watch {
    [[nodiscard]] int descriptor() const noexcept override { return -1; }
    bool changed() override { return false; }
    void set_waiting(bool) override {}
  };
  world_.watch = [](const std::stop_token&) { return std::make_unique<Silent>(); };
  const auto a = pool("a");
  const auto b = pool("b");
  const OpenWatch open_a = a->watch({"infra", "outbox"});
  const OpenWatch open_b = b->watch({"infra", "outbox"});
  auto first = open_a({});
  const auto second = open_a({});
  ASSERT_TRUE(first);
  ASSERT_TRUE(second);
  EXPECT_FALSE(open_b({}));
  first = nullptr;
  EXPECT_TRUE(open_b({})) << "it was put back, and is again";
  EXPECT_TRUE(open_b({}));
  EXPECT_EQ(a->watch_budget(), b->watch_budget());
}

TEST_F(BudgetedStoreTest, does_not_let_a_transaction_wait_for_a_shared_commit_that_waits_for_it) {
  Store a{define("a"), {}, &budgets_};
  Store b{define("b"), {}, &budgets_};
  b.outbox();
  b.inbox();
  const NewMessage message{.topic = Topic{"order.placed"}, .payload = "x"};
  const Arrival arrival{Source{"s"}, MessageId{"1"}, Topic{"order.placed"}, "x"};
  const auto budget = budgets_.at({"files", ""});
  std::jthread other;
  std::atomic<bool> done = false;
  a.database().in_transaction([&](Session&) {
    other = std::jthread{[&] {
      // Leads the next shared commit, and gets its connection when the transaction has ended.
      EXPECT_NO_THROW(b.outbox().enqueue(message));
      EXPECT_NO_THROW(b.inbox().accept(arrival));
      done = true;
    }};
    while (budget->waiting() == 0 && !done) std::this_thread::yield();
    EXPECT_NO_THROW(b.outbox().enqueue(message));
    EXPECT_NO_THROW(b.inbox().accept(arrival));
  });
  other.join();
  EXPECT_EQ(b.outbox().claim(OwnerToken::make({})).size(), 2u);
}

}  // namespace
}  // namespace twinbox
