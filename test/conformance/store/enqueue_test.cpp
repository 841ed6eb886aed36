// Enqueueing: what is stored, what is refused, and when a message may go.
#include "support/outbox_test.hpp"

namespace twinbox::test {
namespace {

class Enqueue : public OutboxTest {
 protected:
  Message claim_one() {
    auto messages = outbox().claim(worker_a, 30s, 10);
    if (messages.size() != 1) throw std::logic_error("not exactly one message is due");
    return std::move(messages.front());
  }
};

TEST_P(Enqueue, OBX_002_commits_by_itself_so_that_everybody_sees_the_message_at_once) {
  const MessageId id = outbox().enqueue(a_message("order.placed")).id;
  EXPECT_EQ(shown("MessageId"), id.str());
  EXPECT_EQ(shown("Topic"), "order.placed");
  EXPECT_EQ(claim_one().payload, payload());
}

TEST_P(Enqueue, OBX_004_refuses_an_empty_topic_and_one_of_blanks) {
  EXPECT_THROW(a_message(""), std::invalid_argument);
  EXPECT_THROW(a_message(" \t\n"), std::invalid_argument);
  EXPECT_THROW(a_message(std::string{"a\0b", 3}), std::invalid_argument);
  EXPECT_THROW(a_message("\xff"), std::invalid_argument);
  outbox();
  EXPECT_EQ(rows("message"), 0);
}

TEST_P(Enqueue, OBX_005_knows_no_null_payload) {
  static_assert(std::is_same_v<decltype(NewMessage::payload), std::string>);
  outbox().enqueue({.topic = Topic{"t"}, .payload = {}});
  EXPECT_EQ(count("select count(*) from {schema}outbox where Payload is null"), 0);
}

TEST_P(Enqueue, OBX_006_takes_an_empty_payload) {
  outbox().enqueue({.topic = Topic{"t"}, .payload = ""});
  EXPECT_EQ(claim_one().payload, "");
}

TEST_P(Enqueue, OBX_007_refuses_a_topic_of_more_than_255_characters) {
  EXPECT_THROW(a_message(std::string(256, 'a')), std::invalid_argument);
  std::string surrogate_pairs;
  for (int i = 0; i < 128; ++i) surrogate_pairs += "\U0001F4E6";
  EXPECT_THROW(a_message(surrogate_pairs), std::invalid_argument);

  std::string umlauts;
  for (int i = 0; i < 255; ++i) umlauts += "ü";
  outbox().enqueue(a_message(umlauts));
  EXPECT_EQ(claim_one().topic.str(), umlauts);
}

TEST_P(Enqueue, OBX_008_keeps_an_empty_correlation_id_as_none) {
  NewMessage message = a_message();
  message.extras.correlation_id = CorrelationId::or_none("");
  outbox().enqueue(message);
  EXPECT_EQ(shown("CorrelationId"), "null");
  EXPECT_EQ(claim_one().correlation_id, std::nullopt);
}

TEST_P(Enqueue, OBX_009_refuses_a_correlation_id_of_more_than_255_characters) {
  EXPECT_THROW(CorrelationId::or_none(std::string(256, 'c')), std::invalid_argument);
  NewMessage message = a_message();
  message.extras.correlation_id = CorrelationId::or_none(std::string(255, 'c'));
  outbox().enqueue(message);
  EXPECT_EQ(claim_one().correlation_id, CorrelationId{std::string(255, 'c')});
}

TEST_P(Enqueue, OBX_010_tells_topics_apart_by_case) {
  outbox().enqueue(a_message("Order.Created"));
  clock().advance(1s);
  outbox().enqueue(a_message("order.created"));
  EXPECT_EQ(topics_of(outbox().claim(worker_a, 30s, 10)),
            (std::vector<std::string>{"Order.Created", "order.created"}));
}

TEST_P(Enqueue, OBX_011_takes_any_bytes_as_payload) {
  std::string bytes;
  for (int i = 0; i < 512; ++i) bytes += static_cast<char>(i);
  outbox().enqueue({.topic = Topic{"t"}, .payload = bytes});
  EXPECT_EQ(claim_one().payload, bytes);
}

TEST_P(Enqueue, OBX_012_holds_a_message_back_until_its_due_time) {
  NewMessage message = a_message();
  message.extras.due_at = clock().now() + 10min;
  outbox().enqueue(message);
  EXPECT_EQ(shown_time("DueTimeUtc"), clock().now() + 10min);
  clock().advance(10min - 1us);
  EXPECT_TRUE(outbox().claim(worker_a, 30s, 10).empty());
  clock().advance(1us);
  EXPECT_EQ(claim_one().due_at, clock().now());
}

TEST_P(Enqueue, OBX_013_hands_out_at_once_what_has_no_due_time_or_a_past_one) {
  outbox().enqueue(a_message("none"));
  NewMessage past = a_message("past");
  past.extras.due_at = clock().now() - 24h;
  outbox().enqueue(past);
  EXPECT_EQ(outbox().claim(worker_a, 30s, 10).size(), 2u);
}

TEST_P(Enqueue, OBX_013_gives_a_past_due_time_no_way_to_the_front) {
  outbox().enqueue(a_message("first"));
  clock().advance(1s);
  NewMessage past = a_message("second");
  past.extras.due_at = clock().now() - 24h;
  outbox().enqueue(past);
  EXPECT_EQ(topics_of(outbox().claim(worker_a, 30s, 1)), (std::vector<std::string>{"first"}));
}

TEST_P(Enqueue, OBX_014_gives_each_message_a_work_id_that_is_never_used_again) {
  const DeliveryId first = enqueue_and_claim(worker_a).delivery_id;
  ASSERT_EQ(outbox().ack(worker_a, first), 1u);
  const DeliveryId second = enqueue_and_claim(worker_a).delivery_id;
  EXPECT_GT(second, first);
  EXPECT_EQ(outbox().ack(worker_a, first), 0u);
}

TEST_P(Enqueue, OBX_015_notes_the_time_of_the_database) {
  Database database(test_store().address());
  Outbox outbox(database, options());
  const std::string clock_sql =
      on_postgres()    ? "select statement_timestamp()"
      : on_sqlserver() ? "select sysutcdatetime()"
                       : "select cast((julianday('now') - 2440587.5) * 86400000000 as integer)";
  const auto database_time = [&] {
    Instant now;
    database.in_transaction([&](Session& session) {
      session.execute(clock_sql, {}, [&](const Row& row) { now = row.instant(0); });
    });
    return now;
  };
  const Instant before = database_time();
  outbox.enqueue(a_message());
  const Instant after = database_time();
  const auto messages = outbox.claim(worker_a, 30s, 1);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_GE(messages[0].created_at, before - 1ms);
  EXPECT_LE(messages[0].created_at, after + 1ms);
}

TEST_P(Enqueue, OBX_016_begins_without_failures_and_unprocessed) {
  outbox().enqueue(a_message());
  EXPECT_EQ(shown("RetryCount"), "0");
  EXPECT_EQ(count("select count(*) from {schema}outbox where cast(IsProcessed as int) = 1"), 0);
  EXPECT_EQ(shown("Status"), "0");
  EXPECT_EQ(shown("LockedUntil"), "null");
  EXPECT_EQ(shown("OwnerToken"), "null");
  EXPECT_EQ(shown_time("CreatedAt"), clock().now());
  EXPECT_EQ(shown_time("NextAttemptAt"), clock().now());
  EXPECT_EQ(claim_one().attempts, 0);
}

TEST_P(Enqueue, keeps_every_field_of_a_message) {
  const Instant start = clock().now();
  const NewMessage message{
      .topic = Topic{"order.placed"},
      .payload = payload("all fields"),
      .id = MessageId{"order-17"},
      .source = Source{"shop"},
      .extras = {.correlation_id = CorrelationId{"basket-4"},
                 .partition_key = PartitionKey{"customer-9"},
                 .due_at = start + 5s,
                 .expires_at = start + 1h,
                 .content_type = "application/json",
                 .headers = R"({"traceparent": "00-1-2-01", "quote": "\" ' \\ ü"})",
                 .hash = ContentHash::of("all fields")}};
  EXPECT_EQ(outbox().enqueue(message).id, MessageId{"order-17"});
  clock().advance(6s);
  const Message claimed = claim_one();
  EXPECT_EQ(claimed.key(), (MessageKey{Source{"shop"}, MessageId{"order-17"}}));
  EXPECT_EQ(claimed.topic, message.topic);
  EXPECT_EQ(claimed.payload, message.payload);
  EXPECT_EQ(claimed.correlation_id, message.extras.correlation_id);
  EXPECT_EQ(claimed.partition_key, message.extras.partition_key);
  EXPECT_EQ(claimed.due_at, message.extras.due_at);
  EXPECT_EQ(claimed.expires_at, message.extras.expires_at);
  EXPECT_EQ(claimed.content_type, message.extras.content_type);
  EXPECT_EQ(claimed.headers, message.extras.headers);
  EXPECT_EQ(claimed.hash, message.extras.hash);
  EXPECT_EQ(claimed.handler, HandlerKey::by_topic());
  EXPECT_EQ(claimed.created_at, start);
  EXPECT_EQ(claimed.last_seen_at, start);
  EXPECT_EQ(claimed.visible_at, start + 5s);
  EXPECT_EQ(claimed.seen_count, 1);
  EXPECT_EQ(claimed.content_version, 1);
  EXPECT_EQ(claimed.requeues, 0);
}

TEST_P(Enqueue, leaves_out_what_a_message_does_not_have) {
  outbox().enqueue(a_message());
  const Message claimed = claim_one();
  EXPECT_EQ(claimed.source, Source::none());
  EXPECT_EQ(Uuid::parse(claimed.id.str()).bytes[6] >> 4, 7)
      << "not a UUID v7: " << claimed.id.str();
  EXPECT_EQ(claimed.correlation_id, std::nullopt);
  EXPECT_EQ(claimed.partition_key, std::nullopt);
  EXPECT_EQ(claimed.due_at, std::nullopt);
  EXPECT_EQ(claimed.expires_at, std::nullopt);
  EXPECT_EQ(claimed.content_type, std::nullopt);
  EXPECT_EQ(claimed.headers, std::nullopt);
  EXPECT_EQ(claimed.hash, std::nullopt);
  EXPECT_EQ(claimed.last_error, "");
}

TEST_P(Enqueue, refuses_headers_that_are_no_json_object_and_an_empty_hash) {
  NewMessage message = a_message();
  for (const char* headers : {"", "text", "[1]", "{\"a\": }", "{} {}"}) {
    message.extras.headers = headers;
    EXPECT_THROW(outbox().enqueue(message), std::invalid_argument) << headers;
  }
  message.extras.headers = {};
  message.extras.hash = ContentHash{.bytes = ""};
  EXPECT_THROW(outbox().enqueue(message), std::invalid_argument);
  EXPECT_EQ(rows("message"), 0);
}

TEST_P(Enqueue, SQL_in_a_text_is_text) {
  const std::string hostile = "'; drop table outbox_message; -- \" $1 @now {work} %s ?";
  const NewMessage message{.topic = Topic{hostile},
                           .payload = hostile,
                           .id = MessageId{hostile},
                           .source = Source{hostile},
                           .extras = {.correlation_id = CorrelationId{hostile},
                                      .partition_key = PartitionKey{hostile},
                                      .content_type = hostile}};
  outbox().enqueue(message);
  const Message claimed = claim_one();
  EXPECT_EQ(claimed.topic.str(), hostile);
  EXPECT_EQ(claimed.id.str(), hostile);
  EXPECT_EQ(claimed.source.str(), hostile);
  EXPECT_EQ(claimed.payload, hostile);
  EXPECT_EQ(claimed.correlation_id->str(), hostile);
  EXPECT_EQ(claimed.partition_key->str(), hostile);
  EXPECT_EQ(claimed.content_type, hostile);
}

TEST_P(Enqueue, OBX_096_takes_a_payload_of_64_MiB) {
  std::string large(64u << 20, 'x');
  for (std::size_t i = 0; i < large.size(); i += 4099) large[i] = static_cast<char>(i);
  outbox().enqueue({.topic = Topic{"large"}, .payload = large});
  EXPECT_TRUE(claim_one().payload == large);
}

TEST_P(Enqueue, OBX_080_stores_all_messages_of_a_batch_or_none) {
  refuse_topic("boom");
  const std::vector<NewMessage> batch{a_message("a"), a_message("boom"), a_message("c")};
  EXPECT_THROW(outbox().enqueue(batch), DatabaseError);
  EXPECT_EQ(rows("message"), 0);
  EXPECT_EQ(rows("work"), 0);

  const std::vector<Enqueued> ids = outbox().enqueue(std::span{batch}.first(1));
  EXPECT_EQ(names_of(outbox().claim(worker_a, 30s, 10)), std::vector{ids.at(0).id.str()});
}

TEST_P(Enqueue, stores_all_of_a_batch_with_and_without_partition_keys_or_none) {
  REQUIREMENT("OBX-080");
  refuse_topic("boom");
  std::vector<NewMessage> batch{a_message("a"), a_message("boom")};
  batch[1].extras.partition_key = PartitionKey{"k"};
  EXPECT_THROW(outbox().enqueue(batch), DatabaseError);
  EXPECT_EQ(rows("message"), 0);
}

TEST_P(Enqueue, answers_the_ids_of_a_batch_in_its_order) {
  std::vector<NewMessage> batch{a_message("a"), a_message("b"), a_message("c")};
  batch[0].id = MessageId{"z"};
  batch[2].id = MessageId{"a"};
  const std::vector<Enqueued> ids = outbox().enqueue(batch);
  ASSERT_EQ(ids.size(), 3u);
  EXPECT_EQ(ids[0].id, MessageId{"z"});
  EXPECT_EQ(ids[2].id, MessageId{"a"});
  EXPECT_EQ(outbox().claim(worker_a, 30s, 10).size(), 3u);
  EXPECT_TRUE(outbox().enqueue(std::vector<NewMessage>{}).empty());
}

TEST_P(Enqueue, keeps_the_first_content_when_a_batch_has_an_id_twice) {
  std::vector<NewMessage> batch{a_message("first", "1"), a_message("other"),
                                a_message("last", "2")};
  batch[0].id = batch[2].id = MessageId{"same"};
  const std::vector<Enqueued> answers = outbox().enqueue(batch);
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_FALSE(answers[0].duplicate);
  EXPECT_TRUE(answers[2].duplicate);
  EXPECT_TRUE(answers[2].conflict);
  EXPECT_EQ(rows("message"), 2);
  for (const Message& message : outbox().claim(worker_a, 30s, 10)) {
    if (message.id != MessageId{"same"}) continue;
    EXPECT_EQ(message.topic, Topic{"first"});
    EXPECT_EQ(message.payload, payload("1"));
    EXPECT_EQ(message.seen_count, 2);
    EXPECT_EQ(message.content_version, 1);
  }
}

TEST_P(Enqueue, reports_a_known_id_and_other_content_under_it_and_keeps_the_first) {
  NewMessage message = a_message("first", "1");
  message.id = MessageId{"same"};
  const auto expect = [&](const NewMessage& next, bool duplicate, bool conflict) {
    const Enqueued one = outbox().enqueue(next);
    EXPECT_EQ(one.id, MessageId{"same"});
    EXPECT_EQ(one.duplicate, duplicate);
    EXPECT_EQ(one.conflict, conflict);
  };
  expect(message, false, false);
  expect(message, true, false);
  NewMessage other = message;
  other.payload = payload("2");
  other.extras.due_at = clock().now() + 1h;
  other.extras.partition_key = PartitionKey{"k"};
  expect(other, true, true);
  other = message;
  other.topic = Topic{"second"};
  expect(other, true, true);
  const auto warnings = log().events("conflict");
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_EQ(warnings[0].field("id"), "same");
  const Message kept = claim_one();
  EXPECT_EQ(kept.topic, Topic{"first"});
  EXPECT_EQ(kept.payload, payload("1"));
  EXPECT_EQ(kept.partition_key, std::nullopt);
  EXPECT_EQ(kept.content_version, 1);
  expect(message, true, false);  // leased
  outbox().ack(worker_a, std::vector{kept.lease()});
  expect(other, true, true);  // done
}

TEST_P(Enqueue, loses_no_message_to_another_when_chance_makes_the_same_id_twice) {
  Environment repeating = environment();
  repeating.random = [] { return std::uint64_t{4}; };
  Database database(test_store().address(), {}, repeating);
  Outbox outbox(database, options());
  outbox.enqueue(a_message("first"));
  EXPECT_ANY_THROW(outbox.enqueue(a_message("second")));
  EXPECT_ANY_THROW(outbox.enqueue(std::vector{a_message("second")}));
  clock().advance(1s);
  EXPECT_THROW(outbox.enqueue(std::vector{a_message("second"), a_message("third")}), UsageError);
  EXPECT_EQ(topics_of(outbox.claim(worker_a, 30s, 10)), std::vector<std::string>{"first"});
}

TEST_P(Enqueue, meets_its_own_key_when_it_is_repeated_after_a_lost_answer) {
  NewMessage message = a_message();
  message.id = MessageId{"once"};
  outbox().enqueue(message);
  outbox().enqueue(message);
  ASSERT_EQ(outbox().ack(worker_a, claim_one()), 1u);
  outbox().enqueue(message);
  EXPECT_TRUE(outbox().claim(worker_a, 30s, 10).empty());
  EXPECT_EQ(rows("message"), 1);
  EXPECT_EQ(shown("Status"), "2");
}

TEST_P(Enqueue, leaves_a_dead_message_as_it_is_and_reports_the_conflict) {
  NewMessage message = a_message("t", "old");
  message.id = MessageId{"x"};
  outbox().enqueue(message);
  ASSERT_EQ(outbox().fail(worker_a, claim_one(), "bad content"), 1u);
  message.payload = payload("new");
  const Enqueued repeated = outbox().enqueue(message);
  EXPECT_TRUE(repeated.duplicate);
  EXPECT_TRUE(repeated.conflict);
  EXPECT_TRUE(outbox().claim(worker_a, 30s, 10).empty());
  EXPECT_EQ(shown("Status"), "3");
  EXPECT_EQ(count("select content_version from {schema}outbox_message"), 1);
}

TEST_P(Enqueue, tells_the_same_id_of_two_sources_apart) {
  NewMessage message = a_message();
  message.id = MessageId{"x"};
  message.source = Source{"one"};
  outbox().enqueue(message);
  message.source = Source{"two"};
  outbox().enqueue(message);
  EXPECT_EQ(outbox().claim(worker_a, 30s, 10).size(), 2u);
}

TEST_P(Enqueue, keeps_the_due_time_of_a_message_that_is_enqueued_again) {
  NewMessage message = a_message();
  message.id = MessageId{"x"};
  message.extras.due_at = clock().now() + 1min;
  outbox().enqueue(message);
  message.extras.due_at = {};
  const Enqueued repeated = outbox().enqueue(message);
  EXPECT_TRUE(repeated.duplicate);
  EXPECT_FALSE(repeated.conflict);
  EXPECT_TRUE(outbox().claim(worker_a, 30s, 10).empty());
  clock().advance(1min);
  EXPECT_EQ(claim_one().seen_count, 2);
}

TWINBOX_ON_EVERY_BACKEND(Enqueue);

class DurableEnqueue : public OutboxTest {};

TEST_P(DurableEnqueue, OBX_001_keeps_a_message_when_the_program_ends) {
  MessageId id{"none"};
  {
    Database database(test_store().address(), {}, environment());
    id = Outbox(database, options()).enqueue(a_message()).id;
  }
  EXPECT_EQ(names_of(outbox().claim(worker_a, 30s, 10)), std::vector{id.str()});
}

TWINBOX_ON_BACKENDS(DurableEnqueue, Backend::sqlite_file, Backend::postgres, Backend::sqlserver);

}  // namespace
}  // namespace twinbox::test
