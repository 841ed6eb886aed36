#include "daemon/http/request_batcher.hpp"

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>

#include <gtest/gtest.h>

namespace twinbox::app {
namespace {

using Added = RequestBatcher::Added;

HttpResponse explained(const std::exception_ptr&) { return {.status = 503}; }

/// Answers with the body of the request, and remembers how many came at once.
struct Echo {
  std::vector<HttpResponse> operator()(std::span<const HttpRequest> requests) const {
    sizes.push_back(requests.size());
    std::vector<HttpResponse> answers;
    for (const HttpRequest& request : requests) answers.push_back({.body = request.body});
    return answers;
  }
  std::vector<std::size_t>& sizes;
};

TEST(RequestBatcher, all_that_wait_are_answered_together_each_with_its_own_answer) {
  std::vector<std::size_t> sizes;
  RequestBatcher calls{Echo{sizes}};
  std::vector<std::string> answers(3);
  for (std::size_t i = 0; i < 3; ++i) {
    const Added added = calls.add(
        {.body = std::to_string(i)},
        [&, i](const HttpResponse& answer) { answers[i] = answer.body; }, 10);
    EXPECT_EQ(added, i == 0 ? Added::needs_worker : Added::waits);
  }
  calls.work(explained);
  EXPECT_EQ(sizes, std::vector<std::size_t>{3});
  EXPECT_EQ(answers, (std::vector<std::string>{"0", "1", "2"}));
}

TEST(RequestBatcher, a_request_that_comes_while_others_are_answered_is_answered_next) {
  std::vector<std::size_t> sizes;
  RequestBatcher calls{Echo{sizes}};
  Added second = Added::full;
  int answered = 0;
  const auto first = [&](const HttpResponse&) {
    ++answered;
    second = calls.add(
        {}, [&](const HttpResponse&) { ++answered; }, 10);
  };
  calls.add({}, first, 10);
  calls.work(explained);
  EXPECT_EQ(second, Added::waits);
  EXPECT_EQ(answered, 2);
  EXPECT_EQ(calls.add(
                {}, [](const HttpResponse&) {}, 10),
            Added::needs_worker);
}

TEST(RequestBatcher, no_more_wait_than_the_limit) {
  std::vector<std::size_t> sizes;
  RequestBatcher calls{Echo{sizes}};
  const auto ignore = [](const HttpResponse&) {};
  EXPECT_EQ(calls.add({}, ignore, 2), Added::needs_worker);
  EXPECT_EQ(calls.add({}, ignore, 2), Added::waits);
  EXPECT_EQ(calls.add({}, ignore, 2), Added::full);
  calls.work(explained);
  EXPECT_EQ(sizes, std::vector<std::size_t>{2});
}

TEST(RequestBatcher, a_call_that_throws_is_explained_to_everybody) {
  RequestBatcher calls{[](std::span<const HttpRequest>) -> std::vector<HttpResponse> {
    throw std::runtime_error("the store is away");
  }};
  std::vector<int> statuses;
  const auto remember = [&](const HttpResponse& answer) { statuses.push_back(answer.status); };
  calls.add({}, remember, 10);
  calls.add({}, remember, 10);
  calls.work(explained);
  EXPECT_EQ(statuses, (std::vector{503, 503}));
}

TEST(RequestBatcher, threads_that_add_and_work_lose_no_request) {
  std::vector<std::size_t> sizes;
  RequestBatcher calls{Echo{sizes}};
  constexpr int each = 2000;
  std::atomic<int> answered = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int j = 0; j < each; ++j) {
          const auto count = [&](const HttpResponse&) { ++answered; };
          if (calls.add({}, count, SIZE_MAX) == Added::needs_worker) calls.work(explained);
        }
      });
    }
  }
  EXPECT_EQ(answered, 4 * each);
}

}  // namespace
}  // namespace twinbox::app
