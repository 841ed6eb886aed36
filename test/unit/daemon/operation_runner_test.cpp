#include "daemon/operation/operation_runner.hpp"

#include <future>
#include <latch>

#include <gtest/gtest.h>

#include "daemon/http/http_router.hpp"

namespace twinbox::app {
namespace {

using namespace std::chrono_literals;

class OperationRunnerTest : public ::testing::Test {
 protected:
  OperationRunner::Key key(std::string id) { return {&store_, BoxKind::outbox, std::move(id)}; }

  Store store_{StoreDefinition{.name = "main", .address = "sqlite::memory:"}};
  std::promise<void> gate_;
  std::shared_future<void> open_ = gate_.get_future().share();
};

int refusal(const std::function<void()>& call) {
  try {
    call();
    return 0;
  } catch (const HttpProblem& refused) {
    return refused.status();
  }
}

TEST_F(OperationRunnerTest, what_is_quick_is_answered_whole) {
  int acted = 0;
  OperationRunner runner{{}, [&](const Store&, BoxKind) { ++acted; }, 60s};
  const auto result = runner.run(key("a"), "x", [](const auto&) { return 7u; });
  EXPECT_EQ(result.changed, 7u);
  EXPECT_TRUE(result.finished);
  EXPECT_EQ(acted, 1);
}

TEST_F(OperationRunnerTest, what_takes_longer_goes_on_and_can_be_waited_for_by_its_id) {
  OperationRunner runner{{}, {}, 0ms};
  std::promise<void> begun;
  const auto work = [&](const OperationRunner::OnProgress& on_progress) {
    EXPECT_TRUE(on_progress(3));
    begun.set_value();
    open_.wait();
    return std::size_t{5};
  };
  EXPECT_FALSE(runner.run(key("a"), "x", work).finished);
  begun.get_future().wait();
  const auto meanwhile = runner.run(key("a"), "x", work);
  EXPECT_EQ(meanwhile.changed, 3u);
  EXPECT_FALSE(meanwhile.finished);
  EXPECT_EQ(refusal([&] { runner.run(key("a"), "y", work); }), 422);
  gate_.set_value();
}

TEST_F(OperationRunnerTest, two_requests_under_one_id_are_one_operation) {
  OperationRunner runner{{}, {}, 60s};
  std::atomic<int> calls = 0;
  std::latch both{2};
  const auto ask = [&] {
    return std::async(std::launch::async, [&] {
      both.arrive_and_wait();
      return runner.run(key("a"), "x", [&](const auto&) {
        ++calls;
        open_.wait();
        return std::size_t{5};
      });
    });
  };
  auto first = ask();
  auto second = ask();
  while (calls == 0) std::this_thread::yield();
  gate_.set_value();
  EXPECT_EQ(first.get().changed, 5u);
  EXPECT_EQ(second.get().changed, 5u);
  EXPECT_LE(calls, 2);  // the second may have come when the first had ended
}

TEST_F(OperationRunnerTest, what_fails_is_told) {
  OperationRunner runner{{}, {}, 60s};
  EXPECT_THROW(
      runner.run(key("a"), "x", [](const auto&) -> std::size_t { throw std::runtime_error("no"); }),
      std::runtime_error);
  EXPECT_TRUE(runner.run(key("a"), "y", [](const auto&) { return 0u; }).finished);
}

TEST_F(OperationRunnerTest, their_number_is_bounded) {
  OperationRunner runner{{}, {}, 0ms};
  const auto work = [&](const auto&) {
    open_.wait();
    return std::size_t{1};
  };
  for (std::size_t i = 0; i < OperationRunner::max_running; ++i) {
    runner.run(key(std::to_string(i)), "x", work);
  }
  EXPECT_EQ(refusal([&] { runner.run(key("more"), "x", work); }), 503);
  gate_.set_value();
}

TEST_F(OperationRunnerTest, the_end_comes_between_two_batches) {
  std::promise<void> begun;
  std::size_t batches = 0;
  {
    OperationRunner runner{{}, {}, 0ms};
    runner.run(key("a"), "x", [&](const OperationRunner::OnProgress& on_progress) {
      begun.set_value();
      while (on_progress(++batches)) std::this_thread::yield();
      return batches;
    });
    begun.get_future().wait();
  }
  EXPECT_GE(batches, 1u);
}

}  // namespace
}  // namespace twinbox::app
