#include "database/writer_queue.hpp"

#include <atomic>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "database/pool.hpp"
#include "fake_driver.hpp"
#include "support/race.hpp"
#include "twinbox/database.hpp"

namespace twinbox {
namespace {

using namespace std::chrono_literals;
using Kind = DatabaseError::Kind;
using Acts = std::vector<std::string>;

/// A pool of a file that one writes to at a time. Its time stands still.
class WriterQueueTest : public ::testing::Test {
 protected:
  WriterQueueTest() {
    environment_.random = [] { return std::uint64_t{0}; };
    pool_ = std::make_unique<Pool>(
        std::make_unique<FakeDriver>(world_, Driver::Shape{1, 2, false, true}),
        DatabaseOptions{.wait_timeout = 1h}, environment_,
        PoolTime{.now =
                     [this] {
                       ++asked_;
                       asked_.notify_all();
                       return std::chrono::steady_clock::time_point{};
                     },
                 .wait = [](std::chrono::milliseconds) {}});
  }

  void write(const std::function<void()>& work, Access access = Access::write) {
    pool_->run(access, Scope::transaction, [&](Session&) { work(); });
  }

  /// Runs `work` on a thread of its own and returns once it stands in the queue: a call asks for
  /// the time when it begins, and again when it has taken its place.
  std::future<void> queued(std::function<void()> work) {
    const int before = asked_;
    auto future = std::async(std::launch::async, std::move(work));
    for (int asked = asked_; asked < before + 2; asked = asked_) asked_.wait(asked);
    return future;
  }

  /// Runs once, in its first run, when `work` leads.
  std::function<void()> first_time(const std::function<void()>& body) {
    return [body, done = std::make_shared<bool>(false)] {
      if (!std::exchange(*done, true)) body();
    };
  }

  [[nodiscard]] Acts acts_since_connect() const {
    return {world_.acts.begin() + 1, world_.acts.end()};
  }

  World world_;
  Environment environment_;
  std::atomic<int> asked_ = 0;
  std::unique_ptr<Pool> pool_;
};

TEST_F(WriterQueueTest, one_commit_serves_all_who_waited_in_their_order) {
  std::string order;
  std::vector<std::future<void>> others;
  std::thread::id ran_on;
  write([&] {
    order += 'a';
    others.push_back(queued([&] {
      write([&] {
        order += 'b';
        ran_on = std::this_thread::get_id();
      });
    }));
    others.push_back(queued([&] { write([&] { order += 'c'; }); }));
  });
  for (auto& other : others) other.get();
  EXPECT_EQ(order, "abc");
  EXPECT_EQ(ran_on, std::this_thread::get_id());
  EXPECT_EQ(acts_since_connect(), (Acts{"1 begin", "1 commit"}));
}

TEST_F(WriterQueueTest, one_who_fails_fails_nobody_else) {
  std::string order;
  std::vector<std::future<void>> others;
  write([&, come = first_time([&] {
              others.push_back(queued([&] {
                write([&] {
                  order += 'b';
                  throw std::invalid_argument("mine alone");
                });
              }));
              others.push_back(queued([&] { write([&] { order += 'c'; }); }));
            })] {
    order += 'a';
    come();
  });
  EXPECT_THROW(others[0].get(), std::invalid_argument);
  EXPECT_NO_THROW(others[1].get());
  EXPECT_EQ(order, "ababc");
  EXPECT_EQ(acts_since_connect(), (Acts{"1 begin", "1 rollback", "1 begin", "1 commit", "1 begin",
                                        "1 rollback", "1 begin", "1 commit"}));
}

TEST_F(WriterQueueTest, each_comes_again_alone_when_the_commit_of_all_was_refused) {
  world_.commit_faults.push_back(Kind::out_of_space);
  int leader = 0;
  int other = 0;
  std::future<void> waiting;
  write([&, come = first_time([&] { waiting = queued([&] { write([&] { ++other; }); }); })] {
    ++leader;
    come();
  });
  waiting.get();
  EXPECT_EQ(leader, 2);
  EXPECT_EQ(other, 2);
}

TEST_F(WriterQueueTest, a_commit_in_doubt_is_in_doubt_for_all_and_repeated_for_nobody) {
  world_.commit_faults.push_back(Kind::commit_in_doubt);
  int runs = 0;
  std::future<void> waiting;
  const auto kind_of = [](const std::function<void()>& body) {
    try {
      body();
    } catch (const DatabaseError& error) {
      return error.kind();
    }
    return Kind::other;
  };
  EXPECT_EQ(kind_of([&] {
              write([&] {
                ++runs;
                waiting = queued([&] { write([&] { ++runs; }); });
              });
            }),
            Kind::commit_in_doubt);
  EXPECT_EQ(kind_of([&] { waiting.get(); }), Kind::commit_in_doubt);
  EXPECT_EQ(runs, 2);
}

TEST_F(WriterQueueTest, a_callers_transaction_carries_nobody_and_is_carried_by_nobody) {
  std::vector<std::future<void>> others;
  std::thread::id ran_on;
  pool_->in_transaction([&](Session&) {
    others.push_back(queued(
        [&] { pool_->in_transaction([&](Session&) { ran_on = std::this_thread::get_id(); }); }));
    others.push_back(queued([&] { write([] {}); }));
  });
  for (auto& other : others) other.get();
  EXPECT_NE(ran_on, std::this_thread::get_id());
  EXPECT_EQ(acts_since_connect(),
            (Acts{"1 begin", "1 commit", "1 begin", "1 commit", "1 begin", "1 commit"}));
}

TEST_F(WriterQueueTest, what_need_not_last_carries_nothing_that_must) {
  std::vector<std::future<void>> others;
  write(
      [&] {
        others.push_back(queued([&] { write([] {}); }));
        others.push_back(queued([&] { write([] {}, Access::write_relaxed); }));
      },
      Access::write_relaxed);
  for (auto& other : others) other.get();
  EXPECT_EQ(world_.accesses, (std::vector{Access::write_relaxed, Access::write}));
}

TEST_F(WriterQueueTest, what_need_not_last_is_made_to_last_for_those_who_wait_behind_it) {
  std::vector<std::future<void>> others;
  pool_->in_transaction([&](Session&) {
    others.push_back(queued([&] { write([] {}, Access::write_relaxed); }));
    others.push_back(queued([&] { write([] {}); }));
  });
  for (auto& other : others) other.get();
  EXPECT_EQ(world_.accesses, (std::vector{Access::write, Access::write}));
}

TEST_F(WriterQueueTest, a_stop_ends_the_wait_of_one_and_leaves_the_others) {
  std::stop_source stop;
  std::future<void> stopped;
  std::future<void> other;
  pool_->in_transaction([&](Session&) {
    stopped = queued([&] {
      const StopScope scope{stop.get_token()};
      write([] { ADD_FAILURE() << "it was stopped before its turn"; });
    });
    other = queued([&] { write([] {}); });
    stop.request_stop();
    try {
      stopped.get();
      ADD_FAILURE() << "no error";
    } catch (const DatabaseError& error) {
      EXPECT_EQ(error.kind(), Kind::cancelled);
    }
  });
  EXPECT_NO_THROW(other.get());
}

TEST_F(WriterQueueTest, the_stop_of_the_one_who_leads_ends_no_call_that_came_along) {
  std::stop_source stop;
  std::future<void> along;
  int runs = 0;
  const StopScope scope{stop.get_token()};
  const auto leads = first_time([&] {
    along = queued([&] {
      write([&] {
        if (++runs > 1) return;
        stop.request_stop();  // a statement on the connection of the one who leads ends so
        throw DatabaseError(Kind::cancelled, "stopped on request");
      });
    });
  });
  try {
    write([&] {
      leads();
      if (stop.stop_requested()) throw DatabaseError(Kind::cancelled, "stopped on request");
    });
    ADD_FAILURE() << "no error";
  } catch (const DatabaseError& error) {
    EXPECT_EQ(error.kind(), Kind::cancelled);
  }
  EXPECT_NO_THROW(along.get());
  EXPECT_EQ(runs, 2) << "again, in a transaction of its own";
  EXPECT_EQ(acts_since_connect().back(), "1 commit");
}

TEST_F(WriterQueueTest, runs_every_call_once_committed_and_never_two_at_once) {
  constexpr int threads = 6;
  constexpr int calls = 300;
  std::atomic<int> inside = 0;
  int committed = 0;  // only whoever writes touches it
  test::race(threads, [&](int number) {
    for (int i = 0; i < calls; ++i) {
      const auto work = [&](Session&) {
        EXPECT_EQ(++inside, 1);
        ++committed;
        --inside;
      };
      if (number == 0) {
        pool_->in_transaction(work);
      } else {
        pool_->run(number == 1 ? Access::write_relaxed : Access::write, Scope::statement, work);
      }
    }
  });
  EXPECT_EQ(committed, threads * calls);
  EXPECT_EQ(world_.connected, 1);
}

}  // namespace
}  // namespace twinbox
