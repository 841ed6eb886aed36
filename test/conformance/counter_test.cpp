// Counters that have reached their end stay there: no claim, settlement or operation fails by them.
#include <optional>

#include "support/outbox_test.hpp"
#include <twinbox/admin.hpp>

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

}  // namespace
}  // namespace twinbox::test
