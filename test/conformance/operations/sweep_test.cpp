// Sweeping: leases that ran out, workers that died, and messages that came too late.
#include "support/outbox_test.hpp"

namespace twinbox::test {
namespace {

class Sweep : public OutboxTest {};

TEST_P(Sweep, OBX_049_reap_finds_every_expired_lease_and_no_other) {
  for (int i = 0; i < 3; ++i) outbox().enqueue(a_message());
  ASSERT_EQ(outbox().claim(worker_a, 10s, 2).size(), 2u);
  ASSERT_EQ(outbox().claim(worker_b, 60s, 1).size(), 1u);
  outbox().enqueue(a_message());
  EXPECT_EQ(outbox().reap(), 0u);
  clock().advance(10s);
  EXPECT_EQ(outbox().reap(), 2u);
  EXPECT_EQ(outbox().reap(), 0u);
  EXPECT_EQ(count("select count(*) from {schema}outbox where Status = 1"), 1);
}

TEST_P(Sweep, OBX_050_reap_clears_the_lease_and_the_owner) {
  enqueue_and_claim(worker_a, 10s);
  clock().advance(11s);
  ASSERT_EQ(outbox().reap(), 1u);
  EXPECT_EQ(shown("LockedUntil"), "null");
  EXPECT_EQ(shown("OwnerToken"), "null");
  EXPECT_EQ(shown("Status"), "0");
  EXPECT_EQ(shown("RetryCount"), "0");
}

TEST_P(Sweep, OBX_051_a_reaped_message_can_be_claimed_again) {
  const Message lost = enqueue_and_claim(worker_a, 10s);
  clock().advance(11s);
  ASSERT_EQ(outbox().reap(), 1u);
  const auto again = outbox().claim(worker_b, 30s, 10);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].delivery_id, lost.delivery_id);
  EXPECT_EQ(again[0].expiries, 1);
  EXPECT_EQ(outbox().ack(worker_a, lost), 0u);
  EXPECT_EQ(outbox().ack(worker_b, again), 1u);
}

TEST_P(Sweep, a_reaped_lease_settles_nothing) {
  const Message lost = enqueue_and_claim(worker_a, 10s);
  clock().advance(11s);
  ASSERT_EQ(outbox().reap(), 1u);
  EXPECT_EQ(outbox().ack(worker_a, lost), 0u);
  EXPECT_EQ(shown("Status"), "0");
}

TEST_P(Sweep, OBX_052_reap_leaves_finished_and_dead_messages_alone) {
  const Message done = enqueue_and_claim(worker_a, 10s);
  const Message dead = enqueue_and_claim(worker_a, 10s);
  ASSERT_EQ(outbox().ack(worker_a, done), 1u);
  ASSERT_EQ(outbox().fail(worker_a, dead, "error"), 1u);
  clock().advance(1h);
  EXPECT_EQ(outbox().reap(), 0u);
  EXPECT_EQ(shown("Status", done.id.str()), "2");
  EXPECT_EQ(shown("Status", dead.id.str()), "3");
  EXPECT_EQ(shown("LastError", dead.id.str()), "error");
}

TEST_P(Sweep, reap_takes_no_more_than_its_limit) {
  outbox().enqueue(std::vector<NewMessage>(5, a_message()));
  ASSERT_EQ(outbox().claim(worker_a, 10s, 5).size(), 5u);
  clock().advance(11s);
  EXPECT_EQ(outbox().reap(3), 3u);
  EXPECT_EQ(outbox().reap(3), 2u);
}

TEST_P(Sweep, OBX_049_reap_without_a_limit_clears_all_leases_that_ran_out_however_many) {
  REQUIREMENT("IBX-068");
  constexpr std::size_t many = 2500;
  BoxOptions endless = options();
  endless.max_expiries = 0;
  Outbox outbox(database(), endless);
  outbox.enqueue(std::vector<NewMessage>(many, a_message()));
  ASSERT_EQ(outbox.claim(worker_a, 10s, many).size(), many);
  clock().advance(11s);
  database().in_transaction([&](Session& session) { EXPECT_EQ(outbox.reap(session), many); });
  write("update {schema}outbox_work set lease_until = visible_at, owner = null");
  EXPECT_EQ(outbox.reap(), many);
  EXPECT_EQ(count("select count(*) from {schema}outbox_work where lease_until is not null"), 0);
}

TEST_P(Sweep, a_message_whose_worker_died_is_handed_out_alone) {
  outbox().enqueue(a_message("suspect"));
  ASSERT_EQ(outbox().claim(worker_a, 10s, 10).size(), 1u);
  clock().advance(11s);
  outbox().enqueue(a_message("b"));
  outbox().enqueue(a_message("c"));
  EXPECT_EQ(topics_of(outbox().claim(worker_b, 30s, 10)), (std::vector<std::string>{"suspect"}));
  EXPECT_EQ(outbox().claim(worker_b, 30s, 10).size(), 2u);
}

TEST_P(Sweep, the_neighbours_of_a_suspect_go_without_it_when_they_are_older) {
  outbox().enqueue(a_message("suspect"));
  ASSERT_EQ(outbox().abandon(worker_a, outbox().claim(worker_a, 10s, 1), "x", 5s), 1u);
  outbox().enqueue(a_message("older"));
  clock().advance(5s);
  outbox().enqueue(a_message("younger"));
  ASSERT_EQ(outbox().claim(worker_a, 10s, 10).size(), 3u);
  clock().advance(11s);
  ASSERT_EQ(outbox().reap(), 3u);
  std::vector<std::size_t> sizes;
  for (int i = 0; i < 3; ++i) sizes.push_back(outbox().claim(worker_b, 30s, 10).size());
  EXPECT_EQ(sizes, (std::vector<std::size_t>{1, 1, 1}));
  EXPECT_TRUE(outbox().claim(worker_b, 30s, 10).empty());
}

TEST_P(Sweep, a_message_that_took_down_five_workers_is_dead) {
  outbox().enqueue(a_message());
  for (int death = 0; death < 5; ++death) {
    const auto messages = outbox().claim(worker_a, 10s, 10);
    ASSERT_EQ(messages.size(), 1u);
    EXPECT_EQ(messages[0].expiries, death);
    EXPECT_EQ(messages[0].attempts, 0);
    clock().advance(11s);
    if (death % 2 == 0) {
      ASSERT_EQ(outbox().reap(), 1u);
    }
  }
  const MessageId healthy = outbox().enqueue(a_message("healthy")).id;
  EXPECT_EQ(names_of(outbox().claim(worker_b, 30s, 10)), std::vector{healthy.str()});
  EXPECT_EQ(read("select reason from {schema}outbox_outcome"), "crash_loop");
  EXPECT_EQ(count("select expiries from {schema}outbox_outcome"), 5);
  EXPECT_EQ(count("select attempts from {schema}outbox_outcome"), 0);
  EXPECT_EQ(rows("failure"), 0);
}

TEST_P(Sweep, a_limit_of_expiries_of_zero_is_none) {
  BoxOptions endless = options();
  endless.max_expiries = 0;
  Outbox outbox(database(), endless);
  outbox.enqueue(a_message());
  for (int death = 0; death < 20; ++death) {
    const auto messages = outbox.claim(worker_a, 10s, 10);
    ASSERT_EQ(messages.size(), 1u);
    EXPECT_EQ(messages[0].expiries, death);
    clock().advance(11s);
  }
}

TEST_P(Sweep, a_limit_of_expiries_below_zero_is_refused) {
  BoxOptions wrong = options();
  wrong.max_expiries = -1;
  EXPECT_THROW(Outbox(database(), wrong), std::out_of_range);
}

TWINBOX_ON_EVERY_BACKEND(Sweep);

}  // namespace
}  // namespace twinbox::test
