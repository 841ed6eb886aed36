// Counters that have reached their end stay there: no claim, settlement or operation fails by them.
#include <optional>
#include <tuple>

#include "support/outbox_test.hpp"
#include <twinbox/housekeeping.hpp>
#include <twinbox/operations.hpp>

namespace twinbox::test {
namespace {

constexpr int most = 2'147'483'647;

class Counter : public OutboxTest {
 protected:
  void SetUp() override {
    OutboxTest::SetUp();
    if (IsSkipped()) return;
    BoxOptions patient = options();
    patient.max_expiries = 0;
    box_.emplace(database(), patient);
    box_->enqueue(a_message());
    write("update " + in_schema("{schema}outbox_work") +
          " set epoch = 2147483647, attempts = 2147483647, expiries = 2147483647, "
          "requeues = 2147483647");
  }
  Outbox& box() { return *box_; }
  std::int64_t number(const std::string& column, const std::string& table) {
    return std::stoll(read("select " + column + " from {schema}outbox_" + table));
  }

 private:
  std::optional<Outbox> box_;
};

TEST_P(Counter, at_its_end_lets_a_message_be_claimed_and_acked) {
  const auto held = box().claim(worker_a, 30s, 10);
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held[0].epoch, most);
  EXPECT_EQ(held[0].expiries, most);
  EXPECT_EQ(box().ack(worker_a, held), 1u);
  EXPECT_EQ(number("attempts", "outcome"), most);
}

TEST_P(Counter, at_its_end_lets_a_message_be_taken_over_and_abandoned) {
  ASSERT_EQ(box().claim(worker_a, 30s, 10).size(), 1u);
  clock().advance(31s);
  const auto held = box().claim(worker_b, 30s, 10);
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held[0].expiries, most);
  EXPECT_EQ(box().abandon(worker_b, held, "again"), 1u);
  EXPECT_EQ(number("attempts", "work"), most);
  EXPECT_EQ(number("attempt", "failure"), most);
}

TEST_P(Counter, at_its_end_lets_a_lease_be_reaped) {
  ASSERT_EQ(box().claim(worker_a, 30s, 10).size(), 1u);
  clock().advance(31s);
  EXPECT_EQ(box().reap(), 1u);
  EXPECT_EQ(number("expiries", "work"), most);
}

TEST_P(Counter, at_its_end_lets_a_message_fail_and_be_requeued) {
  const auto held = box().claim(worker_a, 30s, 10);
  EXPECT_EQ(box().fail(worker_a, held, "never"), 1u);
  EXPECT_EQ(number("attempts", "outcome"), most);
  EXPECT_EQ(Admin{box()}.requeue(Filter{}), 1u);
  EXPECT_EQ(number("requeues", "work"), most);
}

TWINBOX_ON_EVERY_BACKEND(Counter);

/// The counters of a message.
class MessageCounter : public BoxTest {
 protected:
  void accept_at_the_end(const Arrival& arrival) {
    inbox().accept(arrival);
    write("update {schema}inbox_message set seen_count = 2147483647, content_version = 2147483647");
  }
  /// How often the message was seen, and its content version.
  std::vector<std::string> counters() {
    return {read("select seen_count from {schema}inbox_message"),
            read("select content_version from {schema}inbox_message")};
  }
  const std::vector<std::string> at_the_end{"2147483647", "2147483647"};
};

TEST_P(MessageCounter, at_its_end_lets_a_message_arrive_again) {
  accept_at_the_end(an_arrival());
  EXPECT_EQ(inbox().accept(an_arrival()).state, Acceptance::duplicate_open);
  EXPECT_EQ(counters(), at_the_end);
}

TEST_P(MessageCounter, at_its_end_lets_a_keyed_message_be_replaced) {
  Arrival keyed = an_arrival();
  keyed.extras.partition_key = PartitionKey{"k"};
  accept_at_the_end(keyed);
  keyed.payload = payload("other");
  EXPECT_TRUE(inbox().accept(keyed).conflict);
  EXPECT_EQ(counters(), at_the_end);
  EXPECT_EQ(inbox().claim(worker_a, 30s, 1).at(0).payload, payload("other"));
}

TEST_P(MessageCounter, at_its_end_lets_a_message_be_observed_and_claimed_by_the_gate) {
  std::ignore = inbox().already_processed(a_key());
  write("update {schema}inbox_message set seen_count = 2147483647");
  EXPECT_FALSE(inbox().already_processed(a_key()));
  EXPECT_TRUE(inbox().try_claim(a_key(), Topic{"payment"}));
  EXPECT_EQ(counters().at(0), at_the_end.at(0));
}

TEST_P(MessageCounter, at_its_end_lets_a_message_be_edited) {
  accept_at_the_end(an_arrival());
  const std::int64_t number = Admin{inbox()}.get(a_key()).value().message.number;
  EXPECT_TRUE(Admin{inbox()}.edit(number, {.payload = payload("better")}));
  EXPECT_EQ(counters(), at_the_end);
}

TEST_P(MessageCounter, at_its_end_lets_a_named_lease_change_hands) {
  NamedLeases leases{inbox()};
  const LeaseName name{"job"};
  ASSERT_TRUE(leases.try_acquire(name, worker_a, 30s));
  write("update {schema}inbox_named_lease set epoch = 9223372036854775807");
  clock().advance(31s);
  const auto lease = leases.try_acquire(name, worker_b, 30s);
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->epoch, INT64_MAX);
  EXPECT_TRUE(leases.renew(*lease, 30s));
}

TWINBOX_ON_EVERY_BACKEND(MessageCounter);

}  // namespace
}  // namespace twinbox::test
