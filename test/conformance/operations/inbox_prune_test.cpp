// What is finished and old enough may go; nothing else does.
#include <tuple>

#include "support/inbox_test.hpp"

namespace twinbox::test {
namespace {

class InboxPrune : public InboxTest {
 protected:
  std::string rows(const std::string& table) {
    return read("select count(*) from {schema}inbox_" + table);
  }
};

TEST_P(InboxPrune, IBX_098_deletes_old_done_messages_with_all_that_belongs_to_them) {
  const auto held = inbox().accept_and_claim(an_arrival(), worker_a, 30s).messages;
  inbox().abandon(worker_a, held, "busy");
  clock().advance(1min);
  inbox().ack(worker_a, inbox().claim(worker_a, 30s, 1));
  clock().advance(31 * 24h);
  EXPECT_EQ(inbox().prune({.older_than = 30 * 24h}), 1u);
  for (const char* table : {"message", "work", "outcome", "failure"}) {
    EXPECT_EQ(rows(table), "0") << table;
  }
  EXPECT_EQ(inbox().accept(an_arrival()).state, Acceptance::accepted);
}

TEST_P(InboxPrune, IBX_099_never_deletes_seen_open_or_dead_messages) {
  std::ignore = inbox().already_processed(a_key("seen"));
  std::ignore = inbox().accept_and_claim(an_arrival("leased"), worker_a, 30s);
  make_dead(an_arrival("dead"));
  inbox().accept(an_arrival("open"));
  Arrival later = an_arrival("later");
  later.extras.due_at = clock().now() + 24h * 3000;
  inbox().accept(later);
  clock().advance(24h * 1000);
  EXPECT_EQ(inbox().prune({.older_than = 0s}), 0u);
  EXPECT_EQ(rows("message"), "5");
}

TEST_P(InboxPrune, IBX_099_never_deletes_what_its_caller_is_still_processing) {
  std::ignore = inbox().already_processed(a_key("processing"));
  ASSERT_TRUE(inbox().mark_processing(a_key("processing")));
  clock().advance(24h * 1000);
  const PruneOptions everything{.older_than = 0s, .include_dead = true, .include_seen = true};
  EXPECT_EQ(inbox().prune(everything), 0u);
  EXPECT_FALSE(inbox().mark_processing(a_key("processing"))) << "a second caller would get it";
  EXPECT_EQ(inbox().state(a_key("processing")), MessageState::open);
  EXPECT_TRUE(inbox().mark_processed(a_key("processing")));
  clock().advance(1s);
  EXPECT_EQ(inbox().prune(everything), 1u);
}

TEST_P(InboxPrune, IBX_099_deletes_dead_and_seen_messages_only_when_it_is_asked_to) {
  std::ignore = inbox().already_processed(a_key("seen"));
  make_dead(an_arrival("dead"));
  inbox().accept(an_arrival("open"));
  clock().advance(1h);
  EXPECT_EQ(inbox().prune({.older_than = 1h, .include_dead = true}), 1u);
  EXPECT_EQ(inbox().state(a_key("dead")), std::nullopt);
  EXPECT_EQ(inbox().prune({.older_than = 1h, .include_seen = true}), 1u);
  EXPECT_EQ(inbox().state(a_key("seen")), std::nullopt);
  EXPECT_EQ(inbox().prune({.older_than = 0s, .include_dead = true, .include_seen = true}), 0u);
  EXPECT_EQ(inbox().state(a_key("open")), MessageState::open);
}

TEST_P(InboxPrune, keeps_a_seen_message_that_was_seen_again) {
  std::ignore = inbox().already_processed(a_key());
  clock().advance(50min);
  std::ignore = inbox().already_processed(a_key());
  clock().advance(50min);
  EXPECT_EQ(inbox().prune({.older_than = 1h, .include_seen = true}), 0u);
  clock().advance(10min);
  EXPECT_EQ(inbox().prune({.older_than = 1h, .include_seen = true}), 1u);
}

TEST_P(InboxPrune, IBX_100_respects_the_retention_to_the_second) {
  make_done(an_arrival("done"));
  std::ignore = inbox().try_claim(a_key("marked"), Topic{"payment.received"});
  clock().advance(7 * 24h - 1s);
  EXPECT_EQ(inbox().prune({.older_than = 7 * 24h}), 0u);
  clock().advance(1s);
  EXPECT_EQ(inbox().prune({.older_than = 7 * 24h}), 2u);
}

TEST_P(InboxPrune, IBX_100_counts_from_the_end_of_the_work_not_from_the_arrival) {
  inbox().accept(an_arrival());
  clock().advance(1h);
  inbox().ack(worker_a, inbox().claim(worker_a, 30s, 1));
  clock().advance(1h - 1s);
  EXPECT_EQ(inbox().prune({.older_than = 1h}), 0u);
  clock().advance(1s);
  EXPECT_EQ(inbox().prune({.older_than = 1h}), 1u);
}

TEST_P(InboxPrune, IBX_100_refuses_a_retention_below_zero) {
  EXPECT_THROW(inbox().prune({.older_than = -1s}), std::out_of_range);
  EXPECT_THROW(inbox().prune({.older_than = 1s, .batch = 0}), std::out_of_range);
  EXPECT_THROW(inbox().prune({.older_than = 1s, .limit = 0}), std::out_of_range);
}

TEST_P(InboxPrune, IBX_100_keeps_everything_when_the_retention_is_for_ever) {
  inbox().mark_processed(an_arrival());
  clock().advance(365 * 24h);
  EXPECT_EQ(inbox().prune({.older_than = Duration::max()}), 0u);
  EXPECT_EQ(inbox().prune({.older_than = Duration::max(), .include_seen = true}), 0u);
  EXPECT_EQ(inbox().prune({.older_than = 24h}), 1u);
}

TEST_P(InboxPrune, IBX_101_works_in_batches_of_a_transaction_each) {
  int picks = 0;
  Environment told = environment();
  told.timing = [&](std::string_view name, auto, std::size_t rows) {
    if (name != "prune") return;
    ++picks;
    EXPECT_LE(rows, 3u);
  };
  Database database(test_store().address(), {}, told);
  Inbox inbox(database, options());
  for (int i = 0; i < 10; ++i) {
    const auto held =
        inbox.accept_and_claim(an_arrival("evt_" + std::to_string(i)), worker_a, 30s).messages;
    inbox.ack(worker_a, held);
  }
  EXPECT_EQ(inbox.prune({.older_than = 0s, .batch = 3, .limit = 8}), 8u);
  EXPECT_EQ(picks, 3);
  EXPECT_EQ(inbox.prune({.older_than = 0s, .batch = 3}), 2u);
}

TEST_P(InboxPrune, deletes_whole_messages_only) {
  const std::vector<HandlerName> handlers{{HandlerKey{"mail"}}, {HandlerKey{"ledger"}}};
  inbox().accept(an_arrival(), handlers);
  inbox().ack(worker_a, inbox().claim(worker_a, 30s, 1));
  clock().advance(24h);
  EXPECT_EQ(inbox().prune({.older_than = 1h}), 0u);
  EXPECT_EQ(rows("outcome"), "1");
  inbox().ack(worker_a, inbox().claim(worker_a, 30s, 1));
  EXPECT_EQ(inbox().prune({.older_than = 1h}), 0u);
  EXPECT_EQ(rows("outcome"), "2");
  clock().advance(1h);
  EXPECT_EQ(inbox().prune({.older_than = 1h}), 1u);
  EXPECT_EQ(rows("outcome"), "0");
}

TEST_P(InboxPrune, deletes_what_is_old_behind_what_must_stay) {
  make_dead(an_arrival("dead"));
  make_done(an_arrival("done"));
  inbox().accept(an_arrival("open"));
  make_done(an_arrival("done too"));
  clock().advance(1h);
  EXPECT_EQ(inbox().prune({.older_than = 1h, .batch = 1}), 2u);
  EXPECT_EQ(rows("message"), "2");
}

TEST_P(InboxPrune, takes_a_rolled_back_batch_back) {
  make_done();
  clock().advance(1h);
  EXPECT_THROW(database().in_transaction([&](Session& session) {
    EXPECT_EQ(inbox().prune(session, {.older_than = 1h}), 1u);
    throw std::runtime_error("rolled back");
  }),
               std::runtime_error);
  EXPECT_TRUE(inbox().has_processed(a_key()));
}

TWINBOX_ON_EVERY_BACKEND(InboxPrune);

}  // namespace
}  // namespace twinbox::test
