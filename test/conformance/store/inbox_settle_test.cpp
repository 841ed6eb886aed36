// The work of the inbox: claimed under a lease, finished, put back or given up.
#include <set>
#include <tuple>

#include "support/inbox_test.hpp"

namespace twinbox::test {
namespace {

class InboxSettle : public InboxTest {
 protected:
  std::vector<Message> accept_and_claim_all(int count) {
    for (int i = 0; i < count; ++i) inbox().accept(an_arrival("evt_" + std::to_string(i)));
    return inbox().claim(worker_a, 30s, count);
  }

  /// What the inbox document calls OwnerToken and LockedUntil, as the view shows them.
  std::string held() {
    return read(
        "select count(*) from {schema}inbox "
        "where OwnerToken is not null or LockedUntil is not null");
  }
  std::string status() { return read("select Status from {schema}inbox"); }

  const std::vector<DeliveryId> unknown{DeliveryId{4711}, DeliveryId{-1}};
};

class PostgresInboxSettle : public InboxTest {};

TEST_P(InboxSettle, IBX_031_IBX_038_claims_open_messages_only) {
  make_done(an_arrival("done"));
  make_dead(an_arrival("dead"));
  std::ignore = inbox().already_processed(a_key("seen"));
  std::ignore = inbox().already_processed(a_key("marked"));
  std::ignore = inbox().mark_processing(a_key("marked"));
  inbox().accept(an_arrival("open"));
  clock().advance(24h);
  const auto messages = inbox().claim(worker_a, 30s, 10);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].id.str(), "open");
}

TEST_P(InboxSettle, IBX_032_IBX_042_claims_due_messages_whose_backoff_is_over) {
  Arrival later = an_arrival("later");
  later.extras.due_at = clock().now() + 60s;
  inbox().accept(later);
  EXPECT_TRUE(inbox().claim(worker_a, 30s, 10).empty());
  inbox().accept(an_arrival("failed"));
  inbox().abandon(worker_a, inbox().claim(worker_a, 30s, 10), "busy");
  clock().advance(2s - 1us);
  EXPECT_TRUE(inbox().claim(worker_a, 30s, 10).empty());
  clock().advance(1us);
  EXPECT_EQ(inbox().claim(worker_a, 30s, 10).size(), 1u);
  clock().advance(58s);
  EXPECT_EQ(inbox().claim(worker_a, 60s, 1, later.extras.due_at).size(), 1u);
}

TEST_P(InboxSettle, IBX_033_passes_over_what_another_worker_has_leased) {
  accept_and_claim_all(1);
  clock().advance(30s - 1us);
  EXPECT_TRUE(inbox().claim(worker_b, 30s, 10).empty());
  clock().advance(1us);
  EXPECT_EQ(inbox().claim(worker_b, 30s, 10).size(), 1u);
}

TEST_P(InboxSettle, IBX_034_IBX_035_IBX_036_leases_to_the_owner_and_returns_what_it_leased) {
  const auto messages = accept_and_claim_all(2);
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0].id.str(), "evt_0");
  EXPECT_EQ(messages[1].id.str(), "evt_1");
  for (const Message& message : messages) {
    EXPECT_EQ(message.lease_until, clock().now() + 30s);
    EXPECT_EQ(message.source.str(), "stripe");
    EXPECT_EQ(message.topic.str(), "payment.received");
    EXPECT_EQ(message.payload, payload());
    const DeliveryView held_delivery = delivery(message.key());
    EXPECT_EQ(held_delivery.owner, worker_a.uuid());
    EXPECT_EQ(held_delivery.lease_until, clock().now() + 30s);
  }
}

TEST_P(InboxSettle, IBX_037_claims_nothing_when_nothing_is_ready) {
  EXPECT_TRUE(inbox().claim(worker_a, 30s, 10).empty());
}

TEST_P(InboxSettle, IBX_039_claims_no_more_than_asked_for) {
  accept_and_claim_all(5);
  clock().advance(30s);
  inbox().reap();
  for (int i = 0; i < 5; ++i) inbox().accept(an_arrival("new_" + std::to_string(i)));
  std::set<DeliveryId> claimed;
  while (true) {
    const auto messages = inbox().claim(worker_a, 30s, 3);
    EXPECT_LE(messages.size(), 3u);
    if (messages.empty()) break;
    for (const Message& message : messages) EXPECT_TRUE(claimed.insert(message.delivery_id).second);
  }
  EXPECT_EQ(claimed.size(), 10u);
}

TEST_P(InboxSettle, IBX_040_IBX_041_refuses_a_lease_or_a_batch_of_zero_or_less) {
  inbox().accept(an_arrival());
  EXPECT_THROW(std::ignore = inbox().claim(worker_a, 0s, 10), std::out_of_range);
  EXPECT_THROW(std::ignore = inbox().claim(worker_a, -1s, 10), std::out_of_range);
  EXPECT_THROW(std::ignore = inbox().claim(worker_a, 30s, 0), std::out_of_range);
  EXPECT_THROW(std::ignore = inbox().claim(worker_a, 30s, -1), std::out_of_range);
  EXPECT_EQ(held(), "0");
}

TEST_P(InboxSettle, IBX_043_IBX_130_knows_no_owner_that_is_all_zero) {
  EXPECT_THROW(OwnerToken{Uuid{}}, std::invalid_argument);
  static_assert(!std::is_default_constructible_v<OwnerToken>);
  static_assert(!std::is_convertible_v<Uuid, OwnerToken>);
}

TEST_P(PostgresInboxSettle, IBX_043_IBX_130_its_functions_refuse_an_owner_that_is_all_zero) {
  inbox().accept(an_arrival());
  const std::string zero = "'00000000-0000-0000-0000-000000000000'::uuid";
  for (const std::string& call :
       {"inbox_claim(" + zero + ", interval '30 s', 10)", "inbox_ack(" + zero + ", '{1}')",
        "inbox_abandon(" + zero + ", '{1}')", "inbox_fail(" + zero + ", '{1}', 'boom')"}) {
    EXPECT_THROW(write("select {schema}" + call), DatabaseError) << call;
  }
}

TEST_P(InboxSettle, IBX_044_IBX_047_ack_makes_messages_done_for_ever) {
  EXPECT_EQ(inbox().ack(worker_a, accept_and_claim_all(3)), 3u);
  for (const char* id : {"evt_0", "evt_1", "evt_2"}) {
    EXPECT_EQ(inbox().state(a_key(id)), MessageState::done);
    EXPECT_TRUE(inbox().already_processed(a_key(id)));
  }
  clock().advance(24h);
  EXPECT_EQ(inbox().reap(), 0u);
  EXPECT_TRUE(inbox().claim(worker_b, 30s, 10).empty());
}

TEST_P(InboxSettle, IBX_045_IBX_046_ack_changes_only_what_its_owner_holds) {
  const auto messages = accept_and_claim_all(2);
  EXPECT_EQ(inbox().ack(worker_b, messages), 0u);
  EXPECT_EQ(inbox().ack(worker_a, unknown), 0u);
  std::vector<DeliveryId> mixed = unknown;
  mixed.push_back(messages[0].delivery_id);
  mixed.push_back(messages[0].delivery_id);
  EXPECT_EQ(inbox().ack(worker_a, mixed), 1u);
  EXPECT_EQ(inbox().state(a_key("evt_1")), MessageState::open);
}

TEST_P(InboxSettle, IBX_048_IBX_059_IBX_066_settles_nothing_when_no_ids_are_given) {
  accept_and_claim_all(1);
  const std::vector<DeliveryId> none;
  EXPECT_EQ(inbox().ack(worker_a, none), 0u);
  EXPECT_EQ(inbox().abandon(worker_a, none), 0u);
  EXPECT_EQ(inbox().fail(worker_a, none, "boom"), 0u);
  const std::vector<MessageId> nobody;
  EXPECT_EQ(inbox().ack(worker_a, nobody).changed, 0u);
  EXPECT_EQ(inbox().abandon(worker_a, nobody).changed, 0u);
  EXPECT_EQ(inbox().fail(worker_a, nobody, "boom").changed, 0u);
  EXPECT_EQ(held(), "1");
}

TEST_P(InboxSettle, IBX_049_ack_clears_owner_and_lease) {
  const auto messages = accept_and_claim_all(1);
  EXPECT_EQ(held(), "1");
  inbox().ack(worker_a, messages);
  EXPECT_EQ(held(), "0");
  EXPECT_EQ(status(), "Done");
}

TEST_P(InboxSettle, IBX_050_IBX_051_IBX_057_abandon_releases_counts_and_keeps_the_error) {
  for (int attempt = 1; attempt <= 3; ++attempt) {
    const auto messages = accept_and_claim_all(1);
    ASSERT_EQ(messages.size(), 1u);
    EXPECT_EQ(inbox().abandon(worker_a, messages, "busy " + std::to_string(attempt)), 1u);
    EXPECT_EQ(held(), "0");
    EXPECT_EQ(status(), "Processing");
    EXPECT_EQ(read("select Attempt from {schema}inbox"), std::to_string(attempt));
    EXPECT_EQ(read("select LastError from {schema}inbox"), "busy " + std::to_string(attempt));
    clock().advance(1h);
  }
  EXPECT_EQ(detail(a_key("evt_0")).timeline.size(), 3u);
}

TEST_P(InboxSettle, IBX_052_abandon_waits_twice_as_long_each_time_up_to_a_minute) {
  for (const auto wait : {2s, 4s, 8s, 16s, 32s, 60s, 60s}) {
    const auto messages = accept_and_claim_all(1);
    ASSERT_EQ(messages.size(), 1u) << wait.count();
    inbox().abandon(worker_a, messages, "busy");
    EXPECT_EQ(delivery(a_key("evt_0")).visible_at, clock().now() + wait);
    clock().advance(wait);
  }
}

TEST_P(InboxSettle, IBX_053_IBX_056_abandon_takes_a_delay_instead_of_the_backoff) {
  inbox().abandon(worker_a, accept_and_claim_all(1), "busy", 90s);
  clock().advance(90s - 1us);
  EXPECT_TRUE(inbox().claim(worker_b, 30s, 10).empty());
  clock().advance(1us);
  EXPECT_EQ(inbox().claim(worker_b, 30s, 10).size(), 1u);
}

TEST_P(InboxSettle, IBX_054_IBX_055_abandon_changes_only_what_its_owner_holds) {
  const auto messages = accept_and_claim_all(2);
  EXPECT_EQ(inbox().abandon(worker_b, messages, "busy"), 0u);
  EXPECT_EQ(inbox().abandon(worker_a, unknown, "busy"), 0u);
  EXPECT_EQ(delivery(a_key("evt_0")).attempts, 0);
  EXPECT_EQ(held(), "2");
}

TEST_P(InboxSettle, IBX_058_abandon_refuses_a_delay_of_zero_or_less) {
  const auto messages = accept_and_claim_all(1);
  EXPECT_THROW(inbox().abandon(worker_a, messages, "busy", 0s), std::out_of_range);
  EXPECT_THROW(inbox().abandon(worker_a, messages, "busy", -1s), std::out_of_range);
  EXPECT_EQ(held(), "1");
  EXPECT_EQ(inbox().ack(worker_a, messages), 1u);
}

TEST_P(InboxSettle, IBX_060_IBX_061_IBX_064_fail_makes_messages_dead_and_keeps_the_error) {
  EXPECT_EQ(inbox().fail(worker_a, accept_and_claim_all(1), "cannot be parsed"), 1u);
  EXPECT_EQ(inbox().state(a_key("evt_0")), MessageState::dead);
  EXPECT_EQ(read("select LastError from {schema}inbox"), "cannot be parsed");
  clock().advance(24h);
  EXPECT_EQ(inbox().reap(), 0u);
  EXPECT_TRUE(inbox().claim(worker_b, 30s, 10).empty());
}

TEST_P(InboxSettle, IBX_062_IBX_063_fail_changes_only_what_its_owner_holds) {
  const auto messages = accept_and_claim_all(1);
  EXPECT_EQ(inbox().fail(worker_b, messages, "boom"), 0u);
  EXPECT_EQ(inbox().fail(worker_a, unknown, "boom"), 0u);
  EXPECT_EQ(inbox().state(a_key("evt_0")), MessageState::open);
}

TEST_P(InboxSettle, IBX_065_fail_clears_owner_and_lease) {
  inbox().fail(worker_a, accept_and_claim_all(1), "boom");
  EXPECT_EQ(held(), "0");
  EXPECT_EQ(status(), "Dead");
}

template <class Box>
concept fails_without_an_error = requires(Box& box, OwnerToken owner, std::vector<DeliveryId> ids) {
  box.fail(owner, ids);
};

TEST_P(InboxSettle, IBX_067_fail_needs_an_error_text) {
  static_assert(!fails_without_an_error<Inbox>);
  const auto messages = accept_and_claim_all(1);
  if (on_postgres()) {
    EXPECT_THROW(write("select {schema}inbox_fail('" + worker_a.str() + "', '{" +
                       std::to_string(messages[0].delivery_id.number()) + "}', null)"),
                 DatabaseError);
  }
  EXPECT_EQ(inbox().state(a_key("evt_0")), MessageState::open);
}

TEST_P(InboxSettle, IBX_068_IBX_069_reap_clears_every_expired_lease_and_no_other) {
  accept_and_claim_all(3);
  clock().advance(15s);
  inbox().accept(an_arrival("young"));
  ASSERT_EQ(inbox().claim(worker_b, 30s, 10).size(), 1u);
  EXPECT_EQ(inbox().reap(), 0u);
  clock().advance(15s);
  EXPECT_EQ(inbox().reap(), 3u);
  EXPECT_EQ(held(), "1");
  EXPECT_EQ(delivery(a_key("young")).owner, worker_b.uuid());
  EXPECT_EQ(inbox().reap(), 0u);
}

TEST_P(InboxSettle, IBX_070_reap_makes_messages_claimable_and_counts_no_attempt) {
  const auto lost = accept_and_claim_all(1);
  clock().advance(30s);
  inbox().reap();
  const auto messages = inbox().claim(worker_b, 30s, 10);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].attempts, 0);
  EXPECT_EQ(inbox().ack(worker_a, lost), 0u);
}

TEST_P(InboxSettle, IBX_070_reap_does_not_shorten_the_backoff_of_a_failed_attempt) {
  const auto held = accept_and_claim_all(2);
  ASSERT_EQ(held.size(), 2u);
  inbox().abandon(worker_a, held[0], "busy", 1h);
  clock().advance(30s);
  EXPECT_EQ(inbox().reap(), 1u);
  const auto messages = inbox().claim(worker_b, 30s, 10);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].id, held[1].id);
  ASSERT_EQ(inbox().ack(worker_b, messages), 1u);
  clock().advance(1h - 30s);
  const auto later = inbox().claim(worker_b, 30s, 10);
  ASSERT_EQ(later.size(), 1u);
  EXPECT_EQ(later[0].id, held[0].id);
}

TEST_P(InboxSettle, IBX_071_reap_leaves_done_and_dead_messages_alone) {
  make_done(an_arrival("done"));
  make_dead(an_arrival("dead"));
  clock().advance(24h);
  EXPECT_EQ(inbox().reap(), 0u);
  EXPECT_EQ(inbox().state(a_key("done")), MessageState::done);
  EXPECT_EQ(inbox().state(a_key("dead")), MessageState::dead);
}

TEST_P(InboxSettle, settles_by_message_id_what_only_one_source_uses) {
  inbox().accept(an_arrival("evt_1", "stripe"));
  inbox().accept(an_arrival("both", "stripe"));
  inbox().accept(an_arrival("both", "paypal"));
  std::ignore = inbox().claim(worker_a, 30s, 10);
  const std::vector<MessageId> ids{MessageId{"both"}, MessageId{"evt_1"}, MessageId{"nowhere"}};
  const SettledById settled = inbox().ack(worker_a, ids);
  EXPECT_EQ(settled.changed, 1u);
  EXPECT_EQ(settled.ambiguous, std::vector{MessageId{"both"}});
  EXPECT_TRUE(inbox().has_processed(a_key("evt_1")));
}

TEST_P(InboxSettle, settles_a_message_that_has_been_pruned_as_nobodys) {
  const auto messages = accept_and_claim_all(1);
  inbox().ack(worker_a, messages);
  clock().advance(1h);
  ASSERT_EQ(inbox().prune({.older_than = 0s}), 1u);
  EXPECT_EQ(inbox().ack(worker_a, messages), 0u);
  EXPECT_EQ(inbox().accept(an_arrival("evt_0")).state, Acceptance::accepted);
}

TWINBOX_ON_EVERY_BACKEND(InboxSettle);
TWINBOX_ON_BACKENDS(PostgresInboxSettle, Backend::postgres);

}  // namespace
}  // namespace twinbox::test
