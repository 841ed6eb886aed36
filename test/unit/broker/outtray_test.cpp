#include "transport/outtray.hpp"

#include <gtest/gtest.h>

#include "support/claimed_message.hpp"

namespace twinbox::test {
namespace {

using namespace std::chrono_literals;
using Tray = Outtray<std::string>;

class OuttrayTest : public ::testing::Test {
 protected:
  std::shared_ptr<Tray::Job> put(const std::vector<std::string>& ids) {
    messages.clear();
    for (const std::string& id : ids) {
      messages.push_back(claimed_message("order"));
      messages.back().payload = id;
    }
    return tray.put(messages, [](const Message& message) {
      if (message.payload == "bad") throw std::invalid_argument("no message");
      return message.payload;
    });
  }
  /// The text of the next one; `-`: none may be sent now.
  std::string next(std::size_t on_way) {
    last = tray.next(on_way);
    return last ? last->message() : "-";
  }
  std::vector<Outcome> outcomes(Tray::Job& job) {
    tray.wait(job, 0s, {});
    return tray.outcomes(job, "too late");
  }

  Tray tray;
  std::vector<Message> messages;
  std::optional<Tray::Item> last;
};

TEST_F(OuttrayTest, hands_out_in_order_and_answers_for_each) {
  const auto job = put({"a", "bad", "b"});
  EXPECT_EQ(next(0), "a");
  tray.settle(*last, Outcome::done());
  EXPECT_EQ(next(1), "b");
  tray.settle(*last, Outcome::retry("full"));
  tray.settle(*last, Outcome::done());  // what was said first counts
  EXPECT_EQ(next(0), "-");
  EXPECT_TRUE(tray.empty());
  const auto answers = outcomes(*job);
  EXPECT_EQ(answers.at(0).kind(), Outcome::Kind::done);
  EXPECT_EQ(answers.at(1).kind(), Outcome::Kind::dead);
  EXPECT_EQ(answers.at(2).reason(), "full");
}

TEST_F(OuttrayTest, sends_nothing_beside_one_that_goes_alone) {
  put({"a", "b", "c"});
  EXPECT_EQ(next(0), "a");
  const Tray::Item first = *last;
  EXPECT_EQ(next(1), "b");
  tray.put_alone(first);
  tray.put_alone(*last);
  EXPECT_EQ(next(2), "-") << "others are on their way";
  EXPECT_EQ(next(0), "a");
  EXPECT_TRUE(last->alone);
  EXPECT_EQ(next(1), "-");
  EXPECT_EQ(next(0), "b");
  EXPECT_EQ(next(1), "-") << "the last of them is as lonely as the others";
  tray.put_back(*last);
  EXPECT_EQ(next(0), "b");
  EXPECT_EQ(next(0), "c");
  EXPECT_FALSE(last->alone);
}

TEST_F(OuttrayTest, takes_back_what_nobody_waits_for_any_more) {
  const auto job = put({"a", "b", "c"});
  EXPECT_EQ(next(0), "a");
  tray.put_alone(*last);
  EXPECT_EQ(next(0), "a");
  EXPECT_EQ(next(0), "b");
  tray.put_alone(*last);
  for (const Outcome& answer : outcomes(*job)) EXPECT_EQ(answer.reason(), "too late");
  EXPECT_TRUE(tray.empty()) << "neither what waits nor what goes alone";
  tray.put_alone(*last);
  EXPECT_TRUE(tray.empty());
  tray.settle(*last, Outcome::done());  // too late as well
}

TEST_F(OuttrayTest, puts_off_what_nobody_can_take_without_counting_an_attempt) {
  const auto job = put({"a", "b"});
  EXPECT_EQ(next(0), "a");
  tray.put_alone(*last);
  tray.put_off_until(std::chrono::steady_clock::now(), {});
  EXPECT_TRUE(tray.empty());
  for (const Outcome& answer : outcomes(*job)) {
    EXPECT_EQ(answer.kind(), Outcome::Kind::postpone);
  }
}

TEST_F(OuttrayTest, a_stop_request_ends_the_wait_of_its_thread) {
  std::stop_source stop;
  put({"a"});
  EXPECT_TRUE(tray.wait(stop.get_token()));
  stop.request_stop();
  EXPECT_FALSE(tray.wait(stop.get_token()));
}

}  // namespace
}  // namespace twinbox::test
