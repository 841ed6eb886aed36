// Settling: who may end a lease, and what becomes of the message.
#include "support/outbox_test.hpp"

namespace twinbox::test {
namespace {

class Settle : public OutboxTest {
 protected:
  const DeliveryId unknown{987654321};
};

TEST_P(Settle, OBX_030_ack_makes_a_message_done) {
  const Message message = enqueue_and_claim(worker_a);
  EXPECT_EQ(outbox().ack(worker_a, message), 1u);
  EXPECT_EQ(
      count(
          "select count(*) from {schema}outbox where cast(IsProcessed as int) = 1 and Status = 2"),
      1);
  EXPECT_EQ(shown("LockedUntil"), "null");
  EXPECT_EQ(shown("OwnerToken"), "null");
  EXPECT_EQ(shown("Id"), std::to_string(message.delivery_id.number()));
}

TEST_P(Settle, OBX_031_ack_notes_the_time) {
  const Message message = enqueue_and_claim(worker_a);
  EXPECT_EQ(shown_time("ProcessedAt"), std::nullopt);
  clock().advance(7s);
  ASSERT_EQ(outbox().ack(worker_a, message), 1u);
  EXPECT_EQ(shown_time("ProcessedAt"), clock().now());
}

TEST_P(Settle, OBX_032_ack_notes_the_worker) {
  ASSERT_EQ(outbox().ack(worker_a, enqueue_and_claim(worker_a)), 1u);
  EXPECT_EQ(shown_owner("ProcessedBy"), worker_a);
}

TEST_P(Settle, OBX_033_ack_is_for_the_owner_only) {
  const Message message = enqueue_and_claim(worker_a);
  EXPECT_EQ(outbox().ack(worker_b, message), 0u);
  EXPECT_EQ(outbox().ack(worker_b, message.delivery_id), 0u);
  EXPECT_EQ(shown("Status"), "1");
  EXPECT_EQ(outbox().ack(worker_a, message), 1u);
}

TEST_P(Settle, OBX_034_ack_settles_what_fits_and_ignores_the_rest) {
  const Message mine = enqueue_and_claim(worker_a);
  const Message theirs = enqueue_and_claim(worker_b);
  EXPECT_EQ(outbox().ack(worker_a, std::vector{unknown, theirs.delivery_id, mine.delivery_id}), 1u);
  EXPECT_EQ(shown("Status", mine.id.str()), "2");
  EXPECT_EQ(shown("Status", theirs.id.str()), "1");
}

/// Large batches go another way on SQLite.
TEST_P(Settle, OBX_033_OBX_034_ack_of_many_settles_what_fits_and_ignores_the_rest) {
  for (int i = 0; i < 40; ++i) outbox().enqueue(a_message());
  const std::vector<Message> mine = outbox().claim(worker_a, 30s, 20);
  const std::vector<Message> theirs = outbox().claim(worker_b, 30s, 20);
  ASSERT_EQ(theirs.size(), 20u);
  std::vector<Lease> leases{{unknown, 1}};
  for (const Message& message : theirs) leases.push_back(message.lease());
  for (std::size_t i = 0; i < mine.size(); ++i) {
    const Lease lease = mine[i].lease();
    leases.push_back({lease.work, lease.epoch + 1});
    if (i % 2 == 0) leases.insert(leases.end(), {lease, lease});
  }
  EXPECT_EQ(outbox().ack(worker_a, leases), 10u);
  for (std::size_t i = 0; i < mine.size(); ++i) {
    EXPECT_EQ(shown("Status", mine[i].id.str()), i % 2 == 0 ? "2" : "1");
    EXPECT_EQ(shown("Status", theirs[i].id.str()), "1");
  }
  EXPECT_EQ(outbox().ack(worker_a, ids_of(mine)), 10u);
  EXPECT_EQ(outbox().ack(worker_b, theirs), 20u);
  EXPECT_EQ(outbox().ack(worker_b, theirs), 0u);
}

TEST_P(Settle, ack_of_many_lets_the_next_of_each_key_go) {
  for (const char* body : {"first", "second"}) {
    for (char key = 'a'; key < 'm'; ++key) {
      NewMessage message = a_message();
      message.payload = body;
      message.extras.partition_key = PartitionKey{std::string{key}};
      outbox().enqueue(message);
    }
  }
  for (const char* body : {"first", "second"}) {
    const std::vector<Message> heads = outbox().claim(worker_a, 30s, 100);
    ASSERT_EQ(heads.size(), 12u);
    for (const Message& message : heads) EXPECT_EQ(message.payload, body);
    EXPECT_EQ(outbox().ack(worker_a, heads), 12u);
  }
  EXPECT_TRUE(outbox().claim(worker_a, 30s, 100).empty());
}

TEST_P(Settle, OBX_035_ack_ends_a_message_for_ever) {
  const Message message = enqueue_and_claim(worker_a);
  ASSERT_EQ(outbox().ack(worker_a, message), 1u);
  clock().advance(24h);
  EXPECT_EQ(outbox().reap(), 0u);
  EXPECT_TRUE(outbox().claim(worker_a, 30s, 10).empty());
  EXPECT_EQ(outbox().ack(worker_a, message), 0u);
  EXPECT_EQ(outbox().abandon(worker_a, message), 0u);
  EXPECT_EQ(outbox().fail(worker_a, message, "late"), 0u);
  EXPECT_EQ(shown("Status"), "2");
}

TEST_P(Settle, OBX_036_no_ids_are_no_work_and_do_not_ask_the_database) {
  outbox();
  rename_table("outbox_work", "work_elsewhere");
  const std::vector<DeliveryId> none;
  const std::vector<MessageId> no_ids;
  EXPECT_EQ(outbox().ack(worker_a, none), 0u);
  EXPECT_EQ(outbox().abandon(worker_a, none), 0u);
  EXPECT_EQ(outbox().fail(worker_a, none, "error"), 0u);
  EXPECT_EQ(outbox().release(worker_a, none), 0u);
  EXPECT_EQ(outbox().postpone(worker_a, none, clock().now()), 0u);
  EXPECT_TRUE(outbox().renew(worker_a, none, 30s).empty());
  EXPECT_EQ(outbox().ack(worker_a, no_ids).changed, 0u);
}

TEST_P(Settle, OBX_037_abandon_gives_the_lease_back) {
  ASSERT_EQ(outbox().abandon(worker_a, enqueue_and_claim(worker_a)), 1u);
  EXPECT_EQ(shown("LockedUntil"), "null");
  EXPECT_EQ(shown("OwnerToken"), "null");
  EXPECT_EQ(shown("Status"), "0");
}

TEST_P(Settle, OBX_038_abandon_counts_the_attempt) {
  outbox().enqueue(a_message());
  for (int attempt = 1; attempt <= 3; ++attempt) {
    const auto messages = outbox().claim(worker_a, 30s, 1);
    ASSERT_EQ(messages.size(), 1u);
    EXPECT_EQ(messages[0].attempts, attempt - 1);
    ASSERT_EQ(outbox().abandon(worker_a, messages, "error"), 1u);
    EXPECT_EQ(shown("RetryCount"), std::to_string(attempt));
    clock().advance(1min);
  }
}

TEST_P(Settle, OBX_039_abandon_waits_2_4_8_seconds_and_never_more_than_60) {
  outbox().enqueue(a_message());
  for (const auto expected : {2s, 4s, 8s, 16s, 32s, 60s, 60s}) {
    const auto messages = outbox().claim(worker_a, 10s, 1);
    ASSERT_EQ(messages.size(), 1u);
    ASSERT_EQ(outbox().abandon(worker_a, messages), 1u);
    EXPECT_EQ(shown_time("NextAttemptAt"), clock().now() + expected);
    clock().advance(expected);
  }
}

TEST_P(Settle, OBX_039_abandon_asks_the_retry_policy_of_the_box) {
  BoxOptions custom = options();
  custom.table = "other";
  custom.retry.custom = [](int attempts) { return attempts * 7s; };
  Outbox other(database(), custom);
  other.enqueue(a_message());
  for (int attempt = 1; attempt <= 2; ++attempt) {
    const auto messages = other.claim(worker_a, 10s, 1);
    ASSERT_EQ(messages.size(), 1u);
    ASSERT_EQ(other.abandon(worker_a, ids_of(messages)), 1u);
    clock().advance(attempt * 7s - 1us);
    ASSERT_TRUE(other.claim(worker_a, 10s, 1).empty());
    clock().advance(1us);
  }
}

TEST_P(Settle, OBX_040_abandon_is_for_the_owner_only) {
  const Message message = enqueue_and_claim(worker_a);
  EXPECT_EQ(outbox().abandon(worker_b, message, "not mine"), 0u);
  EXPECT_EQ(outbox().abandon(worker_b, message.delivery_id, "not mine"), 0u);
  EXPECT_EQ(shown("RetryCount"), "0");
  EXPECT_EQ(shown_owner("OwnerToken"), worker_a);
  EXPECT_EQ(rows("failure"), 0);
}

TEST_P(Settle, OBX_041_abandon_ignores_what_does_not_fit) {
  const Message mine = enqueue_and_claim(worker_a);
  const Message theirs = enqueue_and_claim(worker_b);
  EXPECT_EQ(
      outbox().abandon(worker_a, std::vector{unknown, theirs.delivery_id, mine.delivery_id}, "x"),
      1u);
  EXPECT_EQ(shown("RetryCount", mine.id.str()), "1");
  EXPECT_EQ(shown("RetryCount", theirs.id.str()), "0");
}

TEST_P(Settle, OBX_042_an_abandoned_message_comes_back_after_the_backoff) {
  ASSERT_EQ(outbox().abandon(worker_a, enqueue_and_claim(worker_a)), 1u);
  EXPECT_TRUE(outbox().claim(worker_b, 30s, 10).empty());
  clock().advance(2s);
  EXPECT_EQ(outbox().claim(worker_b, 30s, 10).size(), 1u);
}

TEST_P(Settle, OBX_043_abandon_records_the_error) {
  ASSERT_EQ(outbox().abandon(worker_a, enqueue_and_claim(worker_a), "connection refused"), 1u);
  EXPECT_EQ(shown("LastError"), "connection refused");
  clock().advance(1min);
  const auto messages = outbox().claim(worker_b, 30s, 10);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].last_error, "connection refused");
  ASSERT_EQ(outbox().abandon(worker_b, messages, "no route"), 1u);
  EXPECT_EQ(shown("LastError"), "no route");
  EXPECT_EQ(rows("failure"), 2);
  EXPECT_EQ(read("select error from {schema}outbox_failure where attempt = 1"),
            "connection refused");
  EXPECT_EQ(read("select error from {schema}outbox_failure where attempt = 2"), "no route");
}

TEST_P(Settle, cuts_an_endless_error_and_keeps_one_that_is_not_text) {
  ASSERT_EQ(outbox().abandon(worker_a, enqueue_and_claim(worker_a), std::string(100'000, 'e')), 1u);
  const std::string function = on_sqlserver() ? "len" : "length";
  const auto length = count("select " + function + "(LastError) from {schema}outbox");
  EXPECT_GE(length, 4'000);
  EXPECT_LE(length, 4'100);
  clock().advance(1min);
  const auto messages = outbox().claim(worker_a, 30s, 1);
  const std::string_view odd{"a\0b\xff", 4};
  ASSERT_EQ(outbox().abandon(worker_a, messages, odd), 1u);
  EXPECT_EQ(shown("LastError").substr(0, 1), "a");
}

TEST_P(Settle, OBX_044_fail_makes_a_message_dead) {
  const Message message = enqueue_and_claim(worker_a);
  ASSERT_EQ(outbox().fail(worker_a, message, "no such customer"), 1u);
  EXPECT_EQ(shown("Status"), "3");
  EXPECT_EQ(count("select count(*) from {schema}outbox where cast(IsProcessed as int) = 1"), 0);
  EXPECT_EQ(shown("ProcessedAt"), "null");
  EXPECT_EQ(shown("LockedUntil"), "null");
  EXPECT_EQ(read("select reason from {schema}outbox_outcome"), "failed");
}

TEST_P(Settle, OBX_045_fail_records_the_error_and_the_attempt) {
  ASSERT_EQ(outbox().fail(worker_a, enqueue_and_claim(worker_a), "no such customer"), 1u);
  EXPECT_EQ(shown("LastError"), "no such customer");
  EXPECT_EQ(shown("RetryCount"), "1");
  EXPECT_EQ(rows("failure"), 1);
}

TEST_P(Settle, fail_without_a_failed_handler_counts_no_attempt) {
  const Message message = enqueue_and_claim(worker_a);
  ASSERT_EQ(outbox().fail(worker_a, message, "unknown handler",
                          {.reason = "no_handler", .handler_failed = false}),
            1u);
  EXPECT_EQ(shown("RetryCount"), "0");
  EXPECT_EQ(shown("LastError"), "unknown handler");
  EXPECT_EQ(rows("failure"), 0);
  EXPECT_EQ(read("select reason from {schema}outbox_outcome"), "no_handler");
}

TEST_P(Settle, OBX_046_fail_is_for_the_owner_only) {
  const Message message = enqueue_and_claim(worker_a);
  EXPECT_EQ(outbox().fail(worker_b, message, "not mine"), 0u);
  EXPECT_EQ(outbox().fail(worker_b, message.delivery_id, "not mine"), 0u);
  EXPECT_EQ(shown("Status"), "1");
  EXPECT_EQ(outbox().fail(worker_a, message, "mine"), 1u);
}

TEST_P(Settle, OBX_047_fail_ignores_what_does_not_fit) {
  const Message mine = enqueue_and_claim(worker_a);
  const Message theirs = enqueue_and_claim(worker_b);
  EXPECT_EQ(
      outbox().fail(worker_a, std::vector{unknown, theirs.delivery_id, mine.delivery_id}, "x"), 1u);
  EXPECT_EQ(shown("Status", mine.id.str()), "3");
  EXPECT_EQ(shown("Status", theirs.id.str()), "1");
}

TEST_P(Settle, OBX_048_a_dead_message_stays_dead) {
  const Message message = enqueue_and_claim(worker_a);
  ASSERT_EQ(outbox().fail(worker_a, message, "no such customer"), 1u);
  clock().advance(24h);
  EXPECT_EQ(outbox().reap(), 0u);
  EXPECT_TRUE(outbox().claim(worker_a, 30s, 10).empty());
  EXPECT_EQ(outbox().ack(worker_a, message), 0u);
  EXPECT_EQ(outbox().release(message), 0u);
  EXPECT_EQ(shown("Status"), "3");
}

TWINBOX_ON_EVERY_BACKEND(Settle);

}  // namespace
}  // namespace twinbox::test
