#include "transport/publish_queue.hpp"

#include <gtest/gtest.h>

#include "support/claimed_message.hpp"

namespace twinbox::test {
namespace {

using namespace std::chrono_literals;
using Queue = PublishQueue<std::string>;

class PublishQueueTest : public ::testing::Test {
 protected:
  std::shared_ptr<Queue::Batch> put(const std::vector<std::string>& ids) {
    messages.clear();
    for (const std::string& id : ids) {
      messages.push_back(claimed_message("order"));
      messages.back().payload = id;
    }
    return queue.enqueue(messages, [](const Message& message) {
      if (message.payload == "bad") throw std::invalid_argument("no message");
      return message.payload;
    });
  }
  /// The text of the next one; `-`: none may be sent now.
  std::string next(std::size_t in_flight) {
    last = queue.next(in_flight);
    return last ? last->message() : "-";
  }
  std::vector<Outcome> outcomes(Queue::Batch& batch) {
    queue.wait(batch, 0s, {});
    return queue.outcomes(batch, "too late");
  }

  Queue queue;
  std::vector<Message> messages;
  std::optional<Queue::Item> last;
};

TEST_F(PublishQueueTest, hands_out_in_order_and_answers_for_each) {
  const auto batch = put({"a", "bad", "b"});
  EXPECT_EQ(next(0), "a");
  queue.settle(*last, Outcome::done());
  EXPECT_EQ(next(1), "b");
  queue.settle(*last, Outcome::retry("full"));
  queue.settle(*last, Outcome::done());  // what was said first counts
  EXPECT_EQ(next(0), "-");
  EXPECT_TRUE(queue.empty());
  const auto answers = outcomes(*batch);
  EXPECT_EQ(answers.at(0).kind(), Outcome::Kind::done);
  EXPECT_EQ(answers.at(1).kind(), Outcome::Kind::dead);
  EXPECT_EQ(answers.at(2).reason(), "full");
}

TEST_F(PublishQueueTest, sends_nothing_beside_one_that_goes_alone) {
  put({"a", "b", "c"});
  EXPECT_EQ(next(0), "a");
  const Queue::Item first = *last;
  EXPECT_EQ(next(1), "b");
  queue.retry_isolated(first);
  queue.retry_isolated(*last);
  EXPECT_EQ(next(2), "-") << "others are on their way";
  EXPECT_EQ(next(0), "a");
  EXPECT_TRUE(last->isolated);
  EXPECT_EQ(next(1), "-");
  EXPECT_EQ(next(0), "b");
  EXPECT_EQ(next(1), "-") << "the last of them is as lonely as the others";
  queue.push_front(*last);
  EXPECT_EQ(next(0), "b");
  EXPECT_EQ(next(0), "c");
  EXPECT_FALSE(last->isolated);
}

TEST_F(PublishQueueTest, takes_back_what_nobody_waits_for_any_more) {
  const auto batch = put({"a", "b", "c"});
  EXPECT_EQ(next(0), "a");
  queue.retry_isolated(*last);
  EXPECT_EQ(next(0), "a");
  EXPECT_EQ(next(0), "b");
  queue.retry_isolated(*last);
  for (const Outcome& answer : outcomes(*batch)) EXPECT_EQ(answer.reason(), "too late");
  EXPECT_TRUE(queue.empty()) << "neither what waits nor what goes alone";
  queue.retry_isolated(*last);
  EXPECT_TRUE(queue.empty());
  queue.settle(*last, Outcome::done());  // too late as well
}

TEST_F(PublishQueueTest, postpones_what_nobody_can_take_without_counting_an_attempt) {
  const auto batch = put({"a", "b"});
  EXPECT_EQ(next(0), "a");
  queue.retry_isolated(*last);
  queue.postpone_all_until(std::chrono::steady_clock::now(), {});
  EXPECT_TRUE(queue.empty());
  for (const Outcome& answer : outcomes(*batch)) {
    EXPECT_EQ(answer.kind(), Outcome::Kind::postpone);
  }
}

TEST_F(PublishQueueTest, a_stop_request_ends_the_wait_of_its_thread) {
  std::stop_source stop;
  put({"a"});
  EXPECT_TRUE(queue.wait(stop.get_token()));
  stop.request_stop();
  EXPECT_FALSE(queue.wait(stop.get_token()));
}

}  // namespace
}  // namespace twinbox::test
