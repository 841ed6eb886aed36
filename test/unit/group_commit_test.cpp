// Who writes for callers that share a commit, and what they are answered when that fails.
#include "queue/group_commit.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <latch>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "database/pool.hpp"
#include "support/race.hpp"

namespace twinbox::test {
namespace {

using Answers = std::span<std::optional<int>>;

constexpr int callers = 64;

/// Submits one item per caller, all at once; the first writing waits until they have all come.
class GroupCommitTest : public ::testing::Test {
 protected:
  void submit_all(const std::function<void(std::span<const int>, Answers)>& write) {
    GroupCommit<int, int> commit{[&](std::span<const int> items, Answers answers) {
                                   if (writes_++ == 0) wait_for_the_others();
                                   write(items, answers);
                                 },
                                 callers, callers};
    race(callers, [&](int caller) {
      ++come_;
      try {
        EXPECT_EQ(commit.submit(caller, 1), caller);
        ++answered_;
      } catch (const DatabaseError& error) {
        EXPECT_EQ(error.kind(), DatabaseError::Kind::contention);
        ++failed_;
      }
    });
  }

  static void answer(std::span<const int> items, Answers answers) {
    for (std::size_t i = 0; i < items.size(); ++i) answers[i] = items[i];
  }

  std::atomic<int> writes_ = 0;
  std::atomic<int> answered_ = 0;
  std::atomic<int> failed_ = 0;

 private:
  void wait_for_the_others() const {
    while (come_ < callers) std::this_thread::yield();
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();
  }

  std::atomic<int> come_ = 0;
};

/// Keeps the ledger of a store that takes its time, so that whoever leads waits for the others.
class Ledger {
 public:
  GroupCommit<int, int>::Write write() {
    return [this](std::span<const int> items, Answers answers) {
      EXPECT_FALSE(busy_.exchange(true)) << "two batches were written at once";
      const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds{200};
      while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
      for (const int item : items) ++times_[static_cast<std::size_t>(item)];
      largest_ = std::max(largest_, items.size());
      for (std::size_t i = 0; i < items.size(); ++i) answers[i] = items[i] + 1;
      busy_ = false;
    };
  }

  std::vector<int> times_ = std::vector<int>(10'000);
  std::size_t largest_ = 0;

 private:
  std::atomic<bool> busy_ = false;
};

/// Each caller comes again as soon as he is answered.
void submit_in_rounds(GroupCommit<int, int>& commit, int threads, int rounds) {
  race(threads, [&](int caller) {
    for (int i = 0; i < rounds; ++i) {
      const int item = caller * rounds + i;
      EXPECT_EQ(commit.submit(item, 1), item + 1);
    }
  });
}

TEST(GroupCommitRounds, writes_each_item_once_and_one_batch_at_a_time) {
  for (const int threads : {2, 5, 16}) {
    Ledger ledger;
    GroupCommit<int, int> commit{ledger.write(), 512, 512};
    submit_in_rounds(commit, threads, 100);
    EXPECT_EQ(std::count(ledger.times_.begin(), ledger.times_.end(), 1), threads * 100);
    EXPECT_EQ(*std::max_element(ledger.times_.begin(), ledger.times_.end()), 1);
  }
}

TEST(GroupCommitRounds, waits_for_nobody_when_a_batch_is_full) {
  Ledger ledger;
  GroupCommit<int, int> commit{ledger.write(), 3, 512};
  submit_in_rounds(commit, 16, 50);
  EXPECT_EQ(std::count(ledger.times_.begin(), ledger.times_.end(), 1), 16 * 50);
  EXPECT_LE(ledger.largest_, 3u);
}

TEST(GroupCommitRounds, goes_on_without_callers_who_do_not_come_again) {
  Ledger ledger;
  GroupCommit<int, int> commit{ledger.write(), 512, 512};
  submit_in_rounds(commit, 16, 1);
  for (int item = 16; item < 20; ++item) EXPECT_EQ(commit.submit(item, 1), item + 1);
  EXPECT_EQ(std::count(ledger.times_.begin(), ledger.times_.end(), 1), 20);
}

TEST(GroupCommitRounds, fails_the_bad_item_of_each_round_and_no_other) {
  std::atomic<int> failed = 0;
  GroupCommit<int, int> commit{
      [](std::span<const int> items, Answers answers) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds{100};
        while (std::chrono::steady_clock::now() < end) {
        }
        for (const int item : items) {
          if (item % 7 == 0) {
            throw DatabaseError(DatabaseError::Kind::invalid_request, "bad");
          }
        }
        for (std::size_t i = 0; i < items.size(); ++i) answers[i] = items[i];
      },
      512, 512};
  race(8, [&](int caller) {
    for (int i = 0; i < 50; ++i) {
      const int item = caller * 50 + i;
      try {
        EXPECT_EQ(commit.submit(item, 1), item);
        EXPECT_NE(item % 7, 0);
      } catch (const DatabaseError&) {
        EXPECT_EQ(item % 7, 0);
        ++failed;
      }
    }
  });
  EXPECT_EQ(failed, (8 * 50 + 6) / 7);
}

[[noreturn]] void meet_a_lock() {
  throw DatabaseError(DatabaseError::Kind::contention, "locked", "55P03");
}

TEST_F(GroupCommitTest, contention_of_one_item_fails_its_caller_and_no_other) {
  submit_all([](std::span<const int> items, Answers answers) {
    if (std::find(items.begin(), items.end(), 7) != items.end()) meet_a_lock();
    answer(items, answers);
  });
  EXPECT_EQ(answered_, callers - 1);
  EXPECT_EQ(failed_, 1);
}

TEST_F(GroupCommitTest, contention_of_everything_is_not_waited_for_once_per_caller) {
  submit_all([](std::span<const int>, Answers) { meet_a_lock(); });
  EXPECT_EQ(failed_, callers);
  EXPECT_LT(writes_, callers);
}

/// The write of item 0 hangs until it is let go.
class GroupCommitThatHangs : public ::testing::Test {
 protected:
  ~GroupCommitThatHangs() override { let_go(); }

  void hang() {
    leader_ = std::jthread{[this] { EXPECT_EQ(commit_.submit(0, 1), 0); }};
    hangs_.wait();
  }
  void let_go() {
    if (!std::exchange(ended_, true)) end_.count_down();
    if (leader_.joinable()) leader_.join();
  }
  bool is_refused(int item) {
    try {
      commit_.submit(item, 1);
      return false;
    } catch (const DatabaseError& error) {
      EXPECT_EQ(error.kind(), DatabaseError::Kind::connection_lost);
      return true;
    }
  }

  std::mutex mutex_;
  std::vector<int> written_;
  GroupCommit<int, int> commit_{[this](std::span<const int> items, Answers answers) {
                                  if (items.front() == 0) {
                                    hangs_.count_down();
                                    end_.wait();
                                  }
                                  const std::scoped_lock lock{mutex_};
                                  for (std::size_t i = 0; i < items.size(); ++i) {
                                    written_.push_back(items[i]);
                                    answers[i] = items[i];
                                  }
                                },
                                3, 512, std::chrono::milliseconds{1}};

 private:
  std::latch hangs_{1};
  std::latch end_{1};
  bool ended_ = false;
  std::jthread leader_;
};

TEST_F(GroupCommitThatHangs, fails_who_waits_behind_it_and_writes_nothing_of_theirs) {
  hang();
  EXPECT_TRUE(is_refused(1));
  EXPECT_TRUE(is_refused(2)) << "each time anew";
  race(16, [&](int caller) { EXPECT_TRUE(is_refused(3 + caller)) << "several batches of them"; });
  let_go();
  EXPECT_EQ(written_, std::vector<int>{0});
}

TEST_F(GroupCommitThatHangs, serves_the_next_callers_once_it_has_ended) {
  hang();
  EXPECT_TRUE(is_refused(1));
  let_go();
  EXPECT_EQ(commit_.submit(2, 1), 2);
  EXPECT_EQ(commit_.submit(3, 1), 3);
  EXPECT_EQ(written_, (std::vector<int>{0, 2, 3}));
}

TEST(GroupCommitRounds, answers_or_refuses_each_caller_when_the_limit_meets_the_turn) {
  Ledger ledger;
  GroupCommit<int, int> commit{ledger.write(), 3, 512, std::chrono::milliseconds{1}};
  std::atomic<std::ptrdiff_t> answered = 0;
  race(16, [&](int caller) {
    for (int i = 0; i < 100; ++i) {
      const int item = caller * 100 + i;
      try {
        EXPECT_EQ(commit.submit(item, 1), item + 1);
        ++answered;
      } catch (const DatabaseError& error) {
        EXPECT_EQ(error.kind(), DatabaseError::Kind::connection_lost);
      }
    }
  });
  EXPECT_EQ(std::count(ledger.times_.begin(), ledger.times_.end(), 1), answered)
      << "what was refused was not written";
  EXPECT_EQ(*std::max_element(ledger.times_.begin(), ledger.times_.end()), 1);
}

TEST_F(GroupCommitTest, a_pool_without_a_free_connection_is_asked_once_per_batch) {
  submit_all([](std::span<const int>, Answers) { throw PoolExhausted("no free connection"); });
  EXPECT_EQ(failed_, callers);
  EXPECT_LT(writes_, callers);
}

}  // namespace
}  // namespace twinbox::test
