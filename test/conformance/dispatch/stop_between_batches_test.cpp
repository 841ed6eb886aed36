// What works through a box batch by batch ends between two of them when it is told to stop.
#include "support/outbox_test.hpp"
#include <twinbox/dispatcher.hpp>

namespace twinbox::test {
namespace {

class StopBetweenBatches : public OutboxTest {
 protected:
  static constexpr std::size_t batch = 1000;

  /// Requests the stop in the first batch: with the first statement whose name begins so.
  Environment stopping_in(std::string statement) {
    Environment environment = this->environment();
    environment.timing = [this, statement = std::move(statement)](std::string_view name, auto,
                                                                  auto) {
      if (name.starts_with(statement)) stop_.request_stop();
    };
    return environment;
  }
  Outbox& box(const std::string& statement, BoxOptions chosen) {
    database_.emplace(test_store().address(), DatabaseOptions{}, stopping_in(statement));
    return box_.emplace(*database_, chosen);
  }
  Outbox& box(const std::string& statement) { return box(statement, options()); }
  static std::vector<NewMessage> messages(std::size_t count) {
    return std::vector<NewMessage>(count, a_message());
  }

  std::stop_source stop_;

 private:
  std::optional<Database> database_;
  std::optional<Outbox> box_;
};

TEST_P(StopBetweenBatches, reap) {
  Outbox& box = this->box("reap");
  box.enqueue(messages(batch + 1));
  ASSERT_EQ(box.claim(worker_a, 30s, batch + 1).size(), batch + 1);
  clock().advance(31s);
  EXPECT_EQ(box.reap(stop_.get_token()), batch);
  EXPECT_EQ(box.reap(stop_.get_token()), 0u) << "nothing begins any more";
  EXPECT_EQ(box.reap(), 1u) << "the second batch was left";
}

TEST_P(StopBetweenBatches, expire) {
  Outbox& box = this->box("expire");
  std::vector<NewMessage> mortal = messages(batch + 1);
  for (NewMessage& message : mortal) message.extras.expires_at = clock().now() + 1s;
  box.enqueue(mortal);
  clock().advance(2s);
  EXPECT_EQ(box.expire(stop_.get_token()), batch);
  EXPECT_EQ(box.expire(stop_.get_token()), 0u) << "nothing begins any more";
  EXPECT_EQ(box.expire(std::stop_token{}), 1u) << "the second batch was left";
}

TEST_P(StopBetweenBatches, prune) {
  Outbox& box = this->box("prune_pick");
  box.enqueue(messages(5));
  ASSERT_EQ(box.ack(worker_a, box.claim(worker_a, 30s, 5)), 5u);
  clock().advance(1h);
  const PruneOptions by_two{.older_than = 1h, .batch = 2};
  EXPECT_EQ(box.prune(by_two, stop_.get_token()), 2u);
  EXPECT_EQ(box.prune(by_two, stop_.get_token()), 0u) << "nothing begins any more";
  EXPECT_EQ(box.prune(by_two), 3u) << "the other batches were left";
}

TEST_P(StopBetweenBatches, drain) {
  Outbox& box = this->box("claim");
  box.enqueue(messages(5));
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [](const Message&) {});
  Dispatcher dispatcher{box, std::move(handlers), {.batch = 2}};
  EXPECT_EQ(dispatcher.drain(stop_.get_token()), 2u);
  EXPECT_EQ(dispatcher.drain(stop_.get_token()), 0u) << "nothing is claimed any more";
  EXPECT_EQ(dispatcher.drain(), 3u) << "the other batches were left";
}

TWINBOX_ON_EVERY_BACKEND(StopBetweenBatches);

}  // namespace
}  // namespace twinbox::test
