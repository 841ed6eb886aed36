// Expiry: a message that is past its time is not handed out, and ends as a dead letter.
#include "support/outbox_test.hpp"

namespace twinbox::test {
namespace {

class Expiry : public OutboxTest {
 protected:
  MessageId enqueue_for(Duration life, std::string id = "x") {
    NewMessage message = a_message();
    message.id = MessageId{std::move(id)};
    message.extras.expires_at = clock().now() + life;
    return outbox().enqueue(message).id;
  }
};

TEST_P(Expiry, a_message_past_its_expiry_is_not_handed_out) {
  enqueue_for(1min);
  clock().advance(1min);
  EXPECT_TRUE(outbox().claim(worker_a, 30s, 10).empty());
}

TEST_P(Expiry, a_message_is_handed_out_until_the_instant_of_its_expiry) {
  enqueue_for(1min);
  clock().advance(1min - 1us);
  EXPECT_EQ(outbox().claim(worker_a, 30s, 10).size(), 1u);
}

TEST_P(Expiry, expire_makes_open_work_dead_and_says_why) {
  enqueue_for(1min);
  outbox().enqueue(a_message());
  EXPECT_EQ(outbox().expire(), 0u);
  clock().advance(1min);
  EXPECT_EQ(outbox().expire(), 1u);
  EXPECT_EQ(outbox().expire(), 0u);
  EXPECT_EQ(shown("Status", "x"), "3");
  EXPECT_EQ(read("select reason from {schema}outbox_outcome"), "expired");
  EXPECT_EQ(outbox().claim(worker_a, 30s, 10).size(), 1u);
}

TEST_P(Expiry, expire_passes_over_what_somebody_holds) {
  enqueue_for(1min);
  const auto held = outbox().claim(worker_a, 2min, 10);
  ASSERT_EQ(held.size(), 1u);
  clock().advance(90s);
  EXPECT_EQ(outbox().expire(), 0u);
  EXPECT_EQ(outbox().ack(worker_a, held), 1u);
}

TEST_P(Expiry, expire_takes_a_lease_that_ran_out) {
  enqueue_for(1min);
  const auto lost = outbox().claim(worker_a, 30s, 10);
  clock().advance(1min);
  EXPECT_EQ(outbox().expire(), 1u);
  EXPECT_EQ(outbox().ack(worker_a, lost), 0u);
  EXPECT_EQ(shown("Status", "x"), "3");
}

TEST_P(Expiry, expire_keeps_the_last_error_and_the_attempts) {
  enqueue_for(1min);
  ASSERT_EQ(outbox().abandon(worker_a, outbox().claim(worker_a, 30s, 1), "timeout"), 1u);
  clock().advance(1h);
  ASSERT_EQ(outbox().expire(), 1u);
  EXPECT_EQ(shown("LastError"), "timeout");
  EXPECT_EQ(shown("RetryCount"), "1");
}

TEST_P(Expiry, expire_takes_no_more_than_its_limit_and_the_oldest_first) {
  enqueue_for(3min, "c");
  enqueue_for(1min, "a");
  enqueue_for(2min, "b");
  clock().advance(1h);
  EXPECT_EQ(outbox().expire(2), 2u);
  EXPECT_EQ(shown("Status", "a"), "3");
  EXPECT_EQ(shown("Status", "b"), "3");
  EXPECT_EQ(shown("Status", "c"), "0");
}

TEST_P(Expiry, a_repeated_enqueue_leaves_an_open_message_its_expiry) {
  enqueue_for(1min);
  clock().advance(30s);
  enqueue_for(1min);
  EXPECT_EQ(outbox().expire(), 0u);
  clock().advance(45s);
  EXPECT_EQ(outbox().expire(), 1u);
}

TEST_P(Expiry, a_head_that_expires_lets_its_partition_key_go_on) {
  NewMessage message = a_message("head");
  message.extras.partition_key = PartitionKey{"k"};
  message.extras.expires_at = clock().now() + 1min;
  outbox().enqueue(message);
  message.topic = Topic{"next"};
  message.extras.expires_at = {};
  outbox().enqueue(message);
  clock().advance(1min);
  EXPECT_TRUE(outbox().claim(worker_a, 30s, 10).empty());
  ASSERT_EQ(outbox().expire(), 1u);
  EXPECT_EQ(topics_of(outbox().claim(worker_a, 30s, 10)), (std::vector<std::string>{"next"}));
}

TWINBOX_ON_EVERY_BACKEND(Expiry);

}  // namespace
}  // namespace twinbox::test
