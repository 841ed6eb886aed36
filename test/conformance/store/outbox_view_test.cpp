// The view `outbox`: one row per message, with the columns of the outbox document.
#include "support/outbox_test.hpp"
#include <twinbox/operations.hpp>

namespace twinbox::test {
namespace {

class OutboxView : public OutboxTest {
 protected:
  /// Status, IsProcessed and RetryCount.
  std::string state(const MessageId& id) {
    const std::string processed = on_sqlserver() ? "IsProcessed = 1" : "IsProcessed";
    return shown("Status", id.str()) + " " +
           shown("case when " + processed + " then 'processed' else 'open' end", id.str()) + " " +
           shown("RetryCount", id.str());
  }
};

TEST_P(OutboxView, has_every_column_of_the_document) {
  NewMessage message = a_message("order.placed");
  message.extras.correlation_id = CorrelationId{"basket-4"};
  message.extras.due_at = clock().now() + 10s;
  const MessageId id = outbox().enqueue(message).id;
  EXPECT_GT(count("select Id from {schema}outbox"), 0);
  EXPECT_EQ(shown("MessageId"), id.str());
  EXPECT_EQ(shown("Topic"), "order.placed");
  EXPECT_EQ(shown("CorrelationId"), "basket-4");
  EXPECT_EQ(shown_time("CreatedAt"), clock().now());
  EXPECT_EQ(shown_time("DueTimeUtc"), clock().now() + 10s);
  EXPECT_EQ(shown_time("NextAttemptAt"), clock().now() + 10s);
  for (const char* empty : {"LockedUntil", "OwnerToken", "ProcessedAt", "ProcessedBy", "LastError"})
    EXPECT_EQ(shown(empty), "null") << empty;
  EXPECT_EQ(count("select " + std::string{on_sqlserver() ? "datalength" : "length"} +
                  "(Payload) from {schema}outbox"),
            static_cast<std::int64_t>(message.payload.size()));
}

TEST_P(OutboxView, shows_the_state_of_each_message) {
  REQUIREMENT("OBX-030, OBX-038, OBX-044");
  const MessageId ready = outbox().enqueue(a_message()).id;
  EXPECT_EQ(state(ready), "0 open 0");
  const auto claimed = outbox().claim(worker_a, 30s, 1);
  EXPECT_EQ(state(ready), "1 open 0");
  ASSERT_EQ(outbox().abandon(worker_a, claimed, "error"), 1u);
  EXPECT_EQ(state(ready), "0 open 1");
  clock().advance(2s);
  ASSERT_EQ(outbox().ack(worker_a, outbox().claim(worker_a, 30s, 1)), 1u);
  EXPECT_EQ(state(ready), "2 processed 1");

  const Message dead = enqueue_and_claim(worker_a);
  ASSERT_EQ(outbox().fail(worker_a, dead, "error"), 1u);
  EXPECT_EQ(state(dead.id), "3 open 1");
  EXPECT_EQ(shown("ProcessedBy", dead.id.str()), "null");

  Admin admin(outbox());
  ASSERT_EQ(admin.requeue(Filter{.state = StateFilter::dead}), 1u);
  EXPECT_EQ(state(dead.id), "0 open 0");
  EXPECT_EQ(shown("LastError", dead.id.str()), "null");
  ASSERT_EQ(admin.discard(Filter{.state = StateFilter::open, .id = dead.id}, {.reason = "test"}),
            1u);
  EXPECT_EQ(state(dead.id), "2 processed 0");
}

TEST_P(OutboxView, the_work_id_stays_with_a_message_that_is_finished) {
  const Message message = enqueue_and_claim(worker_a);
  const std::string id = std::to_string(message.delivery_id.number());
  EXPECT_EQ(shown("Id"), id);
  ASSERT_EQ(outbox().ack(worker_a, message), 1u);
  EXPECT_EQ(shown("Id"), id);
}

TEST_P(OutboxView, has_one_row_per_message) {
  outbox().enqueue(std::vector<NewMessage>(3, a_message()));
  EXPECT_EQ(count("select count(*) from {schema}outbox"), 3);
  ASSERT_EQ(outbox().ack(worker_a, outbox().claim(worker_a, 30s, 10)), 3u);
  EXPECT_EQ(count("select count(*) from {schema}outbox"), 3);
}

TWINBOX_ON_EVERY_BACKEND(OutboxView);

}  // namespace
}  // namespace twinbox::test
