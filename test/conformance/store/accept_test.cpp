// What arrives: stored once, refreshed while it is unfinished.
#include <tuple>

#include "support/inbox_test.hpp"

namespace twinbox::test {
namespace {

class Accept : public InboxTest {
 protected:
  /// Another content under the same key.
  Arrival changed(std::string id = "evt_1") {
    Arrival arrival = an_arrival(std::move(id), "stripe", "payment.corrected");
    arrival.payload = payload("corrected");
    arrival.extras.hash = ContentHash::of("corrected");
    arrival.extras.due_at = clock().now() + 10s;
    return arrival;
  }

  void expect_changed(const MessageDetail& found, int version) {
    EXPECT_EQ(found.message.topic, Topic{"payment.corrected"});
    EXPECT_EQ(found.payload, payload("corrected"));
    EXPECT_EQ(found.hash, ContentHash::of("corrected"));
    EXPECT_EQ(found.message.due_at, clock().now() + 10s);
    EXPECT_EQ(found.message.content_version, version);
  }

  void expect_unchanged(const MessageDetail& before) {
    const MessageDetail after = detail();
    EXPECT_EQ(after.message.topic, before.message.topic);
    EXPECT_EQ(after.payload, before.payload);
    EXPECT_EQ(after.headers, before.headers);
    EXPECT_EQ(after.hash, before.hash);
    EXPECT_EQ(after.message.due_at, before.message.due_at);
    EXPECT_EQ(after.message.expires_at, before.message.expires_at);
    EXPECT_EQ(after.message.partition_key, before.message.partition_key);
    EXPECT_EQ(after.message.content_version, before.message.content_version);
    ASSERT_EQ(after.deliveries.size(), before.deliveries.size());
    for (std::size_t i = 0; i < after.deliveries.size(); ++i) {
      EXPECT_EQ(after.deliveries[i].visible_at, before.deliveries[i].visible_at);
    }
  }
};

TEST_P(Accept, IBX_014_answers_what_became_of_the_message_before) {
  EXPECT_EQ(inbox().accept(an_arrival("open")).state, Acceptance::accepted);
  EXPECT_EQ(inbox().accept(an_arrival("open")).state, Acceptance::duplicate_open);
  make_done(an_arrival("done"));
  EXPECT_EQ(inbox().accept(an_arrival("done")).state, Acceptance::duplicate_done);
  make_dead(an_arrival("dead"));
  EXPECT_EQ(inbox().accept(an_arrival("dead")).state, Acceptance::duplicate_dead);
  std::ignore = inbox().already_processed(a_key("seen"));
  EXPECT_EQ(inbox().accept(an_arrival("seen")).state, Acceptance::accepted);
  std::ignore = inbox().already_processed(a_key("marked"));
  std::ignore = inbox().mark_processing(a_key("marked"));
  EXPECT_EQ(inbox().accept(an_arrival("marked")).state, Acceptance::duplicate_open);
  EXPECT_EQ(count_messages(), "5");
}

TEST_P(Accept, IBX_014_stores_one_message_and_one_delivery_when_many_accept_it_at_once) {
  REQUIREMENT("PHD-03");
  constexpr int senders = 6;
  for (int i = 0; i < senders; ++i) other_inbox(static_cast<std::size_t>(i));
  std::atomic<int> accepted = 0;
  race(senders, [&](int sender) {
    for (int id = 0; id < 20; ++id) {
      accepted += !other_inbox(static_cast<std::size_t>(sender))
                       .accept(an_arrival("evt_" + std::to_string(id)))
                       .duplicate();
    }
  });
  EXPECT_EQ(accepted, 20);
  EXPECT_EQ(inbox().claim(worker_a, 30s, 100).size(), 20u);
}

TEST_P(Accept, IBX_015_IBX_016_IBX_017_IBX_020_refuses_names_out_of_bounds_and_writes_nothing) {
  inbox();
  EXPECT_THROW(inbox().accept(an_arrival("evt_1", "stripe", "")), std::invalid_argument);
  EXPECT_THROW(inbox().accept(an_arrival("evt_1", "")), std::invalid_argument);
  EXPECT_THROW(inbox().accept(an_arrival("")), std::invalid_argument);
  EXPECT_THROW(inbox().accept(an_arrival("evt_1", "stripe", std::string(256, 't'))),
               std::invalid_argument);
  EXPECT_EQ(count_messages(), "0");
  EXPECT_EQ(inbox().accept(an_arrival("evt_1", "stripe", std::string(255, 't'))).state,
            Acceptance::accepted);
}

TEST_P(Accept, IBX_018_takes_no_message_without_a_payload) {
  static_assert(std::is_same_v<decltype(Arrival::payload), std::string>,
                "a payload cannot be left null");
  inbox().accept(an_arrival());
  if (on_postgres()) {
    EXPECT_THROW(write("select {schema}inbox_accept('stripe', 'evt_2', 'topic', null)"),
                 DatabaseError);
  }
  EXPECT_EQ(read("select count(*) from {schema}inbox where Payload is null"), "0");
  EXPECT_EQ(count_messages(), "1");
}

TEST_P(Accept, IBX_019_takes_an_empty_payload_for_a_payload) {
  Arrival arrival = an_arrival();
  arrival.payload.clear();
  EXPECT_EQ(inbox().accept(arrival).state, Acceptance::accepted);
  EXPECT_EQ(read("select count(*) from {schema}inbox where Payload is not null"), "1");
  const auto messages = inbox().claim(worker_a, 30s, 1);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].payload, "");
}

TEST_P(Accept, IBX_022_keeps_any_bytes_as_the_payload) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.push_back(static_cast<char>(byte));
  const std::vector<std::string> payloads{"{\"not\": json", "\xFF\xFE", std::string(3, '\0'), bytes,
                                          "'; drop table inbox_message; --"};
  for (const std::string& text : payloads) {
    Arrival arrival = an_arrival();
    arrival.payload = text;
    inbox().accept(arrival);
    EXPECT_EQ(detail().payload, text);
  }
}

TEST_P(Accept, IBX_118_keeps_a_large_payload) {
  Arrival arrival = an_arrival();
  arrival.payload.assign((16u << 20) + 1, 'x');
  arrival.payload.back() = '\0';
  inbox().accept(arrival);
  const auto messages = inbox().claim(worker_a, 30s, 1);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_TRUE(messages[0].payload == arrival.payload);
}

TEST_P(Accept, IBX_023_hands_a_message_out_when_it_is_due_and_not_before) {
  Arrival arrival = an_arrival();
  arrival.extras.due_at = clock().now() + 60s;
  inbox().accept(arrival);
  clock().advance(60s - 1us);
  EXPECT_TRUE(inbox().claim(worker_a, 30s, 1).empty());
  clock().advance(1us);
  EXPECT_EQ(inbox().claim(worker_a, 30s, 1).size(), 1u);
}

TEST_P(Accept, IBX_024_hands_a_message_out_at_once_when_it_has_no_due_time_or_one_in_the_past) {
  inbox().accept(an_arrival("none"));
  Arrival late = an_arrival("late");
  late.extras.due_at = clock().now() - 1h;
  inbox().accept(late);
  EXPECT_EQ(inbox().claim(worker_a, 30s, 10).size(), 2u);
}

TEST_P(Accept, IBX_025_IBX_026_keeps_when_a_message_came_first_and_last) {
  const Instant first = clock().now();
  inbox().accept(an_arrival());
  clock().advance(7s);
  inbox().accept(an_arrival());
  clock().advance(7s);
  inbox().accept(an_arrival());
  EXPECT_EQ(detail().message.created_at, first);
  EXPECT_EQ(detail().message.last_seen_at, first + 14s);
  EXPECT_EQ(detail().message.seen_count, 3);
}

TEST_P(Accept, IBX_025_IBX_026_takes_the_time_from_the_databases_clock) {
  Database database(test_store().address());
  Inbox inbox(database, options());
  const std::string clock_sql =
      on_postgres()    ? "select (extract(epoch from clock_timestamp()) * 1000)::bigint"
      : on_sqlserver() ? "select datediff_big(millisecond, '1970-01-01', sysutcdatetime())"
                       : "select cast(round((julianday('now') - 2440587.5) * 86400000) as integer)";
  const auto milliseconds = [&] {
    std::int64_t value = 0;
    database.in_transaction([&](Session& session) {
      session.execute(clock_sql, {}, [&](const Row& row) { value = row.integer(0); });
    });
    return std::chrono::milliseconds{value};
  };
  // Both readings are rounded to a millisecond.
  const auto before = milliseconds() - 1ms;
  inbox.accept(an_arrival());
  const auto between = milliseconds() + 1ms;
  inbox.accept(an_arrival());
  const auto after = milliseconds() + 1ms;
  const MessageView message = Admin{inbox}.get(a_key()).value().message;
  EXPECT_GE(message.created_at.time_since_epoch(), before);
  EXPECT_LE(message.created_at.time_since_epoch(), between);
  EXPECT_GE(message.last_seen_at.time_since_epoch(), between - 2ms);
  EXPECT_LE(message.last_seen_at.time_since_epoch(), after);
}

TEST_P(Accept, IBX_027_begins_open_with_no_attempts) {
  inbox().accept(an_arrival());
  EXPECT_EQ(inbox().state(a_key()), MessageState::open);
  EXPECT_EQ(delivery().state, DeliveryState::ready);
  EXPECT_EQ(delivery().attempts, 0);
  EXPECT_EQ(read("select Status from {schema}inbox"), "Processing");
  EXPECT_EQ(read("select Attempt from {schema}inbox"), "0");
}

TEST_P(Accept, IBX_028_leaves_a_done_message_as_it_is) {
  make_done();
  const MessageDetail before = detail();
  clock().advance(5s);
  EXPECT_EQ(inbox().accept(changed()).state, Acceptance::duplicate_done);
  const MessageDetail after = detail();
  EXPECT_EQ(inbox().state(a_key()), MessageState::done);
  EXPECT_EQ(after.payload, before.payload);
  EXPECT_EQ(after.message.topic, before.message.topic);
  EXPECT_EQ(after.message.content_version, before.message.content_version);
  EXPECT_EQ(after.message.last_seen_at, before.message.last_seen_at + 5s);
  clock().advance(1h);
  EXPECT_TRUE(inbox().claim(worker_a, 30s, 1).empty());
}

TEST_P(Accept, IBX_029_takes_the_new_content_of_a_seen_message) {
  std::ignore = inbox().already_processed(a_key());
  inbox().accept(changed());
  expect_changed(detail(), 1);
  EXPECT_EQ(delivery().state, DeliveryState::scheduled);
}

TEST_P(Accept, IBX_029_takes_the_new_content_of_an_open_message) {
  inbox().accept(an_arrival());
  EXPECT_EQ(inbox().accept(changed()).state, Acceptance::duplicate_open);
  expect_changed(detail(), 2);
  EXPECT_EQ(delivery().state, DeliveryState::scheduled);
}

TEST_P(Accept, IBX_029_takes_the_new_content_of_a_dead_message_that_stays_dead) {
  make_dead();
  EXPECT_EQ(inbox().accept(changed()).state, Acceptance::duplicate_dead);
  expect_changed(detail(), 2);
  EXPECT_EQ(inbox().state(a_key()), MessageState::dead);
  EXPECT_EQ(delivery().last_error, "boom");
  clock().advance(1h);
  EXPECT_TRUE(inbox().claim(worker_a, 30s, 1).empty());
}

TEST_P(Accept, replaces_nothing_of_a_message_while_any_of_its_deliveries_is_leased) {
  const std::vector<HandlerName> both{{HandlerKey{"mail"}}, {HandlerKey{"ledger"}}};
  inbox().accept(an_arrival(), both);
  const auto held = inbox().claim(worker_a, 30s, 1);
  const MessageDetail before = detail();
  const Accepted answer = inbox().accept(changed(), both);
  EXPECT_EQ(answer.state, Acceptance::duplicate_open);
  EXPECT_TRUE(answer.conflict);
  expect_unchanged(before);
  EXPECT_EQ(inbox().ack(worker_a, held), 1u);
  inbox().accept(changed(), both);
  expect_changed(detail(), 2);
}

TEST_P(Accept, takes_the_new_content_when_the_lease_has_ended) {
  std::ignore = inbox().accept_and_claim(an_arrival(), worker_a, 30s);
  clock().advance(30s);
  EXPECT_EQ(inbox().accept(changed()).state, Acceptance::duplicate_open);
  expect_changed(detail(), 2);
}

TEST_P(Accept, keep_first_changes_nothing_of_a_message_that_is_open_or_dead) {
  Arrival other = changed();
  other.on_duplicate = OnDuplicate::keep_first;
  other.extras.partition_key = PartitionKey{"k"};
  other.extras.expires_at = clock().now() + 20s;
  other.extras.headers = "{}";
  for (const bool dead : {false, true}) {
    if (dead) {
      make_dead();
    } else {
      inbox().accept(an_arrival());
    }
    const MessageDetail before = detail();
    const Accepted answer = inbox().accept(other);
    EXPECT_EQ(answer.state, dead ? Acceptance::duplicate_dead : Acceptance::duplicate_open);
    EXPECT_TRUE(answer.conflict);
    expect_unchanged(before);
  }
}

TEST_P(Accept, PHD_04_keep_first_adds_missing_handlers_to_the_first_content_and_its_times) {
  Arrival first = an_arrival();
  first.extras.due_at = clock().now() + 5s;
  inbox().accept(first, std::vector<HandlerName>{{HandlerKey{"mail"}}});
  Arrival other = changed();
  other.on_duplicate = OnDuplicate::keep_first;
  other.extras.expires_at = clock().now() + 1s;
  const Accepted answer =
      inbox().accept(other, std::vector<HandlerName>{{HandlerKey{"mail"}}, {HandlerKey{"ledger"}}});
  EXPECT_EQ(answer.state, Acceptance::accepted);
  EXPECT_TRUE(answer.conflict);
  clock().advance(5s);
  const auto messages = inbox().claim(worker_a, 30s, 10);
  ASSERT_EQ(messages.size(), 2u);
  for (const Message& message : messages) EXPECT_EQ(message.payload, payload());
}

TEST_P(Accept, keep_first_fills_a_message_that_was_only_seen) {
  std::ignore = inbox().already_processed(a_key());
  Arrival first = changed();
  first.on_duplicate = OnDuplicate::keep_first;
  EXPECT_EQ(inbox().accept(first).state, Acceptance::accepted);
  expect_changed(detail(), 1);
}

TEST_P(Accept, IBX_008_flags_another_topic_or_payload_without_any_hash) {
  EXPECT_FALSE(inbox().accept(an_arrival()).conflict);
  EXPECT_FALSE(inbox().accept(an_arrival()).conflict);
  Arrival other = an_arrival();
  other.payload = payload("other");
  EXPECT_TRUE(inbox().accept(other).conflict);
  EXPECT_FALSE(inbox().accept(other).conflict);
  EXPECT_TRUE(inbox().accept(an_arrival("evt_1", "stripe", "another.topic")).conflict);
  make_done(an_arrival("done"));
  other = an_arrival("done");
  other.payload.clear();
  EXPECT_TRUE(inbox().accept(other).conflict);
}

TEST_P(Accept, moves_an_untried_message_to_its_new_due_time) {
  Arrival arrival = an_arrival();
  arrival.extras.due_at = clock().now() + 60s;
  inbox().accept(arrival);
  arrival.extras.due_at = clock().now() + 20s;
  inbox().accept(arrival);
  EXPECT_EQ(delivery().visible_at, clock().now() + 20s);
  inbox().accept(an_arrival());
  EXPECT_EQ(delivery().visible_at, clock().now());
}

TEST_P(Accept, never_shortens_the_backoff_of_a_message_that_has_failed) {
  Arrival arrival = an_arrival();
  const auto held = inbox().accept_and_claim(arrival, worker_a, 30s);
  inbox().abandon(worker_a, held.messages, "busy", 60s);
  const Instant backoff = clock().now() + 60s;
  inbox().accept(arrival);
  EXPECT_EQ(delivery().visible_at, backoff);
  arrival.extras.due_at = clock().now() + 20s;
  inbox().accept(arrival);
  EXPECT_EQ(delivery().visible_at, backoff);
  arrival.extras.due_at = clock().now() + 90s;
  inbox().accept(arrival);
  EXPECT_EQ(delivery().visible_at, clock().now() + 90s);
  EXPECT_EQ(delivery().attempts, 1);
}

TEST_P(Accept, IBX_008_flags_other_content_under_a_known_id) {
  Arrival arrival = an_arrival();
  arrival.extras.hash = ContentHash::of("first");
  EXPECT_FALSE(inbox().accept(arrival).conflict);
  EXPECT_FALSE(inbox().accept(arrival).conflict);
  EXPECT_FALSE(inbox().accept(an_arrival("evt_1")).conflict);
  inbox().accept(arrival);
  arrival.extras.hash = ContentHash::of("second");
  const Accepted second = inbox().accept(arrival);
  EXPECT_EQ(second.state, Acceptance::duplicate_open);
  EXPECT_TRUE(second.conflict);
  const auto warnings = log().events("conflict");
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].field("id"), "evt_1");
}

TEST_P(Accept, IBX_008_flags_other_content_than_was_observed) {
  inbox().observe(a_key(), ContentHash::of("first"));
  Arrival arrival = an_arrival();
  arrival.extras.hash = ContentHash::of("second");
  const Accepted accepted = inbox().accept(arrival);
  EXPECT_EQ(accepted.state, Acceptance::accepted);
  EXPECT_TRUE(accepted.conflict);
}

TWINBOX_ON_EVERY_BACKEND(Accept);

class AcceptDurably : public InboxTest {};

TEST_P(AcceptDurably, IBX_013_shows_the_message_to_whoever_opens_the_store_later) {
  {
    Database first(test_store().address(), {}, environment());
    Inbox(first, options()).accept(an_arrival());
  }
  Database second(test_store().address(), {}, environment());
  Inbox inbox(second, options());
  const auto messages = inbox.claim(worker_a, 30s, 10);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].payload, payload());
}

TWINBOX_ON_BACKENDS(AcceptDurably, Backend::sqlite_file, Backend::postgres, Backend::sqlserver);

}  // namespace
}  // namespace twinbox::test
