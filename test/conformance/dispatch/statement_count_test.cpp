// How many statements a long backlog takes. They are what makes thousands of messages a second
// possible; the rate itself is measured by ./dev bench.
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "support/backend.hpp"
#include <twinbox/operations.hpp>

namespace twinbox::test {
namespace {

class StatementCount : public BoxTest {
 protected:
  using Statements = std::map<std::string, std::size_t>;

  static constexpr std::size_t messages = 10'000;
  static constexpr std::int64_t batch = 100;

  StatementCount() : database_(test_store().address(), {}, counting()) {}

  void expect_two_for_each_batch(WorkQueue& queue) {
    statements_.clear();
    std::set<std::string> handled;
    while (true) {
      const std::vector<Message> claimed = queue.claim(worker_a, 30s, batch);
      if (claimed.empty()) break;
      EXPECT_EQ(claimed.size(), static_cast<std::size_t>(batch));
      for (const Message& message : claimed) handled.insert(message.id.str());
      EXPECT_EQ(queue.ack(worker_a, claimed), claimed.size());
    }
    EXPECT_EQ(handled.size(), messages);
    EXPECT_EQ(statements_,
              (Statements{{"ack", messages / batch}, {"claim", messages / batch + 1}}));
    EXPECT_EQ(Admin{queue}.counts(true).all.done, static_cast<std::int64_t>(messages));
  }

  Database database_;

 private:
  Environment counting() {
    Environment counted = environment();
    counted.log_level = LogLevel::warning;
    counted.timing = [this](std::string_view name, auto, std::size_t) {
      ++statements_[std::string{name}];
    };
    return counted;
  }

  Statements statements_;
};

TEST_P(StatementCount, OBX_099_an_outbox_needs_two_for_each_batch_and_none_for_each_message) {
  Outbox box{database_, options()};
  const std::vector<NewMessage> some(1000, a_message());
  for (std::size_t i = 0; i < messages; i += some.size()) box.enqueue(some);
  expect_two_for_each_batch(box);
}

TEST_P(StatementCount, IBX_121_an_inbox_needs_two_for_each_batch_and_none_for_each_message) {
  Inbox box{database_, options()};
  std::vector<Arrival> some;
  for (std::size_t i = 0; i < messages; ++i) {
    some.push_back(an_arrival("evt_" + std::to_string(i)));
    if (some.size() < 1000) continue;
    box.accept(some);
    some.clear();
  }
  expect_two_for_each_batch(box);
}

TWINBOX_ON_EVERY_BACKEND(StatementCount);

}  // namespace
}  // namespace twinbox::test
