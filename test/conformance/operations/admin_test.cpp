// What a person does with a box: look, send again, throw away, correct.
#include <set>
#include <tuple>

#include "support/backend.hpp"
#include <twinbox/operations.hpp>

namespace twinbox::test {
namespace {

class AdminOf : public BoxTest {
 protected:
  Admin admin() { return Admin{outbox()}; }

  /// Enqueues and fails one message for each error.
  void make_dead(const std::vector<std::string>& errors,
                 const std::string& topic = "order.placed") {
    for (const std::string& error : errors) {
      outbox().enqueue(a_message(topic));
      const auto messages = outbox().claim(worker_a, 30s, 1);
      ASSERT_EQ(outbox().fail(worker_a, messages, error), 1u);
    }
  }
};

TEST_P(AdminOf, counts_by_state_topic_and_handler) {
  make_dead({"boom"});
  outbox().enqueue(a_message("a"));
  std::ignore = outbox().claim(worker_a, 30s, 1);
  outbox().enqueue(a_message("a"));
  NewMessage later = a_message("b");
  later.extras.due_at = clock().now() + 1h;
  outbox().enqueue(later);
  for (int i = 0; i < 2; ++i) {
    NewMessage keyed = a_message("c");
    keyed.extras.partition_key = PartitionKey{"k"};
    outbox().enqueue(keyed);
  }
  clock().advance(7s);
  const Counts counts = admin().counts(true);
  EXPECT_EQ(counts.all.ready, 2);
  EXPECT_EQ(counts.all.leased, 1);
  EXPECT_EQ(counts.all.scheduled, 1);
  EXPECT_EQ(counts.all.waiting, 1);
  EXPECT_EQ(counts.all.dead, 1);
  EXPECT_EQ(counts.all.open(), 5);
  EXPECT_EQ(counts.by_topic.at("a").open(), 2);
  EXPECT_EQ(counts.by_topic.at("order.placed").dead, 1);
  EXPECT_EQ(counts.by_handler.at("").open(), 5);
  ASSERT_TRUE(counts.all.oldest_pending);
  EXPECT_EQ(*counts.all.oldest_pending, Duration{7s});
}

TEST_P(AdminOf, counts_history_only_when_asked_to) {
  outbox().enqueue(a_message());
  outbox().ack(worker_a, outbox().claim(worker_a, 30s, 1));
  EXPECT_EQ(admin().counts().all.done, 0);
  EXPECT_EQ(admin().counts(true).all.done, 1);
  std::ignore = inbox().already_processed(a_key());
  EXPECT_EQ(Admin{inbox()}.counts(true).all.seen, 1);
}

TEST_P(AdminOf, an_empty_box_counts_nothing) {
  const Counts counts = admin().counts(true);
  EXPECT_EQ(counts.all.open(), 0);
  EXPECT_TRUE(counts.by_topic.empty());
  EXPECT_FALSE(counts.all.oldest_pending);
}

TEST_P(AdminOf, pages_show_every_entry_once_newest_first_while_others_come_and_go) {
  make_dead({"e1", "e2", "e3", "e4", "e5"});
  std::set<std::int64_t> shown;
  std::int64_t last = INT64_MAX;
  std::optional<DeliveryKey> after;
  do {
    const Page page = admin().list({.state = StateFilter::dead}, 2, after);
    for (const DeliveryEntry& entry : page.entries) {
      EXPECT_TRUE(shown.insert(entry.message.number).second);
      EXPECT_LT(entry.message.number, last);
      last = entry.message.number;
    }
    after = page.next;
    if (shown.size() == 2) make_dead({"newer"});
  } while (after);
  EXPECT_EQ(shown.size(), 5u);
}

TEST_P(AdminOf, lists_what_the_filter_names) {
  make_dead({"timeout after 5 s"}, "a");
  make_dead({"refused"}, "b");
  NewMessage related = a_message("c");
  related.extras.correlation_id = CorrelationId{"story"};
  const MessageId id = outbox().enqueue(related).id;
  const auto topics = [&](const Filter& filter) {
    std::multiset<std::string> found;
    for (const DeliveryEntry& entry : admin().list(filter).entries)
      found.insert(entry.message.topic->str());
    return found;
  };
  using Topics = std::multiset<std::string>;
  EXPECT_EQ(topics({}), (Topics{"a", "b", "c"}));
  EXPECT_EQ(topics({.state = StateFilter::dead}), (Topics{"a", "b"}));
  EXPECT_EQ(topics({.state = StateFilter::open}), (Topics{"c"}));
  EXPECT_EQ(topics({.state = StateFilter::ready}), (Topics{"c"}));
  EXPECT_EQ(topics({.state = StateFilter::leased}), Topics{});
  EXPECT_EQ(topics({.topic = Topic{"b"}}), (Topics{"b"}));
  EXPECT_EQ(topics({.state = StateFilter::dead, .error_contains = "timeout"}), (Topics{"a"}));
  EXPECT_EQ(topics({.error_contains = "refused"}), (Topics{"b"}));
  EXPECT_EQ(topics({.id = id}), (Topics{"c"}));
  EXPECT_EQ(topics({.correlation_id = CorrelationId{"story"}}), (Topics{"c"}));
  EXPECT_EQ(topics({.source = Source{"nobody"}}), Topics{});
  EXPECT_EQ(topics({.created_since = clock().now() + 1s}), Topics{});
  EXPECT_EQ(topics({.created_before = clock().now() + 1s}).size(), 3u);
  EXPECT_EQ(topics({.handler = HandlerKey{"other"}}), Topics{});
}

TEST_P(AdminOf, lists_finished_and_seen_ones_by_their_state) {
  make_dead({"boom"});
  outbox().enqueue(a_message("done"));
  outbox().ack(worker_a, outbox().claim(worker_a, 30s, 1));
  admin().discard(Filter{.state = StateFilter::dead}, {.reason = "not needed"});
  const Page done = admin().list({.state = StateFilter::done});
  ASSERT_EQ(done.entries.size(), 1u);
  EXPECT_EQ(done.entries[0].delivery.state, DeliveryState::done);
  EXPECT_EQ(done.entries[0].delivery.owner, worker_a.uuid());
  const Page discarded = admin().list({.state = StateFilter::discarded});
  ASSERT_EQ(discarded.entries.size(), 1u);
  EXPECT_EQ(discarded.entries[0].delivery.reason, "not needed");
  std::ignore = inbox().already_processed(a_key("only seen"));
  std::ignore = inbox().try_claim(a_key("marked"), Topic{"t"});
  Admin of_inbox{inbox()};
  ASSERT_EQ(of_inbox.list({.state = StateFilter::seen}).entries.size(), 1u);
  EXPECT_EQ(of_inbox.list({.state = StateFilter::seen}).entries[0].delivery.state,
            DeliveryState::seen);
  ASSERT_EQ(of_inbox.list({.state = StateFilter::marked}).entries.size(), 1u);
}

TEST_P(AdminOf, shows_one_message_with_its_timeline) {
  const MessageId id = outbox().enqueue(a_message()).id;
  for (const char* error : {"first", "second"}) {
    outbox().abandon(worker_a, outbox().claim(worker_a, 30s, 1), error, 1s);
    clock().advance(1s);
  }
  outbox().fail(worker_b, outbox().claim(worker_b, 30s, 1), "third");
  const auto detail = admin().get(id);
  ASSERT_TRUE(detail);
  EXPECT_EQ(detail->payload, payload());
  ASSERT_EQ(detail->deliveries.size(), 1u);
  EXPECT_EQ(detail->deliveries[0].state, DeliveryState::dead);
  EXPECT_EQ(detail->deliveries[0].attempts, 3);
  ASSERT_EQ(detail->timeline.size(), 3u);
  EXPECT_EQ(detail->timeline[0].error, "first");
  EXPECT_EQ(detail->timeline[1].attempt, 2);
  EXPECT_EQ(detail->timeline[2].worker, worker_b.uuid());
  EXPECT_FALSE(admin().get(MessageId{"unknown"}));
}

TEST_P(AdminOf, an_id_that_several_sources_use_needs_its_source) {
  inbox().accept(an_arrival("1", "stripe"));
  inbox().accept(an_arrival("1", "github"));
  Admin of_inbox{inbox()};
  try {
    (void)of_inbox.get(MessageId{"1"});
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string{error.what()}.find("github, stripe"), std::string::npos) << error.what();
  }
  EXPECT_TRUE(of_inbox.get(a_key("1", "github")));
}

TEST_P(AdminOf, groups_dead_letters_by_topic_handler_and_normalised_error) {
  make_dead({"timeout after 5 s", "timeout after 17 s", "order 'A-1' unknown",
             "order 'B-2' unknown", "order 'C-3' unknown"});
  clock().advance(1min);
  make_dead({"timeout after 1 s"}, "other");
  const std::vector<DeadGroup> groups = admin().dead_groups().groups;
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].count, 3);
  EXPECT_EQ(groups[0].error, "order '…' unknown");
  EXPECT_EQ(groups[1].count, 2);
  EXPECT_EQ(groups[1].error, "timeout after # s");
  EXPECT_EQ(groups[2].topic, "other");
  EXPECT_EQ(groups[2].last_at - groups[0].last_at, Duration{1min});
  EXPECT_EQ(admin().requeue(groups[0]), 3u);
  EXPECT_EQ(admin().discard(groups[1], {.reason = "old"}), 2u);
  EXPECT_EQ(admin().counts().all.dead, 1);
}

TEST_P(AdminOf, EVB_20_requeue_resets_attempts_and_error_and_makes_it_due_now) {
  REQUIREMENT("PHD-33");
  make_dead({"boom"});
  const Page dead = admin().list({.state = StateFilter::dead});
  ASSERT_EQ(dead.entries.size(), 1u);
  const DeliveryKey keys[] = {dead.entries[0].delivery.key, dead.entries[0].delivery.key};
  EXPECT_EQ(admin().requeue(keys), 1u);
  EXPECT_EQ(admin().requeue(keys), 0u);
  const auto again = outbox().claim(worker_a, 30s, 10);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].attempts, 0);
  EXPECT_EQ(again[0].requeues, 1);
  EXPECT_EQ(again[0].last_error, "");
  EXPECT_NE(again[0].delivery_id, *dead.entries[0].delivery.delivery_id);
}

TEST_P(AdminOf, requeue_waits_for_its_delay) {
  make_dead({"boom"});
  EXPECT_EQ(admin().requeue(Filter{}, 10s), 1u);
  EXPECT_TRUE(outbox().claim(worker_a, 30s, 10).empty());
  clock().advance(10s);
  EXPECT_EQ(outbox().claim(worker_a, 30s, 10).size(), 1u);
}

TEST_P(AdminOf, requeue_clears_an_expiry_that_has_passed) {
  NewMessage message = a_message();
  message.extras.expires_at = clock().now() + 5s;
  outbox().enqueue(message);
  clock().advance(5s);
  ASSERT_EQ(outbox().expire(), 1u);
  ASSERT_EQ(admin().requeue(Filter{}), 1u);
  EXPECT_EQ(outbox().expire(), 0u);
  EXPECT_EQ(outbox().claim(worker_a, 30s, 10).size(), 1u);
}

TEST_P(AdminOf, a_requeued_message_goes_to_the_end_of_its_key) {
  for (const char* content : {"1", "2", "3"}) {
    NewMessage message = a_message("t", content);
    message.extras.partition_key = PartitionKey{"k"};
    outbox().enqueue(message);
  }
  outbox().fail(worker_a, outbox().claim(worker_a, 30s, 10), "boom");
  ASSERT_EQ(admin().requeue(Filter{}), 1u);
  std::vector<std::string> order;
  for (auto next = outbox().claim(worker_a, 30s, 10); !next.empty();
       next = outbox().claim(worker_a, 30s, 10)) {
    ASSERT_EQ(next.size(), 1u);
    order.push_back(next[0].payload);
    outbox().ack(worker_a, next);
  }
  EXPECT_EQ(order, (std::vector{payload("2"), payload("3"), payload("1")}));
}

TEST_P(AdminOf, a_message_without_content_is_not_requeued) {
  std::ignore = inbox().already_processed(a_key());
  inbox().mark_dead(a_key(), "unwanted");
  Admin of_inbox{inbox()};
  EXPECT_EQ(of_inbox.requeue(Filter{}), 0u);
  EXPECT_EQ(of_inbox.counts().all.dead, 1);
}

TEST_P(AdminOf, a_dry_run_counts_and_changes_nothing) {
  make_dead({"1", "2", "3"});
  EXPECT_EQ(admin().requeue(Filter{}, {}, {.dry_run = true}), 3u);
  const Filter dead{.state = StateFilter::dead};
  EXPECT_EQ(admin().discard(dead, {.dry_run = true}), 3u);
  EXPECT_EQ(admin().discard(Filter{.state = StateFilter::done}, {.reason = "r", .dry_run = true}),
            0u);
  std::vector<DeliveryKey> keys;
  for (const DeliveryEntry& entry : admin().list(dead).entries) keys.push_back(entry.delivery.key);
  keys.push_back({999, HandlerKey::by_topic()});
  EXPECT_EQ(admin().requeue(keys, {}, {.dry_run = true}), 3u);
  EXPECT_EQ(admin().discard(keys, {.dry_run = true}), 3u);
  EXPECT_EQ(admin().requeue(keys, {}, {.limit = 2, .dry_run = true}), 2u);
  database().in_transaction([&](Session& session) {
    EXPECT_EQ(admin().requeue(session, keys, {}, {.dry_run = true}), 3u);
    EXPECT_EQ(admin().discard(session, keys, {.reason = "r", .dry_run = true}), 3u);
  });
  EXPECT_THROW(admin().edit(1, {.payload = payload("x")}, {.dry_run = true}), UsageError);
  EXPECT_EQ(admin().counts().all.dead, 3);
}

TEST_P(AdminOf, bulk_operations_are_capped_and_batched) {
  make_dead({"1", "2", "3", "4", "5"});
  EXPECT_EQ(admin().requeue(Filter{}, {}, {.limit = 3, .batch = 2}), 3u);
  EXPECT_EQ(admin().counts().all.dead, 2);
  const Filter open{.state = StateFilter::open};
  EXPECT_EQ(admin().discard(open, {.reason = "r", .limit = 2, .batch = 1}), 2u);
  EXPECT_EQ(admin().counts().all.open() + admin().counts().all.dead, 3);
}

TEST_P(AdminOf, EVB_10_discard_ends_open_and_dead_messages_with_a_reason_and_its_time) {
  REQUIREMENT("PHD-33");
  make_dead({"boom"});
  outbox().enqueue(a_message());
  const auto held = outbox().claim(worker_a, 30s, 1);
  clock().advance(2s);
  const Operation sold_out{.actor = "mia", .reason = "sold out"};
  EXPECT_EQ(admin().discard(Filter{.state = StateFilter::dead}, sold_out), 1u);
  EXPECT_EQ(admin().discard(Filter{.state = StateFilter::open}, sold_out), 1u);
  EXPECT_EQ(outbox().ack(worker_a, held), 0u);
  const Page page = admin().list({.state = StateFilter::discarded});
  ASSERT_EQ(page.entries.size(), 2u);
  for (const DeliveryEntry& entry : page.entries) {
    EXPECT_EQ(entry.delivery.reason, "sold out");
    EXPECT_EQ(entry.delivery.finished_at, clock().now());
  }
  EXPECT_EQ(read("select sum(affected) from {schema}outbox_audit where actor = 'mia'"), "2");
  EXPECT_THROW(admin().discard(Filter{.state = StateFilter::dead}, {}), std::invalid_argument);
  EXPECT_THROW(admin().discard(Filter{}, sold_out), std::invalid_argument);
}

TEST_P(AdminOf, edit_replaces_content_and_keeps_what_was_there) {
  make_dead({"boom"});
  const std::int64_t number =
      admin().list({.state = StateFilter::dead}).entries.at(0).message.number;
  EXPECT_TRUE(admin().edit(number, {.payload = payload("better"), .headers = R"({"x":1})"},
                           {.actor = "mia", .reason = "typo"}));
  ASSERT_EQ(admin().requeue(Filter{}), 1u);
  const auto messages = outbox().claim(worker_a, 30s, 1);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].payload, payload("better"));
  EXPECT_EQ(messages[0].headers, R"({"x":1})");
  EXPECT_EQ(messages[0].content_version, 2);
  EXPECT_EQ(
      read("select actor from {schema}outbox_audit where action = 'edit' and content_version = 1"),
      "mia");
}

TEST_P(AdminOf, edit_leaves_leased_and_finished_messages_alone) {
  outbox().enqueue(a_message());
  const auto held = outbox().claim(worker_a, 30s, 1);
  const std::int64_t number = admin().list({}).entries.at(0).message.number;
  EXPECT_FALSE(admin().edit(number, {.payload = payload("x")}));
  clock().advance(31s);
  EXPECT_TRUE(admin().edit(number, {.payload = payload("y")}));
  outbox().ack(worker_a, held);
  EXPECT_FALSE(admin().edit(number, {.payload = payload("z")}));
  EXPECT_EQ(read("select count(*) from {schema}outbox_audit"), "1");
  EXPECT_THROW(admin().edit(number, {.headers = "[]"}), std::invalid_argument);
}

TEST_P(AdminOf, a_group_without_topic_is_not_every_topic) {
  make_dead({""});
  Inbox& box = inbox();
  std::ignore = box.already_processed(a_key());
  box.mark_dead(a_key());
  box.accept(an_arrival("evt_2"));
  box.fail(worker_a, box.claim(worker_a, 30s, 1), "");
  Admin of_inbox{box};
  for (const DeadGroup& group : of_inbox.dead_groups().groups) {
    if (!group.topic.empty()) continue;
    EXPECT_EQ(of_inbox.discard(group, {.reason = "r"}), 1u);
  }
  EXPECT_EQ(of_inbox.counts().all.dead, 1);
}

TEST_P(AdminOf, a_delivery_that_is_named_twice_counts_once_for_the_limit) {
  make_dead({"1", "2", "3"});
  std::vector<DeliveryKey> named;
  for (const DeliveryEntry& entry : admin().list({}).entries) {
    named.insert(named.end(), 2, entry.delivery.key);
  }
  EXPECT_EQ(admin().requeue(named, {}, {.limit = 2, .dry_run = true}), 2u);
  EXPECT_EQ(admin().requeue(named, {}, {.limit = 2}), 2u);
  EXPECT_EQ(admin().counts().all.dead, 1);
}

TEST_P(AdminOf, prunes_whole_finished_messages_by_number_or_filter) {
  make_dead({"boom"});
  for (int i = 0; i < 3; ++i) outbox().enqueue(a_message("done"));
  outbox().ack(worker_a, outbox().claim(worker_a, 30s, 10));
  std::vector<std::int64_t> numbers;
  for (const DeliveryEntry& entry : admin().list({}).entries)
    numbers.push_back(entry.message.number);
  ASSERT_EQ(numbers.size(), 4u);
  EXPECT_EQ(admin().prune(numbers, {.dry_run = true}), 3u);
  EXPECT_EQ(admin().prune(Filter{}, {.dry_run = true}), 3u);
  EXPECT_EQ(admin().prune(std::span{numbers}.first(1), {.actor = "mia"}), 1u);
  EXPECT_EQ(admin().prune(Filter{.topic = Topic{"done"}}, {.limit = 1}), 1u);
  EXPECT_EQ(admin().prune(Filter{}, {.batch = 1}), 1u);
  EXPECT_EQ(admin().prune(numbers), 0u);
  EXPECT_EQ(admin().counts(true).all.dead, 1);
  EXPECT_EQ(admin().counts(true).all.done, 0);
  EXPECT_EQ(read("select affected from {schema}outbox_audit where actor = 'mia'"), "1");
}

TEST_P(AdminOf, prunes_what_was_finished_before_the_clock_stepped_back) {
  for (int i = 0; i < 2; ++i) outbox().enqueue(a_message());
  outbox().ack(worker_a, outbox().claim(worker_a, 30s, 10));
  const std::vector<std::int64_t> newest{admin().list({}).entries.at(0).message.number};
  clock().advance(-1h);
  EXPECT_EQ(admin().prune(newest), 1u);
  EXPECT_EQ(admin().prune(Filter{}, {.dry_run = true}), 1u);
  EXPECT_EQ(admin().prune(Filter{}), 1u);
}

TEST_P(AdminOf, a_message_with_an_open_delivery_is_not_pruned) {
  const HandlerName names[] = {{HandlerKey{"a"}}, {HandlerKey{"b"}}};
  inbox().accept(an_arrival(), names);
  inbox().ack(worker_a, inbox().claim(worker_a, 30s, 1));
  Admin of_inbox{inbox()};
  EXPECT_EQ(of_inbox.prune(Filter{.state = StateFilter::done}, {.dry_run = true}), 0u);
  EXPECT_EQ(of_inbox.prune(Filter{.state = StateFilter::done}), 0u);
  EXPECT_TRUE(of_inbox.get(a_key()));
}

TEST_P(AdminOf, who_and_why_are_text_that_every_backend_can_keep) {
  make_dead({"boom"});
  const std::string with_nul{"a\0b", 3};
  EXPECT_THROW(admin().discard(Filter{.state = StateFilter::dead}, {.reason = with_nul}),
               std::invalid_argument);
  EXPECT_THROW(admin().requeue(Filter{}, {}, {.actor = "\xff"}), std::invalid_argument);
  EXPECT_THROW(admin().edit(1, {.content_type = with_nul}), std::invalid_argument);
  EXPECT_THROW(admin().edit(1, {}, {.actor = std::string(256, 'a')}), std::invalid_argument);
  EXPECT_EQ(admin().counts().all.dead, 1);
}

TEST_P(AdminOf, operations_join_the_callers_transaction) {
  make_dead({"boom"});
  const DeliveryKey key = admin().list({.state = StateFilter::dead}).entries.at(0).delivery.key;
  try {
    database().in_transaction([&](Session& session) {
      EXPECT_EQ(admin().requeue(session, std::span{&key, 1}), 1u);
      throw std::runtime_error("no");
    });
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(admin().counts().all.dead, 1);
  database().in_transaction([&](Session& session) {
    EXPECT_EQ(admin().discard(session, std::span{&key, 1}, {.reason = "r"}), 1u);
  });
  EXPECT_EQ(admin().counts().all.dead, 0);
}

TWINBOX_ON_EVERY_BACKEND(AdminOf);

}  // namespace
}  // namespace twinbox::test
