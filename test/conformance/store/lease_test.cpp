// Leases: stale ones, lost ones, longer ones, and those given back untried.
#include "support/outbox_test.hpp"
#include <twinbox/operations.hpp>

namespace twinbox::test {
namespace {

class Leases : public OutboxTest {
 protected:
  /// A lease that has run out and that somebody else has taken over.
  Message taken_over() {
    Message stale = enqueue_and_claim(worker_a, 30s);
    clock().advance(31s);
    if (outbox().claim(worker_b, 30s, 1).size() != 1) throw std::logic_error("nothing to take");
    return stale;
  }
};

TEST_P(Leases, an_expired_lease_counts_while_nobody_took_it_over) {
  const Message message = enqueue_and_claim(worker_a, 30s);
  clock().advance(1h);
  EXPECT_EQ(outbox().ack(worker_a, message), 1u);
}

TEST_P(Leases, a_lease_that_somebody_took_over_settles_nothing) {
  const Message stale = taken_over();
  EXPECT_EQ(outbox().ack(worker_a, stale), 0u);
  EXPECT_EQ(outbox().abandon(worker_a, stale, "late"), 0u);
  EXPECT_EQ(outbox().fail(worker_a, stale, "late"), 0u);
  EXPECT_EQ(outbox().release(worker_a, stale), 0u);
  EXPECT_EQ(outbox().postpone(worker_a, stale, clock().now()), 0u);
  EXPECT_TRUE(outbox().renew(worker_a, stale, 30s).empty());
  EXPECT_EQ(shown_owner("OwnerToken"), worker_b);
}

TEST_P(Leases, a_stale_lease_of_the_same_owner_settles_nothing) {
  const Message stale = enqueue_and_claim(worker_a, 30s);
  clock().advance(31s);
  const auto fresh = outbox().claim(worker_a, 30s, 1);
  ASSERT_EQ(fresh.size(), 1u);
  ASSERT_EQ(fresh[0].delivery_id, stale.delivery_id);
  EXPECT_EQ(outbox().ack(worker_a, stale), 0u);
  EXPECT_EQ(outbox().abandon(worker_a, stale.lease()), 0u);
  EXPECT_EQ(outbox().fail(worker_a, stale, "late"), 0u);
  EXPECT_EQ(outbox().release(worker_a, stale), 0u);
  EXPECT_TRUE(outbox().renew(worker_a, stale, 30s).empty());
  EXPECT_EQ(outbox().ack(worker_a, fresh), 1u);
}

TEST_P(Leases, a_bare_id_settles_whatever_its_owner_holds) {
  const Message stale = enqueue_and_claim(worker_a, 30s);
  clock().advance(31s);
  ASSERT_EQ(outbox().claim(worker_a, 30s, 1).size(), 1u);
  EXPECT_EQ(outbox().ack(worker_a, stale.delivery_id), 1u);
}

TEST_P(Leases, ids_in_one_call_are_a_set) {
  const Message a = enqueue_and_claim(worker_a);
  EXPECT_EQ(
      outbox().abandon(worker_a, std::vector{a.delivery_id, a.delivery_id, a.delivery_id}, "x"),
      1u);
  EXPECT_EQ(shown("RetryCount"), "1");
  EXPECT_EQ(rows("failure"), 1);
  clock().advance(2s);
  const auto again = outbox().claim(worker_a, 30s, 1);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(outbox().ack(worker_a, std::vector{again[0].lease(), again[0].lease()}), 1u);
  EXPECT_EQ(rows("outcome"), 1);
}

TEST_P(Leases, a_stale_and_a_fresh_lease_of_one_delivery_settle_it_once) {
  for (const bool dead : {false, true}) {
    const Message stale = enqueue_and_claim(worker_a, 30s);
    clock().advance(31s);
    const auto fresh = outbox().claim(worker_a, 30s, 1);
    ASSERT_EQ(fresh.size(), 1u);
    const std::vector<Lease> both{fresh[0].lease(), stale.lease()};
    EXPECT_EQ(outbox().renew(worker_a, both, 60s), std::vector{stale.delivery_id});
    if (dead) {
      EXPECT_EQ(outbox().fail(worker_a, both, "x"), 1u);
      EXPECT_EQ(rows("failure"), 2);
    } else {
      EXPECT_EQ(outbox().abandon(worker_a, both, "x"), 1u);
      EXPECT_EQ(rows("failure"), 1);
      clock().advance(2s);
      ASSERT_EQ(outbox().ack(worker_a, outbox().claim(worker_a, 30s, 1)), 1u);
    }
  }
}

TEST_P(Leases, of_one_epoch_or_of_many_settle_only_what_they_still_hold) {
  std::vector<Message> first;
  for (int i = 0; i < 4; ++i) first.push_back(enqueue_and_claim(worker_a));
  ASSERT_EQ(outbox().release(worker_a, first[1]), 1u);
  const auto second = outbox().claim(worker_a, 30s, 1);
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(outbox().ack(worker_a, std::vector{first[0], first[1], first[2]}), 2u);
  EXPECT_EQ(outbox().ack(worker_a, std::vector{first[0], second[0], first[3]}), 2u);
  EXPECT_EQ(rows("outcome"), 4);
}

TEST_P(Leases, an_all_zero_owner_is_refused) {
  EXPECT_THROW(OwnerToken{Uuid{}}, std::invalid_argument);
  EXPECT_NO_THROW(OwnerToken::make(environment()));
}

TEST_P(Leases, a_delay_that_is_not_above_zero_is_refused) {
  const Message message = enqueue_and_claim(worker_a);
  EXPECT_THROW(outbox().abandon(worker_a, message, "x", 0s), std::out_of_range);
  EXPECT_THROW(outbox().abandon(worker_a, message, "x", -1s), std::out_of_range);
  EXPECT_THROW(outbox().abandon(worker_a, message, "x", Duration::max()), std::out_of_range);
  EXPECT_EQ(shown("RetryCount"), "0");
}

TEST_P(Leases, a_message_id_settles_its_delivery) {
  const Message a = enqueue_and_claim(worker_a);
  const Message b = enqueue_and_claim(worker_a);
  const Message c = enqueue_and_claim(worker_a);
  const SettledById acked = outbox().ack(worker_a, std::vector{a.id, a.id, MessageId{"unknown"}});
  EXPECT_EQ(acked.changed, 1u);
  EXPECT_TRUE(acked.ambiguous.empty());
  EXPECT_EQ(outbox().abandon(worker_a, std::vector{b.id}, "error", 9s).changed, 1u);
  EXPECT_EQ(outbox().fail(worker_a, std::vector{c.id}, "error").changed, 1u);
  EXPECT_EQ(shown("Status", a.id.str()), "2");
  EXPECT_EQ(shown_time("NextAttemptAt", b.id.str()), clock().now() + 9s);
  EXPECT_EQ(shown("Status", c.id.str()), "3");
  EXPECT_EQ(outbox().ack(worker_b, std::vector{b.id}).changed, 0u);
}

TEST_P(Leases, a_message_id_that_several_sources_use_is_left_alone_and_reported) {
  NewMessage message = a_message();
  message.id = MessageId{"shared"};
  for (const char* source : {"one", "two"}) {
    message.source = Source{source};
    outbox().enqueue(message);
  }
  const MessageId alone = outbox().enqueue(a_message()).id;
  ASSERT_EQ(outbox().claim(worker_a, 30s, 10).size(), 3u);
  const SettledById settled = outbox().ack(worker_a, std::vector{*message.id, alone});
  EXPECT_EQ(settled.changed, 1u);
  EXPECT_EQ(settled.ambiguous, std::vector{*message.id});
  EXPECT_EQ(rows("work"), 2);
  const auto warnings = log().events("ambiguous_id");
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].field("id"), "shared");
}

TEST_P(Leases, a_repeated_enqueue_moves_no_due_time_of_a_leased_message) {
  NewMessage message = a_message();
  message.id = MessageId{"x"};
  outbox().enqueue(message);
  const auto claimed = outbox().claim(worker_a, 30s, 1);
  message.extras.due_at = clock().now() + 1h;
  outbox().enqueue(message);
  EXPECT_EQ(shown_owner("OwnerToken"), worker_a);
  ASSERT_EQ(outbox().abandon(worker_a, claimed, "x", 1min), 1u);
  EXPECT_EQ(shown_time("NextAttemptAt"), clock().now() + 1min);
}

TEST_P(Leases, a_repeated_enqueue_does_not_shorten_a_backoff) {
  NewMessage message = a_message();
  message.id = MessageId{"x"};
  outbox().enqueue(message);
  ASSERT_EQ(outbox().abandon(worker_a, outbox().claim(worker_a, 30s, 1), "x", 1h), 1u);
  outbox().enqueue(message);
  EXPECT_EQ(shown_time("NextAttemptAt"), clock().now() + 1h);
}

TEST_P(Leases, release_makes_a_message_ready_at_once_and_in_order) {
  outbox().enqueue(a_message("first"));
  clock().advance(1s);
  outbox().enqueue(a_message("second"));
  const auto claimed = outbox().claim(worker_a, 30s, 1);
  clock().advance(1s);
  ASSERT_EQ(outbox().release(worker_a, claimed), 1u);
  EXPECT_EQ(shown("RetryCount", claimed[0].id.str()), "0");
  EXPECT_EQ(rows("failure"), 0);
  const auto again = outbox().claim(worker_b, 30s, 1);
  EXPECT_EQ(topics_of(again), (std::vector<std::string>{"first"}));
  EXPECT_EQ(again.at(0).expiries, 0);
}

TEST_P(Leases, postpone_releases_a_message_until_an_instant) {
  const Message message = enqueue_and_claim(worker_a);
  const Instant until = clock().now() + 5min;
  EXPECT_EQ(outbox().postpone(worker_b, message, until), 0u);
  ASSERT_EQ(outbox().postpone(worker_a, message, until), 1u);
  EXPECT_EQ(shown("RetryCount"), "0");
  clock().advance(5min - 1us);
  EXPECT_TRUE(outbox().claim(worker_b, 30s, 1).empty());
  clock().advance(1us);
  EXPECT_EQ(outbox().claim(worker_b, 30s, 1).size(), 1u);
}

TEST_P(Leases, what_is_postponed_to_the_beginning_of_time_is_due_at_once) {
  const Message message = enqueue_and_claim(worker_a);
  ASSERT_EQ(outbox().postpone(worker_a, message, Instant::min()), 1u);
  const Counts counts = Admin{outbox()}.counts();
  EXPECT_EQ(counts.all.ready, 1);
  EXPECT_GT(counts.all.oldest_pending, Duration{0});
  EXPECT_EQ(outbox().claim(worker_b, 30s, 1).size(), 1u);
}

TEST_P(Leases, the_operators_release_and_postpone_pass_over_what_somebody_holds) {
  const Message held = enqueue_and_claim(worker_a);
  EXPECT_EQ(outbox().release(held.delivery_id), 0u);
  EXPECT_EQ(outbox().postpone(held.delivery_id, clock().now() + 1h), 0u);
  EXPECT_EQ(shown_owner("OwnerToken"), worker_a);

  ASSERT_EQ(outbox().abandon(worker_a, held, "x", 1h), 1u);
  EXPECT_EQ(outbox().release(std::vector{held.delivery_id, DeliveryId{987654321}}), 1u);
  EXPECT_EQ(shown_time("NextAttemptAt"), clock().now());
  EXPECT_EQ(outbox().postpone(held.delivery_id, clock().now() + 2h), 1u);
  EXPECT_EQ(shown_time("NextAttemptAt"), clock().now() + 2h);
  EXPECT_EQ(shown("RetryCount"), "1");
}

TEST_P(Leases, renew_moves_the_end_of_a_lease) {
  const Message message = enqueue_and_claim(worker_a, 30s);
  clock().advance(20s);
  EXPECT_EQ(outbox().renew(worker_a, message, 30s), std::vector{message.delivery_id});
  EXPECT_EQ(shown_time("LockedUntil"), clock().now() + 30s);
  clock().advance(29s);
  EXPECT_TRUE(outbox().claim(worker_b, 30s, 1).empty());
  EXPECT_EQ(outbox().ack(worker_a, message), 1u);
}

TEST_P(Leases, renew_is_for_the_owner_of_a_lease_that_has_not_expired) {
  const Message message = enqueue_and_claim(worker_a, 30s);
  EXPECT_TRUE(outbox().renew(worker_b, message, 30s).empty());
  clock().advance(30s);
  EXPECT_TRUE(outbox().renew(worker_a, message, 30s).empty());
  EXPECT_EQ(outbox().claim(worker_b, 30s, 1).size(), 1u);
}

TEST_P(Leases, a_clock_that_steps_backwards_never_shortens_a_lease) {
  const Message message = enqueue_and_claim(worker_a, 30s);
  const Instant end = clock().now() + 30s;
  clock().advance(-10min);
  EXPECT_EQ(outbox().renew(worker_a, message, 30s), std::vector{message.delivery_id});
  EXPECT_EQ(shown_time("LockedUntil"), end);
}

TWINBOX_ON_EVERY_BACKEND(Leases);

}  // namespace
}  // namespace twinbox::test
