// The outbox as a plain store of due messages.
#include "support/outbox_test.hpp"
#include <twinbox/outbox.hpp>

namespace twinbox::test {
namespace {

class OutboxStoreOf : public OutboxTest {
 protected:
  OutboxStore store(OwnerToken owner, Duration lease = 30s) { return {outbox(), owner, lease}; }
};

TEST_P(OutboxStoreOf, claim_due_leases_what_is_due_to_its_worker) {
  REQUIREMENT("OBX-018, OBX-020, OBX-021");
  NewMessage later = a_message("later");
  later.extras.due_at = clock().now() + 1h;
  outbox().enqueue(later);
  outbox().enqueue(a_message("now"));
  const auto messages = store(worker_a, 45s).claim_due(10);
  ASSERT_EQ(topics_of(messages), (std::vector<std::string>{"now"}));
  EXPECT_EQ(shown_owner("OwnerToken", messages[0].id.str()), worker_a);
  EXPECT_EQ(shown_time("LockedUntil", messages[0].id.str()), clock().now() + 45s);
  EXPECT_TRUE(store(worker_b).claim_due(10).empty());
}

TEST_P(OutboxStoreOf, claim_due_refuses_a_limit_that_is_not_above_zero) {
  REQUIREMENT("OBX-028");
  EXPECT_THROW(store(worker_a).claim_due(0), std::out_of_range);
  EXPECT_THROW(store(worker_a).claim_due(-5), std::out_of_range);
}

TEST_P(OutboxStoreOf, mark_dispatched_ends_a_message) {
  outbox().enqueue(a_message());
  OutboxStore mine = store(worker_a);
  const auto messages = mine.claim_due(10);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_FALSE(store(worker_b).mark_dispatched(messages[0].delivery_id));
  EXPECT_TRUE(mine.mark_dispatched(messages[0].delivery_id));
  EXPECT_FALSE(mine.mark_dispatched(messages[0].delivery_id));
  EXPECT_EQ(shown("Status"), "2");
}

TEST_P(OutboxStoreOf, reschedule_tries_again_after_the_delay) {
  outbox().enqueue(a_message());
  OutboxStore mine = store(worker_a);
  const DeliveryId id = mine.claim_due(1).at(0).delivery_id;
  EXPECT_THROW(mine.reschedule(id, 0s, "error"), std::out_of_range);
  EXPECT_FALSE(store(worker_b).reschedule(id, 5s, "error"));
  EXPECT_TRUE(mine.reschedule(id, 5s, "timeout"));
  EXPECT_EQ(shown("RetryCount"), "1");
  EXPECT_EQ(shown("LastError"), "timeout");
  EXPECT_EQ(shown_time("NextAttemptAt"), clock().now() + 5s);
  clock().advance(5s);
  EXPECT_EQ(mine.claim_due(1).size(), 1u);
}

TEST_P(OutboxStoreOf, fail_ends_a_message_for_ever) {
  outbox().enqueue(a_message());
  OutboxStore mine = store(worker_a);
  const DeliveryId id = mine.claim_due(1).at(0).delivery_id;
  EXPECT_FALSE(store(worker_b).fail(id, "error"));
  EXPECT_TRUE(mine.fail(id, "no such customer"));
  EXPECT_EQ(shown("Status"), "3");
  EXPECT_EQ(shown("LastError"), "no such customer");
  clock().advance(24h);
  EXPECT_TRUE(mine.claim_due(1).empty());
}

TEST_P(OutboxStoreOf, a_lease_that_is_not_above_zero_is_refused) {
  REQUIREMENT("OBX-027");
  EXPECT_THROW(store(worker_a, 0s).claim_due(1), std::out_of_range);
}

TWINBOX_ON_EVERY_BACKEND(OutboxStoreOf);

}  // namespace
}  // namespace twinbox::test
