// What callers that share a commit are answered when the writing of it fails.
#include "queue/group_commit.hpp"

#include <algorithm>
#include <atomic>
#include <thread>

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

TEST_F(GroupCommitTest, a_pool_without_a_free_connection_is_asked_once_per_batch) {
  submit_all([](std::span<const int>, Answers) { throw PoolExhausted("no free connection"); });
  EXPECT_EQ(failed_, callers);
  EXPECT_LT(writes_, callers);
}

}  // namespace
}  // namespace twinbox::test
