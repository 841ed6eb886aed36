// A message that only the gate knows has no content yet: what arrives with an accept that adds a
// delivery is its first content. Found by the property tests: the content was dropped once the
// gate's delivery was done, and the partition key even before.
#include "support/backend.hpp"

namespace twinbox::test {
namespace {

class GateThenAccept : public BoxTest {
 protected:
  Arrival with_key(const char* id) {
    Arrival arrival = an_arrival(id);
    arrival.extras.partition_key = PartitionKey{"account 7"};
    return arrival;
  }
};

TEST_P(GateThenAccept,
       IBX_036_claim_returns_the_content_that_came_after_the_gates_delivery_was_done) {
  ASSERT_TRUE(inbox().try_claim(a_key(), Topic{"gate"}, HandlerKey{"ledger"}));
  ASSERT_TRUE(inbox().mark_processed(a_key()));
  EXPECT_EQ(inbox().accept(an_arrival()).state, Acceptance::accepted);
  const auto messages = inbox().claim(worker_a, 30s, 10);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].payload, payload());
  EXPECT_EQ(messages[0].topic.str(), "payment.received");
}

TEST_P(GateThenAccept, a_message_the_gate_knows_takes_its_place_in_its_partition_key) {
  ASSERT_TRUE(inbox().try_claim(a_key("second"), Topic{"gate"}, HandlerKey{"ledger"}));
  inbox().accept(with_key("first"));
  inbox().accept(with_key("second"));
  const auto messages = inbox().claim(worker_a, 30s, 10);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].id.str(), "first");
}

TEST_P(GateThenAccept, IBX_047_content_that_arrives_for_a_done_message_is_not_kept) {
  inbox().observe(a_key());
  ASSERT_TRUE(inbox().mark_processed(a_key()));
  EXPECT_EQ(inbox().accept(an_arrival()).state, Acceptance::duplicate_done);
  EXPECT_TRUE(inbox().claim(worker_a, 30s, 10).empty());
  EXPECT_EQ(read("select cast(count(payload) as text) from {schema}inbox_message"), "0");
}

TWINBOX_ON_EVERY_BACKEND(GateThenAccept);

}  // namespace
}  // namespace twinbox::test
