// Many arrivals in one call, and an arrival that is handled in the request.
#include <set>
#include <tuple>

#include "support/inbox_test.hpp"

namespace twinbox::test {
namespace {

class AcceptBatch : public InboxTest {
 protected:
  static std::vector<Acceptance> states(const std::vector<Accepted>& answers) {
    std::vector<Acceptance> result;
    for (const Accepted& answer : answers) result.push_back(answer.state);
    return result;
  }

  static Arrival with_key(std::string id, std::string key) {
    Arrival arrival = an_arrival(std::move(id));
    arrival.extras.partition_key = PartitionKey{std::move(key)};
    return arrival;
  }

  static Arrival with_hash(const std::string& content) {
    Arrival arrival = an_arrival();
    arrival.payload = payload(content);
    arrival.extras.hash = ContentHash::of(content);
    return arrival;
  }
};

TEST_P(AcceptBatch, answers_each_arrival_in_order) {
  make_done(an_arrival("done"));
  make_dead(an_arrival("dead"));
  inbox().accept(an_arrival("open"));
  const std::vector<Arrival> batch{an_arrival("zebra"), an_arrival("done"), an_arrival("new"),
                                   an_arrival("dead"), an_arrival("open")};
  EXPECT_EQ(states(inbox().accept(batch)),
            (std::vector{Acceptance::accepted, Acceptance::duplicate_done, Acceptance::accepted,
                         Acceptance::duplicate_dead, Acceptance::duplicate_open}));
}

TEST_P(AcceptBatch, IBX_014_takes_a_key_that_comes_twice_as_two_calls_would) {
  const std::vector<Arrival> batch{with_hash("one"), an_arrival("other"), with_hash("two"),
                                   with_hash("two")};
  const auto answers = inbox().accept(batch);
  EXPECT_EQ(states(answers), (std::vector{Acceptance::accepted, Acceptance::accepted,
                                          Acceptance::duplicate_open, Acceptance::duplicate_open}));
  EXPECT_TRUE(answers[2].conflict);
  EXPECT_FALSE(answers[3].conflict);
  const MessageDetail found = detail();
  EXPECT_EQ(found.payload, payload("two"));
  EXPECT_EQ(found.message.seen_count, 3);
  EXPECT_EQ(found.message.content_version, 3);
  EXPECT_EQ(inbox().claim(worker_a, 30s, 10).size(), 2u);
}

TEST_P(AcceptBatch, mixes_arrivals_with_and_without_a_partition_key) {
  const std::vector<Arrival> batch{with_key("a1", "a"), an_arrival("free"), with_key("b1", "b"),
                                   with_key("a2", "a"), with_key("a1", "a")};
  EXPECT_EQ(states(inbox().accept(batch)),
            (std::vector{Acceptance::accepted, Acceptance::accepted, Acceptance::accepted,
                         Acceptance::accepted, Acceptance::duplicate_open}));
  auto messages = inbox().claim(worker_a, 30s, 10);
  std::set<std::string> first;
  for (const Message& message : messages) first.insert(message.id.str());
  EXPECT_EQ(first, (std::set<std::string>{"a1", "free", "b1"}));
  inbox().ack(worker_a, messages);
  messages = inbox().claim(worker_a, 30s, 10);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].id.str(), "a2");
}

TEST_P(AcceptBatch, IBX_102_stores_all_or_none_when_the_database_refuses_one) {
  refuse_poison("insert");
  const std::vector<Arrival> batch{an_arrival("a"), an_arrival("b", "stripe", "poison"),
                                   with_key("c", "k")};
  EXPECT_THROW(inbox().accept(batch), DatabaseError);
  EXPECT_EQ(count_messages(), "0");
  EXPECT_TRUE(inbox().claim(worker_a, 30s, 10).empty());
}

TEST_P(AcceptBatch, IBX_102_changes_all_or_none_when_the_database_refuses_a_known_one) {
  inbox().accept(an_arrival("known"));
  refuse_poison("update");
  const std::vector<Arrival> batch{an_arrival("new"), an_arrival("known", "stripe", "poison")};
  EXPECT_THROW(inbox().accept(batch), DatabaseError);
  EXPECT_EQ(count_messages(), "1");
  EXPECT_EQ(detail(a_key("known")).message.seen_count, 1);
}

TEST_P(AcceptBatch, stores_none_when_one_cannot_be_stored) {
  inbox();
  Arrival bad = an_arrival("b");
  bad.extras.headers = "[]";
  const std::vector<Arrival> batch{an_arrival("a"), bad};
  EXPECT_THROW(inbox().accept(batch), std::invalid_argument);
  EXPECT_EQ(count_messages(), "0");
}

TEST_P(AcceptBatch, of_nothing_does_nothing) {
  EXPECT_TRUE(inbox().accept(std::vector<Arrival>{}).empty());
  EXPECT_TRUE(log().events("accept").empty());
  database().in_transaction([&](Session& session) {
    EXPECT_TRUE(inbox().accept(session, std::vector<Arrival>{}).empty());
  });
}

TEST_P(AcceptBatch, leaves_nothing_behind_when_the_callers_transaction_is_rolled_back) {
  inbox().accept(an_arrival("known"));
  const std::vector<Arrival> batch{an_arrival("new"), an_arrival("known"), with_key("keyed", "k")};
  EXPECT_THROW(database().in_transaction([&](Session& session) {
    EXPECT_EQ(inbox().accept(session, batch).size(), 3u);
    throw std::runtime_error("rolled back");
  }),
               std::runtime_error);
  EXPECT_EQ(count_messages(), "1");
  EXPECT_EQ(detail(a_key("known")).message.content_version, 1);
}

TWINBOX_ON_EVERY_BACKEND(AcceptBatch);

class AcceptAndClaim : public InboxTest {};

TEST_P(AcceptAndClaim, IBX_036_leases_a_new_message_to_the_caller) {
  inbox().accept(an_arrival("earlier"));
  const auto result = inbox().accept_and_claim(an_arrival(), worker_a, 30s);
  EXPECT_EQ(result.accepted.state, Acceptance::accepted);
  ASSERT_EQ(result.messages.size(), 1u);
  EXPECT_EQ(result.messages[0].key(), a_key());
  EXPECT_EQ(result.messages[0].payload, payload());
  EXPECT_EQ(result.messages[0].lease_until, clock().now() + 30s);
  EXPECT_EQ(inbox().ack(worker_a, result.messages), 1u);
  EXPECT_TRUE(inbox().has_processed(a_key()));
}

TEST_P(AcceptAndClaim, leases_what_an_earlier_arrival_left_open) {
  inbox().accept(an_arrival());
  const auto result = inbox().accept_and_claim(an_arrival(), worker_a, 30s);
  EXPECT_EQ(result.accepted.state, Acceptance::duplicate_open);
  EXPECT_EQ(result.messages.size(), 1u);
}

TEST_P(AcceptAndClaim, IBX_033_IBX_038_gives_nothing_that_is_held_finished_or_not_due) {
  std::ignore = inbox().accept_and_claim(an_arrival("held"), worker_b, 30s);
  EXPECT_TRUE(inbox().accept_and_claim(an_arrival("held"), worker_a, 30s).messages.empty());
  make_done(an_arrival("done"));
  EXPECT_TRUE(inbox().accept_and_claim(an_arrival("done"), worker_a, 30s).messages.empty());
  make_dead(an_arrival("dead"));
  EXPECT_TRUE(inbox().accept_and_claim(an_arrival("dead"), worker_a, 30s).messages.empty());
  Arrival later = an_arrival("later");
  later.extras.due_at = clock().now() + 1s;
  EXPECT_TRUE(inbox().accept_and_claim(later, worker_a, 30s).messages.empty());
  Arrival expired = an_arrival("expired");
  expired.extras.expires_at = clock().now();
  EXPECT_TRUE(inbox().accept_and_claim(expired, worker_a, 30s).messages.empty());
}

TEST_P(AcceptBatch, accept_and_claim_leases_nothing_that_keeps_other_content) {
  inbox().accept(an_arrival());
  Arrival other = an_arrival();
  other.topic = Topic{"other"};
  other.on_duplicate = OnDuplicate::keep_first;
  for (const bool in_transaction : {false, true}) {
    const auto result = in_transaction ? database().in_transaction([&](Session& session) {
      return inbox().accept_and_claim(session, other, worker_a, 30s);
    })
                                       : inbox().accept_and_claim(other, worker_a, 30s);
    EXPECT_TRUE(result.accepted.conflict);
    EXPECT_TRUE(result.messages.empty());
  }
  EXPECT_FALSE(delivery().lease_until);
  const auto claimed = inbox().claim(worker_b, 30s, 1);
  ASSERT_EQ(claimed.size(), 1u);
  EXPECT_EQ(claimed[0].epoch, 1);
}

TEST_P(AcceptAndClaim, takes_over_an_expired_lease_and_counts_the_expiry) {
  const auto lost = inbox().accept_and_claim(an_arrival(), worker_b, 30s);
  clock().advance(30s);
  const auto result = inbox().accept_and_claim(an_arrival(), worker_a, 30s);
  ASSERT_EQ(result.messages.size(), 1u);
  EXPECT_EQ(result.messages[0].expiries, 1);
  EXPECT_EQ(inbox().ack(worker_b, lost.messages), 0u);
  EXPECT_EQ(inbox().ack(worker_a, result.messages), 1u);
}

TEST_P(AcceptAndClaim, makes_a_message_dead_that_has_taken_down_too_many_workers) {
  BoxOptions strict = options();
  strict.max_expiries = 2;
  Inbox inbox(database(), strict);
  for (int crash = 0; crash < 2; ++crash) {
    ASSERT_EQ(inbox.accept_and_claim(an_arrival(), worker_a, 30s).messages.size(), 1u);
    clock().advance(30s);
  }
  EXPECT_TRUE(inbox.accept_and_claim(an_arrival(), worker_a, 30s).messages.empty());
  EXPECT_EQ(inbox.state(a_key()), MessageState::dead);
  EXPECT_EQ(delivery().reason, "crash_loop");
  EXPECT_EQ(delivery().attempts, 0);
}

TEST_P(AcceptAndClaim, leases_a_delivery_for_each_handler) {
  const std::vector<HandlerName> handlers{{HandlerKey{"mail"}}, {HandlerKey{"ledger"}}};
  const auto result = inbox().accept_and_claim(an_arrival(), worker_a, 30s, handlers);
  EXPECT_EQ(result.messages.size(), 2u);
  EXPECT_TRUE(inbox().claim(worker_b, 30s, 10).empty());
}

TEST_P(AcceptAndClaim, IBX_040_refuses_a_lease_of_zero_or_less_and_writes_nothing) {
  inbox();
  EXPECT_THROW(std::ignore = inbox().accept_and_claim(an_arrival(), worker_a, 0s),
               std::out_of_range);
  EXPECT_THROW(std::ignore = inbox().accept_and_claim(an_arrival(), worker_a, -1s),
               std::out_of_range);
  EXPECT_EQ(count_messages(), "0");
}

TEST_P(AcceptAndClaim, leaves_nothing_behind_when_the_callers_transaction_is_rolled_back) {
  inbox();
  EXPECT_THROW(database().in_transaction([&](Session& session) {
    EXPECT_EQ(inbox().accept_and_claim(session, an_arrival(), worker_a, 30s).messages.size(), 1u);
    throw std::runtime_error("rolled back");
  }),
               std::runtime_error);
  EXPECT_EQ(count_messages(), "0");
}

TEST_P(AcceptAndClaim, IBX_106_gives_a_message_to_one_of_many_callers) {
  constexpr int callers = 6;
  for (int i = 0; i < callers; ++i) other_inbox(static_cast<std::size_t>(i));
  for (int round = 0; round < 10; ++round) {
    std::atomic<int> leased = 0;
    race(callers, [&](int caller) {
      const auto result = other_inbox(static_cast<std::size_t>(caller))
                              .accept_and_claim(an_arrival("evt_" + std::to_string(round)),
                                                OwnerToken::make({}), 30s);
      leased += static_cast<int>(result.messages.size());
    });
    EXPECT_EQ(leased, 1) << "round " << round;
  }
}

TWINBOX_ON_EVERY_BACKEND(AcceptAndClaim);

}  // namespace
}  // namespace twinbox::test
