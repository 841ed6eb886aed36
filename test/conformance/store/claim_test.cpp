// Claiming: who gets what, and when.
#include <set>
#include <thread>
#include <tuple>

#include "support/outbox_test.hpp"

namespace twinbox::test {
namespace {

class Claim : public OutboxTest {};

TEST_P(Claim, OBX_017_gives_every_message_to_exactly_one_of_many_workers) {
  REQUIREMENT("OBX-081, OBX-084");
  constexpr std::size_t messages = 300;
  outbox().enqueue(std::vector<NewMessage>(messages, a_message()));
  ASSERT_EQ(rows("work"), static_cast<std::int64_t>(messages));
  std::array<std::vector<DeliveryId>, 4> taken;
  {
    std::vector<std::jthread> workers;
    for (auto& mine : taken) {
      workers.emplace_back([this, &mine] {
        const OwnerToken me = OwnerToken::make({});
        for (;;) {
          const auto batch = outbox().claim(me, 30s, 7);
          if (batch.empty()) return;
          const auto ids = ids_of(batch);
          mine.insert(mine.end(), ids.begin(), ids.end());
        }
      });
    }
  }
  std::set<DeliveryId> unique;
  std::size_t claims = 0;
  for (const auto& mine : taken) {
    claims += mine.size();
    unique.insert(mine.begin(), mine.end());
  }
  EXPECT_EQ(claims, messages);
  EXPECT_EQ(unique.size(), messages);
}

TEST_P(Claim, OBX_018_takes_a_message_from_the_instant_it_is_due) {
  NewMessage message = a_message();
  message.extras.due_at = clock().now() + 1s;
  outbox().enqueue(message);
  EXPECT_TRUE(outbox().claim(worker_a, 30s, 10).empty());
  clock().advance(1s);
  EXPECT_EQ(outbox().claim(worker_a, 30s, 10).size(), 1u);
}

TEST_P(Claim, OBX_019_passes_over_a_message_another_worker_has_leased) {
  outbox().enqueue(a_message());
  ASSERT_EQ(outbox().claim(worker_a, 30s, 10).size(), 1u);
  EXPECT_TRUE(outbox().claim(worker_b, 30s, 10).empty());
  clock().advance(31s);
  EXPECT_EQ(outbox().claim(worker_b, 30s, 10).size(), 1u);
}

TEST_P(Claim, OBX_019_passes_over_a_message_that_the_worker_itself_holds) {
  enqueue_and_claim(worker_a, 30s);
  clock().advance(30s - 1us);
  EXPECT_TRUE(outbox().claim(worker_a, 30s, 10).empty());
  clock().advance(1us);
  EXPECT_EQ(outbox().claim(worker_a, 30s, 10).size(), 1u);
}

TEST_P(Claim, OBX_020_leases_for_the_time_it_was_told) {
  const Message message = enqueue_and_claim(worker_a, 45s);
  EXPECT_EQ(message.lease_until, clock().now() + 45s);
  EXPECT_EQ(shown_time("LockedUntil"), clock().now() + 45s);
}

TEST_P(Claim, OBX_021_notes_the_owner) {
  enqueue_and_claim(worker_a);
  EXPECT_EQ(shown_owner("OwnerToken"), worker_a);
  EXPECT_EQ(shown("Status"), "1");
}

TEST_P(Claim, OBX_022_returns_everything_it_has_leased) {
  std::vector<NewMessage> batch(20, a_message());
  outbox().enqueue(batch);
  const auto messages = outbox().claim(worker_a, 30s, 50);
  EXPECT_EQ(messages.size(), 20u);
  EXPECT_EQ(count("select count(*) from {schema}outbox where Status = 1"), 20);
  EXPECT_EQ(outbox().ack(worker_a, ids_of(messages)), 20u);
}

TEST_P(Claim, OBX_023_returns_nothing_when_nothing_is_ready) {
  EXPECT_TRUE(outbox().claim(worker_a, 30s, 10).empty());
}

TEST_P(Claim, OBX_024_never_takes_a_finished_message) {
  const Message message = enqueue_and_claim(worker_a);
  ASSERT_EQ(outbox().ack(worker_a, message), 1u);
  clock().advance(24h);
  EXPECT_TRUE(outbox().claim(worker_b, 30s, 10).empty());
}

TEST_P(Claim, OBX_025_never_takes_a_dead_message) {
  const Message message = enqueue_and_claim(worker_a);
  ASSERT_EQ(outbox().fail(worker_a, message, "no such customer"), 1u);
  clock().advance(24h);
  EXPECT_TRUE(outbox().claim(worker_b, 30s, 10).empty());
}

TEST_P(Claim, OBX_026_takes_no_more_than_the_limit) {
  outbox().enqueue(std::vector<NewMessage>(10, a_message()));
  EXPECT_EQ(outbox().claim(worker_a, 30s, 4).size(), 4u);
  EXPECT_EQ(outbox().claim(worker_a, 30s, 4).size(), 4u);
  EXPECT_EQ(outbox().claim(worker_a, 30s, 4).size(), 2u);
}

TEST_P(Claim, OBX_027_refuses_a_lease_that_is_not_above_zero_before_it_asks_the_database) {
  outbox().enqueue(a_message());
  rename_table("outbox_work", "work_elsewhere");
  EXPECT_THROW(std::ignore = outbox().claim(worker_a, 0s, 10), std::out_of_range);
  EXPECT_THROW(std::ignore = outbox().claim(worker_a, -1us, 10), std::out_of_range);
  EXPECT_THROW(std::ignore = outbox().claim(worker_a, Duration::max(), 10), std::out_of_range);
  EXPECT_THROW(std::ignore = outbox().renew(worker_a, DeliveryId{1}, 0s), std::out_of_range);
  EXPECT_THROW(std::ignore = outbox().claim(worker_a, 30s, 10), DatabaseError);
}

TEST_P(Claim, OBX_028_refuses_a_limit_that_is_not_above_zero_before_it_asks_the_database) {
  outbox().enqueue(a_message());
  rename_table("outbox_work", "work_elsewhere");
  EXPECT_THROW(std::ignore = outbox().claim(worker_a, 30s, 0), std::out_of_range);
  EXPECT_THROW(std::ignore = outbox().claim(worker_a, 30s, -1), std::out_of_range);
  EXPECT_THROW(std::ignore = outbox().claim(worker_a, 30s, INT64_MAX), std::out_of_range);
}

TEST_P(Claim, refuses_wrong_arguments_before_it_asks_for_a_connection) {
  REQUIREMENT("OBX-027, OBX-028");
  Database one_connection(test_store().address(), {.pool_size = 1}, environment());
  Outbox outbox(one_connection, options());
  one_connection.in_transaction([&](Session&) {
    EXPECT_THROW(std::ignore = outbox.claim(worker_a, 0s, 10), std::out_of_range);
    EXPECT_THROW(std::ignore = outbox.claim(worker_a, 30s, 0), std::out_of_range);
    EXPECT_THROW(std::ignore = outbox.renew(worker_a, DeliveryId{1}, 0s), std::out_of_range);
    EXPECT_THROW(outbox.abandon(worker_a, DeliveryId{1}, "", 0s), std::out_of_range);
    EXPECT_THROW(outbox.reap(0), std::out_of_range);
    EXPECT_THROW(outbox.expire(-1), std::out_of_range);
    EXPECT_THROW(outbox.prune({.older_than = -1s}), std::out_of_range);
    EXPECT_THROW(std::ignore = outbox.claim(worker_a, 30s, 10), UsageError);
  });
}

TEST_P(Claim, OBX_029_takes_a_failed_message_from_the_instant_of_its_next_attempt) {
  const Message message = enqueue_and_claim(worker_a);
  ASSERT_EQ(outbox().abandon(worker_a, message, "timeout", 10s), 1u);
  EXPECT_EQ(shown_time("NextAttemptAt"), clock().now() + 10s);
  clock().advance(10s - 1us);
  EXPECT_TRUE(outbox().claim(worker_a, 30s, 10).empty());
  clock().advance(1us);
  EXPECT_EQ(outbox().claim(worker_a, 30s, 10).size(), 1u);
}

TEST_P(Claim, hands_the_oldest_out_first) {
  for (const char* topic : {"a", "b", "c"}) {
    outbox().enqueue(a_message(topic));
    clock().advance(1s);
  }
  EXPECT_EQ(topics_of(outbox().claim(worker_a, 30s, 2)), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(topics_of(outbox().claim(worker_a, 30s, 2)), (std::vector<std::string>{"c"}));
}

TEST_P(Claim, passes_over_what_became_visible_before_a_given_instant) {
  outbox().enqueue(a_message("old"));
  clock().advance(1min);
  const Instant since = clock().now();
  outbox().enqueue(a_message("new"));
  EXPECT_EQ(topics_of(outbox().claim(worker_a, 30s, 10, since)), (std::vector<std::string>{"new"}));
  EXPECT_EQ(topics_of(outbox().claim(worker_a, 30s, 10)), (std::vector<std::string>{"old"}));
}

TEST_P(Claim, counts_an_epoch_with_every_claim) {
  outbox().enqueue(a_message());
  for (int epoch = 1; epoch <= 3; ++epoch) {
    const auto messages = outbox().claim(worker_a, 30s, 10);
    ASSERT_EQ(messages.size(), 1u);
    EXPECT_EQ(messages[0].epoch, epoch);
    EXPECT_EQ(messages[0].expiries, 0);
    ASSERT_EQ(outbox().release(worker_a, messages), 1u);
  }
}

// Rows that moved lie in another order than they came in.
TEST_P(Claim, hands_out_the_first_alone_of_those_whose_worker_died_and_that_came_due_together) {
  std::vector<NewMessage> messages{a_message("first"), a_message("second")};
  messages[0].id = MessageId{"z"};
  messages[1].id = MessageId{"a"};
  for (const NewMessage& message : messages) outbox().enqueue(message);
  ASSERT_EQ(outbox().claim(worker_a, 30s, 2).size(), 2u);
  clock().advance(31s);
  outbox().enqueue(messages);
  EXPECT_EQ(topics_of(outbox().claim(worker_b, 30s, 2)), (std::vector<std::string>{"first"}));
  EXPECT_EQ(topics_of(outbox().claim(worker_b, 30s, 2)), (std::vector<std::string>{"second"}));
}

TEST_P(Claim, OBX_097_warns_once_about_a_lease_outside_the_recommended_range_and_takes_it) {
  outbox().enqueue(a_message());
  std::ignore = outbox().claim(worker_a, 10s, 1);
  std::ignore = outbox().claim(worker_a, 300s, 1);
  EXPECT_TRUE(log().events("unusual_lease").empty());
  clock().advance(1h);
  EXPECT_EQ(outbox().claim(worker_a, 9s, 1).size(), 1u);
  std::ignore = outbox().claim(worker_a, 301s, 1);
  ASSERT_EQ(log().events("unusual_lease").size(), 1u);
  EXPECT_EQ(log().events("unusual_lease")[0].level, LogLevel::warning);
}

TEST_P(Claim, OBX_098_warns_once_about_a_batch_outside_the_recommended_range_and_takes_it) {
  outbox().enqueue(std::vector<NewMessage>(102, a_message()));
  EXPECT_EQ(outbox().claim(worker_a, 30s, 1).size(), 1u);
  std::ignore = outbox().claim(worker_a, 30s, 100);
  EXPECT_TRUE(log().events("unusual_batch").empty());
  EXPECT_EQ(outbox().claim(worker_a, 30s, 101).size(), 1u);
  std::ignore = outbox().claim(worker_a, 30s, 500);
  ASSERT_EQ(log().events("unusual_batch").size(), 1u);
  EXPECT_EQ(log().events("unusual_batch")[0].level, LogLevel::warning);
}

TWINBOX_ON_EVERY_BACKEND(Claim);

class SharedStore : public OutboxTest {};

TEST_P(SharedStore, OBX_083_several_programs_work_on_one_outbox) {
  Database other_database(test_store().address(), {}, environment());
  outbox();
  Outbox other(other_database, options());
  outbox().enqueue(std::vector<NewMessage>(3, a_message()));
  const auto mine = outbox().claim(worker_a, 30s, 2);
  const auto theirs = other.claim(worker_b, 30s, 2);
  EXPECT_EQ(mine.size(), 2u);
  EXPECT_EQ(theirs.size(), 1u);
  EXPECT_EQ(other.ack(worker_b, theirs), 1u);
  EXPECT_EQ(other.ack(worker_a, mine), 2u);
  EXPECT_EQ(rows("work"), 0);
}

TWINBOX_ON_BACKENDS(SharedStore, Backend::sqlite_file, Backend::postgres, Backend::sqlserver);

}  // namespace
}  // namespace twinbox::test
