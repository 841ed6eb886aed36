// Acts with an id: asked for again, cut off and gone on with, followed, written down.
#include <set>
#include <tuple>

#include "support/backend.hpp"
#include <twinbox/operations.hpp>

namespace twinbox::test {
namespace {

class OperationOf : public BoxTest {
 protected:
  Admin admin() { return Admin{outbox()}; }

  void make_dead(int count, const std::string& error = "boom",
                 const std::string& topic = "order.placed") {
    for (int i = 0; i < count; ++i) outbox().enqueue(a_message(topic));
    const auto held = outbox().claim(worker_a, 30s, count);
    ASSERT_EQ(outbox().fail(worker_a, held, error), static_cast<std::size_t>(count));
  }
  std::vector<DeliveryKey> keys_of(StateFilter state) {
    std::vector<DeliveryKey> keys;
    for (const DeliveryEntry& entry : admin().list({.state = state}, 1000).entries)
      keys.push_back(entry.delivery.key);
    return keys;
  }
  StateCounts counts() { return admin().counts().all; }
  /// Stops after the first batch.
  static Operation cut_off(Operation operation) {
    operation.on_progress = [](std::size_t) { return false; };
    return operation;
  }
};

const Operation five{.actor = "mia", .reason = "mended", .batch = 2, .operation_id = "op-1"};

TEST_P(OperationOf, the_same_operation_again_answers_the_same_and_does_nothing) {
  make_dead(5);
  EXPECT_EQ(admin().requeue(Filter{}, {}, five), 5u);
  make_dead(1);
  EXPECT_EQ(admin().requeue(Filter{}, {}, five), 5u);
  EXPECT_EQ(counts().dead, 1);
  EXPECT_EQ(read("select count(*) from {schema}outbox_audit"), "1");
}

TEST_P(OperationOf, one_that_changed_nothing_is_remembered_as_well) {
  EXPECT_EQ(admin().requeue(Filter{}, {}, five), 0u);
  make_dead(1);
  EXPECT_EQ(admin().requeue(Filter{}, {}, five), 0u);
  EXPECT_EQ(counts().dead, 1);
}

TEST_P(OperationOf, cut_off_it_goes_on_where_it_stopped) {
  make_dead(5);
  EXPECT_EQ(admin().requeue(Filter{}, {}, cut_off(five)), 2u);
  const auto half = admin().operation("op-1");
  ASSERT_TRUE(half);
  EXPECT_FALSE(half->finished);
  EXPECT_EQ(half->affected, 2);
  clock().advance(1min);
  EXPECT_EQ(admin().requeue(Filter{}, {}, five), 5u);
  const auto whole = admin().operation("op-1");
  ASSERT_TRUE(whole);
  EXPECT_TRUE(whole->finished);
  EXPECT_EQ(whole->affected, 5);
  EXPECT_EQ(whole->actor, "mia");
  EXPECT_EQ(whole->reason, "mended");
  EXPECT_EQ(whole->action, "requeue");
  EXPECT_EQ(whole->at - whole->started_at, Duration{1min});
  EXPECT_EQ(counts().ready, 5);
}

TEST_P(OperationOf, what_died_after_it_had_begun_is_none_of_its) {
  make_dead(6);
  ASSERT_EQ(admin().requeue(Filter{}, {}, cut_off(five)), 2u);
  clock().advance(1s);
  // The oldest one is sent again by somebody else, and dies a second time.
  const std::vector<DeliveryKey> dead = keys_of(StateFilter::dead);
  ASSERT_EQ(dead.size(), 4u);
  ASSERT_EQ(admin().requeue(std::span{&dead.back(), 1}), 1u);
  auto held = outbox().claim(worker_a, 30s, 10);
  ASSERT_EQ(outbox().fail(worker_a, held, "again"), 3u);
  EXPECT_EQ(admin().requeue(Filter{}, {}, five), 5u);
  EXPECT_EQ(counts().dead, 3);
  EXPECT_EQ(counts().ready, 3);
}

TEST_P(OperationOf, named_deliveries_are_each_changed_once) {
  make_dead(5);
  const std::vector<DeliveryKey> keys = keys_of(StateFilter::dead);
  EXPECT_EQ(admin().requeue(keys, {}, cut_off(five)), 2u);
  outbox().fail(worker_a, outbox().claim(worker_a, 30s, 10), "again");
  std::vector<DeliveryKey> reversed(keys.rbegin(), keys.rend());
  EXPECT_EQ(admin().requeue(reversed, {}, five), 5u);
  EXPECT_EQ(counts().ready, 3);
  EXPECT_EQ(counts().dead, 2);
}

TEST_P(OperationOf, another_operation_under_the_id_is_refused) {
  make_dead(2);
  ASSERT_EQ(admin().requeue(Filter{.topic = Topic{"other"}}, {}, five), 0u);
  EXPECT_THROW(admin().requeue(Filter{}, {}, five), UsageError);
  EXPECT_THROW(admin().requeue(Filter{.topic = Topic{"other"}}, 5s, five), UsageError);
  EXPECT_THROW(admin().discard(Filter{.state = StateFilter::dead}, five), UsageError);
  EXPECT_THROW(admin().requeue(keys_of(StateFilter::dead), {}, five), UsageError);
  EXPECT_THROW(admin().edit(1, {.payload = payload("x")}, five), UsageError);
  Operation by_leo = five;
  by_leo.actor = "leo";
  EXPECT_EQ(admin().requeue(Filter{.topic = Topic{"other"}}, {}, by_leo), 0u);
  by_leo.reason = "another";
  EXPECT_THROW(admin().requeue(Filter{.topic = Topic{"other"}}, {}, by_leo), UsageError);
  EXPECT_EQ(counts().dead, 2);
  EXPECT_FALSE(admin().operation("op-2"));
  EXPECT_THROW(admin().requeue(Filter{}, {}, {.operation_id = std::string(201, 'x')}),
               std::invalid_argument);
}

TEST_P(OperationOf, a_limit_counts_over_all_of_it) {
  make_dead(6);
  Operation three = five;
  three.limit = 3;
  EXPECT_EQ(admin().requeue(Filter{}, {}, cut_off(three)), 2u);
  EXPECT_EQ(admin().requeue(Filter{}, {}, three), 3u);
  EXPECT_EQ(admin().requeue(Filter{}, {}, three), 3u);
  EXPECT_EQ(counts().dead, 3);
}

TEST_P(OperationOf, tells_how_far_it_has_come) {
  make_dead(5);
  std::vector<std::size_t> told;
  Operation operation = five;
  operation.on_progress = [&](std::size_t changed) {
    told.push_back(changed);
    return true;
  };
  EXPECT_EQ(admin().discard(Filter{.state = StateFilter::dead}, operation), 5u);
  EXPECT_EQ(told, (std::vector<std::size_t>{2, 4, 5}));
}

TEST_P(OperationOf, a_group_is_discarded_once) {
  make_dead(1, "other");
  make_dead(3, "order 'a' unknown");
  const auto groups = admin().dead_groups().groups;
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(admin().discard(groups[0], cut_off(five)), 2u);
  EXPECT_EQ(admin().discard(groups[0], five), 3u);
  EXPECT_THROW(admin().discard(groups[1], five), UsageError);
  EXPECT_EQ(counts().dead, 1);
}

TEST_P(OperationOf, prune_goes_on_as_well) {
  for (int i = 0; i < 5; ++i) outbox().enqueue(a_message());
  outbox().ack(worker_a, outbox().claim(worker_a, 30s, 10));
  EXPECT_EQ(admin().prune(Filter{}, cut_off(five)), 2u);
  outbox().enqueue(a_message());
  outbox().ack(worker_a, outbox().claim(worker_a, 30s, 10));
  EXPECT_EQ(admin().prune(Filter{}, five), 5u);
  EXPECT_EQ(admin().counts(true).all.done, 1);
  std::vector<std::int64_t> numbers{keys_of(StateFilter::done).at(0).number};
  Operation other = five;
  other.operation_id = "op-2";
  EXPECT_EQ(admin().prune(numbers, other), 1u);
  EXPECT_EQ(admin().prune(numbers, other), 1u);
}

TEST_P(OperationOf, operations_of_a_callers_transaction_have_an_id_too) {
  make_dead(3);
  const std::vector<DeliveryKey> keys = keys_of(StateFilter::dead);
  const auto requeue = [&](Session& session) { return admin().requeue(session, keys, {}, five); };
  EXPECT_THROW(database().in_transaction([&](Session& session) {
    EXPECT_EQ(requeue(session), 3u);
    throw std::runtime_error("no");
  }),
               std::runtime_error);
  EXPECT_FALSE(admin().operation("op-1"));
  database().in_transaction([&](Session& session) { EXPECT_EQ(requeue(session), 3u); });
  database().in_transaction([&](Session& session) { EXPECT_EQ(requeue(session), 3u); });
  EXPECT_EQ(admin().requeue(keys, {}, five), 3u);
  EXPECT_EQ(counts().ready, 3);
}

TEST_P(OperationOf, a_dry_run_takes_no_id) {
  make_dead(2);
  Operation dry = five;
  dry.dry_run = true;
  EXPECT_EQ(admin().requeue(Filter{}, {}, dry), 2u);
  EXPECT_FALSE(admin().operation("op-1"));
  EXPECT_EQ(admin().requeue(Filter{}, {}, five), 2u);
}

TEST_P(OperationOf, edit_needs_the_version_that_was_read) {
  make_dead(1);
  const std::int64_t number = keys_of(StateFilter::dead).at(0).number;
  const Admin::Edit change{.payload = payload("better"), .content_version = 1};
  const auto first = admin().edit(number, change, five);
  EXPECT_TRUE(first.changed);
  EXPECT_EQ(first.content_version, 2);
  Operation other = five;
  other.operation_id = "op-2";
  const auto late = admin().edit(number, change, other);
  EXPECT_FALSE(late.changed);
  EXPECT_EQ(late.content_version, 2);
  const auto again = admin().edit(number, change, five);
  EXPECT_TRUE(again.changed);
  EXPECT_EQ(again.content_version, 2);
  EXPECT_FALSE(admin().edit(999, change).content_version);
  EXPECT_EQ(admin().operation("op-1")->number, number);
}

TEST_P(OperationOf, edit_and_requeue_are_one_transaction) {
  make_dead(1);
  const std::int64_t number = keys_of(StateFilter::dead).at(0).number;
  const Admin::Edit change{.payload = payload("better"), .content_version = 7, .requeue = true};
  EXPECT_FALSE(admin().edit(number, change, five));
  EXPECT_EQ(counts().dead, 1);
  Operation other = five;
  other.operation_id = "op-2";
  EXPECT_TRUE(admin().edit(number, {.payload = payload("better"), .requeue = true}, other));
  const auto held = outbox().claim(worker_a, 30s, 10);
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held[0].payload, payload("better"));
  std::multiset<std::string> actions;
  for (const AuditEntry& entry : admin().audit().entries) actions.insert(entry.action);
  EXPECT_EQ(actions, (std::multiset<std::string>{"edit", "edit", "requeue"}));
}

TEST_P(OperationOf, the_audit_is_read_page_by_page_newest_first) {
  for (int i = 0; i < 5; ++i) {
    make_dead(1);
    clock().advance(1s);
    admin().requeue(Filter{}, {}, {.actor = "actor " + std::to_string(i)});
  }
  std::vector<std::string> actors;
  std::optional<std::int64_t> after;
  do {
    const AuditPage page = admin().audit(2, after);
    EXPECT_LE(page.entries.size(), 2u);
    for (const AuditEntry& entry : page.entries) actors.push_back(entry.actor);
    after = page.next;
    admin().discard(Filter{.state = StateFilter::ready}, {.reason = "r", .limit = 1});
  } while (after);
  EXPECT_EQ(actors,
            (std::vector<std::string>{"actor 4", "actor 3", "actor 2", "actor 1", "actor 0"}));
  EXPECT_THROW((void)admin().audit(0), std::out_of_range);
}

TEST_P(OperationOf, postpones_ready_and_scheduled_work_and_nothing_else) {
  outbox().enqueue(a_message("held"));
  const auto held = outbox().claim(worker_a, 30s, 1);
  outbox().enqueue(a_message("ready"));
  NewMessage later = a_message("scheduled");
  later.extras.due_at = clock().now() + 1h;
  outbox().enqueue(later);
  for (int i = 0; i < 2; ++i) {
    NewMessage keyed = a_message("keyed");
    keyed.extras.partition_key = PartitionKey{"k"};
    outbox().enqueue(keyed);
  }
  EXPECT_EQ(admin().postpone(Filter{}, 10min, {.dry_run = true}), 3u);
  EXPECT_EQ(admin().postpone(Filter{}, 10min, five), 3u);
  EXPECT_EQ(counts().scheduled, 3);
  EXPECT_EQ(counts().waiting, 1);
  EXPECT_EQ(outbox().ack(worker_a, held), 1u);
  EXPECT_TRUE(outbox().claim(worker_a, 30s, 10).empty());
  clock().advance(10min);
  EXPECT_EQ(outbox().claim(worker_a, 30s, 10).size(), 3u);
}

TEST_P(OperationOf, postpones_to_an_instant_and_back_to_now) {
  outbox().enqueue(a_message());
  const std::vector<DeliveryKey> keys = keys_of(StateFilter::ready);
  const Instant until = clock().now() + 2h;
  EXPECT_EQ(admin().postpone(keys, until), 1u);
  EXPECT_EQ(admin().list({}).entries.at(0).delivery.visible_at, until);
  EXPECT_TRUE(outbox().claim(worker_a, 30s, 10).empty());
  database().in_transaction(
      [&](Session& session) { EXPECT_EQ(admin().postpone(session, keys, Duration{}), 1u); });
  EXPECT_EQ(outbox().claim(worker_a, 30s, 10).size(), 1u);
  EXPECT_EQ(admin().postpone(keys, 1h), 0u);
  EXPECT_THROW(admin().postpone(keys, -1s), std::out_of_range);
}

TEST_P(OperationOf, postpones_to_the_beginning_and_to_the_end_of_time) {
  for (const char* topic : {"first", "last"}) outbox().enqueue(a_message(topic));
  EXPECT_EQ(admin().postpone(Filter{.topic = Topic{"first"}}, Instant::min()), 1u);
  EXPECT_EQ(admin().postpone(Filter{.topic = Topic{"last"}}, Instant::max()), 1u);
  const Counts counts = admin().counts();
  EXPECT_EQ(counts.all.ready, 1);
  EXPECT_EQ(counts.all.scheduled, 1);
  const auto claimed = outbox().claim(worker_a, 30s, 10);
  ASSERT_EQ(claimed.size(), 1u);
  EXPECT_EQ(claimed.front().topic.str(), "first");
}

TEST_P(OperationOf, a_postponed_one_whose_worker_died_keeps_that_in_mind) {
  outbox().enqueue(a_message());
  ASSERT_EQ(outbox().claim(worker_a, 30s, 1).size(), 1u);
  clock().advance(31s);
  EXPECT_EQ(admin().postpone(Filter{}, Duration{}), 1u);
  const auto again = outbox().claim(worker_b, 30s, 1);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].expiries, 1);
}

TEST_P(OperationOf, every_batch_of_a_postponement_means_the_same_time) {
  for (int i = 0; i < 4; ++i) outbox().enqueue(a_message());
  const Instant begin = clock().now();
  ASSERT_EQ(admin().postpone(Filter{}, 1h, cut_off(five)), 2u);
  clock().advance(10min);
  ASSERT_EQ(admin().postpone(Filter{}, 1h, five), 4u);
  for (const DeliveryEntry& entry : admin().list({.state = StateFilter::scheduled}).entries)
    EXPECT_EQ(entry.delivery.visible_at, begin + 1h);
}

TEST_P(OperationOf, a_snapshot_shows_what_counts_and_groups_show) {
  make_dead(2, "timeout after 5 s");
  make_dead(1, "timeout after 7 s", "other");
  for (int i = 0; i < 5; ++i) outbox().enqueue(a_message());
  std::ignore = outbox().claim(worker_a, 30s, 2);
  std::ignore = outbox().claim(worker_b, 30s, 1);
  clock().advance(3s);
  const CountsSnapshot counts_snapshot = admin().counts_snapshot();
  EXPECT_EQ(counts_snapshot.counts.all.ready, 2);
  EXPECT_EQ(counts_snapshot.counts.all.leased, 3);
  EXPECT_EQ(counts_snapshot.counts.all.dead, 3);
  EXPECT_EQ(counts_snapshot.counts.by_topic.at("other").dead, 1);
  EXPECT_EQ(counts_snapshot.counts.by_handler.at("").dead, 3);
  EXPECT_EQ(counts_snapshot.counts.by_owner,
            (std::map<Uuid, std::int64_t>{{worker_a.uuid(), 2}, {worker_b.uuid(), 1}}));
  EXPECT_EQ(counts_snapshot.counts.all.oldest_pending, Duration{3s});
  EXPECT_EQ(counts_snapshot.dead.groups.size(), 2u);
  EXPECT_EQ(admin().counts().by_owner, counts_snapshot.counts.by_owner);
}

TEST(StateFilterNames, are_read_as_they_are_written) {
  for (int i = 0; i <= static_cast<int>(StateFilter::any); ++i) {
    const auto state = static_cast<StateFilter>(i);
    EXPECT_EQ(parse_state_filter(to_string(state)), state);
  }
  EXPECT_EQ(to_string(DeliveryState::discarded), "discarded");
  EXPECT_EQ(to_string(StateFilter::any), "any");
  EXPECT_FALSE(parse_state_filter("Dead"));
  EXPECT_FALSE(parse_state_filter(""));
}

TWINBOX_ON_EVERY_BACKEND(OperationOf);

}  // namespace
}  // namespace twinbox::test
