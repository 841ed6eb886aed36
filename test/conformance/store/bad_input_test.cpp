// What cannot be stored is refused by name, before anything is written.
#include <limits>
#include <stdexcept>
#include <tuple>

#include "support/backend.hpp"
#include "support/reused_schema.hpp"
#include <twinbox/event_bus.hpp>
#include <twinbox/operations.hpp>
#include <twinbox/schema.hpp>

namespace twinbox::test {
namespace {

class BadInput : public BoxTest {
 protected:
  void expect_nothing_written() {
    for (const char* table : {"outbox_message", "outbox_work", "outbox_outcome", "inbox_message",
                              "inbox_work", "inbox_outcome"}) {
      EXPECT_EQ(read("select count(*) from {schema}" + std::string{table}), "0") << table;
    }
  }

  /// Expects an exception of this kind whose words name `noun`.
  template <class Error, class F>
  void expect_refused(const F& body, std::string_view noun) {
    try {
      body();
      ADD_FAILURE() << "not refused: " << noun;
    } catch (const Error& error) {
      EXPECT_NE(std::string_view{error.what()}.find(noun), std::string_view::npos) << error.what();
    }
  }
};

std::string repeated(std::string_view text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

const std::string hostile = "'); drop table outbox_message; --\"$$ {now} @id \\ %s";

TEST_P(BadInput, texts_that_no_database_keeps_are_refused_by_name) {
  REQUIREMENT(
      "OBX-004, OBX-007, OBX-009, IBX-009, IBX-010, IBX-011, IBX-012, IBX-015, IBX-016, "
      "IBX-017, IBX-020");
  outbox();
  inbox();
  const std::vector<std::string> bad{"",
                                     " \t\n",
                                     "\xC2\xA0",
                                     "\xff",
                                     "\xC0\xAF",
                                     "\xED\xA0\x80",
                                     std::string("a\0b", 3),
                                     std::string(256, 'x'),
                                     repeated("\U0001F600", 128)};
  for (const std::string& text : bad) {
    using Invalid = std::invalid_argument;
    expect_refused<Invalid>([&] { outbox().enqueue(a_message(text)); }, "topic");
    expect_refused<Invalid>([&] { inbox().accept(an_arrival(text)); }, "message id");
    expect_refused<Invalid>([&] { inbox().accept(an_arrival("id", text)); }, "source");
    expect_refused<Invalid>([&] { inbox().accept(an_arrival("id", "source", text)); }, "topic");
    expect_refused<Invalid>([&] { std::ignore = inbox().already_processed(a_key(text)); },
                            "message id");
    expect_refused<Invalid>([&] { std::ignore = inbox().already_processed(a_key("id", text)); },
                            "source");
    expect_refused<Invalid>([&] { HandlerKey{text}; }, "handler key");
    expect_refused<Invalid>([&] { CorrelationId{text}; }, "correlation id");
    expect_refused<Invalid>([&] { PartitionKey{text}; }, "partition key");
  }
  expect_nothing_written();
}

TEST_P(BadInput, the_longest_texts_fit) {
  const std::string longest(255, 'x');
  const std::string wide = repeated("\U0001F600", 127) + "é";
  for (const std::string& text : {longest, wide}) {
    Arrival arrival = an_arrival(text, text, text);
    arrival.extras.correlation_id = CorrelationId{text};
    arrival.extras.partition_key = PartitionKey{text};
    inbox().accept(arrival);
    const auto claimed = inbox().claim(worker_a, 30s, 10);
    ASSERT_EQ(claimed.size(), 1u);
    EXPECT_EQ(claimed.front().key(), arrival.key());
    EXPECT_EQ(claimed.front().topic.str(), text);
    EXPECT_EQ(claimed.front().partition_key->str(), text);
  }
}

TEST_P(BadInput, headers_must_be_a_json_object) {
  for (const char* headers : {"", "[]", "1", "null", "{", "{}x", "{\"a\":}", "{\"a\":\"\xff\"}"}) {
    NewMessage message = a_message();
    message.extras.headers = headers;
    Arrival arrival = an_arrival();
    arrival.extras.headers = headers;
    expect_refused<std::invalid_argument>([&] { outbox().enqueue(message); }, "headers");
    expect_refused<std::invalid_argument>(
        [&] {
          outbox().enqueue(std::vector<NewMessage>{a_message(), message});
        },
        "headers");
    expect_refused<std::invalid_argument>([&] { inbox().accept(arrival); }, "headers");
    expect_refused<std::invalid_argument>(
        [&] { std::ignore = inbox().accept_and_claim(arrival, worker_a, 30s); }, "headers");
    expect_refused<std::invalid_argument>([&] { inbox().mark_processed(arrival); }, "headers");
  }
  expect_nothing_written();
}

TEST_P(BadInput, a_content_type_and_an_algorithm_that_are_no_text_are_refused) {
  outbox();
  inbox();
  for (const std::string& text : {std::string{"\xff"}, std::string("a\0b", 3)}) {
    NewMessage message = a_message();
    message.extras.content_type = text;
    EXPECT_THROW(outbox().enqueue(message), std::invalid_argument);
    Arrival arrival = an_arrival();
    arrival.extras.hash = ContentHash{"bytes", text};
    EXPECT_THROW(inbox().accept(arrival), std::invalid_argument);
  }
  Arrival arrival = an_arrival();
  arrival.extras.hash = ContentHash{""};
  expect_refused<std::invalid_argument>([&] { inbox().accept(arrival); }, "hash");
  expect_nothing_written();
}

TEST_P(BadInput, OBX_027_leases_delays_and_limits_that_make_no_sense_are_refused) {
  REQUIREMENT("OBX-028");
  using Range = std::out_of_range;
  outbox().enqueue(a_message());
  for (const Duration lease : {Duration{0}, Duration{-1}, Duration::max(), Duration::min()}) {
    expect_refused<Range>([&] { std::ignore = outbox().claim(worker_a, lease, 1); }, "lease");
    expect_refused<Range>([&] { std::ignore = outbox().renew(worker_a, DeliveryId{1}, lease); },
                          "lease");
    expect_refused<Range>(
        [&] { std::ignore = inbox().accept_and_claim(an_arrival(), worker_a, lease); }, "lease");
    expect_refused<Range>([&] { outbox().abandon(worker_a, DeliveryId{1}, "error", lease); },
                          "delay");
  }
  constexpr auto lowest = std::numeric_limits<std::int64_t>::min();
  constexpr auto highest = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t limit : {std::int64_t{0}, std::int64_t{-1}, lowest, highest}) {
    expect_refused<Range>([&] { std::ignore = outbox().claim(worker_a, 30s, limit); }, "limit");
    expect_refused<Range>([&] { outbox().reap(limit); }, "limit");
    expect_refused<Range>([&] { outbox().expire(limit); }, "limit");
    expect_refused<Range>([&] { outbox().prune({.older_than = 1s, .batch = limit}); }, "limit");
  }
  expect_refused<Range>([&] { outbox().prune({.older_than = 1s, .limit = 0}); }, "limit");
  expect_refused<Range>([&] { outbox().prune({.older_than = -1s}); }, "older_than");
  database().in_transaction([&](Session& session) {
    expect_refused<Range>([&] { std::ignore = outbox().claim(session, worker_a, 0s, 1); }, "lease");
    expect_refused<Range>([&] { std::ignore = outbox().claim(session, worker_a, 30s, 0); },
                          "limit");
    expect_refused<Range>([&] { outbox().reap(session, 0); }, "limit");
  });
  const auto claimed = outbox().claim(worker_a, 30s, 1);
  ASSERT_EQ(claimed.size(), 1u);
  EXPECT_EQ(claimed.front().epoch, 1) << "no refused claim has touched it";
}

TEST_P(BadInput, limits_of_the_operations_and_of_event_stores_that_make_no_sense_are_refused) {
  using Range = std::out_of_range;
  outbox().enqueue(a_message());
  Admin admin{outbox()};
  EventOutboxStore events{outbox(), worker_a};
  EventInboxStore arrived{inbox(), worker_a};
  for (const std::int64_t limit : {std::int64_t{0}, std::int64_t{-1}, INT64_MIN}) {
    expect_refused<Range>([&] { std::ignore = admin.list({}, limit); }, "limit");
    expect_refused<Range>([&] { std::ignore = admin.held_keys(limit); }, "limit");
    expect_refused<Range>([&] { admin.requeue(Filter{}, {}, {.limit = limit}); }, "limit");
    expect_refused<Range>([&] { admin.requeue(Filter{}, {}, {.batch = limit}); }, "limit");
    expect_refused<Range>([&] { std::ignore = events.unprocessed(limit, 5); }, "limit");
    expect_refused<Range>([&] { std::ignore = events.processed(clock().now(), limit); }, "limit");
    expect_refused<Range>([&] { std::ignore = arrived.for_cleanup(clock().now(), limit); },
                          "limit");
  }
  EXPECT_EQ(admin.list({.state = StateFilter::ready}).entries.size(), 1u);
}

TEST_P(BadInput, an_error_that_no_database_could_contain_is_not_looked_for) {
  outbox().enqueue(a_message());
  Admin admin{outbox()};
  for (const std::string& text : {std::string{"\xff"}, std::string("a\0b", 3)}) {
    const Filter filter{.error_contains = text};
    using Invalid = std::invalid_argument;
    expect_refused<Invalid>([&] { std::ignore = admin.list(filter); }, "error_contains");
    expect_refused<Invalid>([&] { admin.requeue(filter); }, "error_contains");
    expect_refused<Invalid>([&] { admin.requeue(filter, {}, {.operation_id = "once"}); },
                            "error_contains");
    expect_refused<Invalid>([&] { admin.requeue(filter, {}, {.dry_run = true}); },
                            "error_contains");
    expect_refused<Invalid>([&] { admin.prune(filter); }, "error_contains");
  }
  EXPECT_EQ(read("select count(*) from {schema}outbox_audit"), "0");
  EXPECT_EQ(admin.list({.state = StateFilter::ready}).entries.size(), 1u);
}

TEST_P(BadInput, IBX_130_an_all_zero_owner_cannot_be_made) {
  EXPECT_THROW(OwnerToken{Uuid{}}, std::invalid_argument);
  EXPECT_THROW(OwnerToken{Uuid::parse("00000000-0000-0000-0000-000000000000")},
               std::invalid_argument);
}

TEST_P(BadInput, sql_in_every_text_is_only_text) {
  if (on_sqlserver() && is_stand_in())
    GTEST_SKIP() << "the stand-in leaves escapes in JSON as they are";
  Arrival arrival = an_arrival(hostile, hostile, hostile);
  arrival.payload = payload(hostile);
  arrival.extras.correlation_id = CorrelationId{hostile};
  arrival.extras.partition_key = PartitionKey{hostile};
  arrival.extras.content_type = hostile;
  arrival.extras.headers = R"({"'); drop table outbox_message; --": "@id {now}"})";
  arrival.extras.hash = ContentHash{hostile, hostile};
  const std::vector<HandlerName> handlers{{HandlerKey{hostile}, {HandlerKey{hostile + "2"}}}};
  EXPECT_EQ(inbox().accept(arrival, handlers).state, Acceptance::accepted);
  const auto claimed = inbox().claim(worker_a, 30s, 10);
  ASSERT_EQ(claimed.size(), 1u);
  const Message& message = claimed.front();
  EXPECT_EQ(message.key(), arrival.key());
  EXPECT_EQ(message.topic, arrival.topic);
  EXPECT_EQ(message.payload, arrival.payload);
  EXPECT_EQ(message.handler.str(), hostile);
  EXPECT_EQ(message.correlation_id, arrival.extras.correlation_id);
  EXPECT_EQ(message.partition_key, arrival.extras.partition_key);
  EXPECT_EQ(message.content_type, arrival.extras.content_type);
  EXPECT_EQ(message.headers, arrival.extras.headers);
  EXPECT_EQ(message.hash, arrival.extras.hash);
  EXPECT_EQ(inbox().abandon(worker_a, claimed, hostile, 1s), 1u);
  clock().advance(2s);
  const auto again = inbox().claim(worker_a, 30s, 10);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again.front().last_error, hostile);
  EXPECT_EQ(inbox().fail(worker_a, again, hostile, {.reason = hostile}), 1u);
  EXPECT_EQ(inbox().state(arrival.key()), MessageState::dead);
  EXPECT_TRUE(inbox().try_claim(a_key(hostile, "gate"), Topic{hostile}, HandlerKey{hostile}));
}

TEST_P(BadInput, an_error_text_of_any_bytes_is_kept_readable) {
  outbox().enqueue(a_message());
  const auto held = outbox().claim(worker_a, 30s, 1);
  const std::string any = std::string("a\0b\xff", 4) + std::string(10'000, 'x');
  ASSERT_EQ(outbox().abandon(worker_a, held, any, 1s), 1u);
  clock().advance(2s);
  const auto again = outbox().claim(worker_a, 30s, 1);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_TRUE(again.front().last_error.starts_with("a\uFFFDb\uFFFDx"));
  EXPECT_TRUE(again.front().last_error.ends_with("(cut)"));
  EXPECT_EQ(outbox().fail(worker_a, again, any, {.reason = any}), 1u);
}

TEST_P(BadInput, OBX_006_payloads_of_any_bytes_come_back_as_they_were) {
  REQUIREMENT("IBX-019");
  std::string every_byte;
  for (int i = 0; i < 256; ++i) every_byte += static_cast<char>(i);
  const std::vector<std::string> payloads{"", every_byte, std::string(1 << 20, '\0')};
  for (const std::string& bytes : payloads) {
    outbox().enqueue({.topic = Topic{"t"}, .payload = bytes});
    const auto held = outbox().claim(worker_a, 30s, 1);
    ASSERT_EQ(held.size(), 1u);
    EXPECT_TRUE(held.front().payload == bytes);
    EXPECT_EQ(outbox().ack(worker_a, held), 1u);
  }
}

TEST_P(BadInput, unknown_and_impossible_ids_change_nothing) {
  outbox().enqueue(a_message());
  const auto held = outbox().claim(worker_a, 30s, 1);
  const std::vector<DeliveryId> strange{DeliveryId{0}, DeliveryId{-1},
                                        DeliveryId{std::numeric_limits<std::int64_t>::max()},
                                        DeliveryId{std::numeric_limits<std::int64_t>::min()}};
  EXPECT_EQ(outbox().ack(worker_a, strange), 0u);
  EXPECT_EQ(outbox().fail(worker_a, strange, "error"), 0u);
  EXPECT_EQ(outbox().abandon(worker_a, strange), 0u);
  EXPECT_TRUE(outbox().renew(worker_a, strange, 30s).empty());
  const std::vector<Lease> twice{held.front().lease(), held.front().lease()};
  EXPECT_EQ(outbox().ack(worker_a, twice), 1u);
}

TEST_P(BadInput, names_of_schemas_and_tables_may_be_anything_that_can_be_quoted) {
  if (on_sqlserver() && is_stand_in())
    GTEST_SKIP() << "the stand-in takes some names apart though they are quoted";
  const std::vector<std::string> names{
      "Out\"box", "drop table x; --", "it's", "select", "ключ ☃", "{now}",
      "@id",      "a b\nc",           "$1",   "%s\\"};
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    BoxOptions named = options();
    named.table = name;
    if (on_sqlite()) named.schema = name;
    Inbox box(database(), named);
    Arrival arrival = an_arrival();
    arrival.extras.partition_key = PartitionKey{"customer 1"};
    EXPECT_EQ(box.accept(arrival).state, Acceptance::accepted);
    database().in_transaction([&](Session& session) {
      EXPECT_EQ(box.accept(session, arrival).state, Acceptance::duplicate_open);
      EXPECT_EQ(box.claim(session, worker_a, 30s, 1).size(), 1u);
    });
    clock().advance(31s);
    const auto held = box.claim(worker_b, 30s, 1);
    ASSERT_EQ(held.size(), 1u);
    EXPECT_EQ(box.ack(worker_b, held), 1u);
    clock().advance(48h);
    EXPECT_EQ(box.prune({.older_than = 24h}), 1u);
    EXPECT_TRUE(Schema(database(), BoxKind::inbox, named).deploy().empty());
  }
}

TEST_P(BadInput, names_that_cannot_be_used_are_refused_before_anything_is_made) {
  std::vector<std::string> bad{std::string(41, 'x'), std::string("a\0b", 3), "\xff"};
  if (!on_sqlserver()) bad.emplace_back(on_postgres() ? "a$b$c" : "sqlite_x");
  for (const std::string& name : bad) {
    BoxOptions named = options();
    named.table = name;
    expect_refused<std::invalid_argument>([&] { Outbox box(database(), named); }, "table name");
    expect_refused<std::invalid_argument>([&] { Schema(database(), BoxKind::inbox, named); },
                                          "table name");
  }
  bad.front() = std::string(64, 'x');
  bad.emplace_back();
  if (on_postgres()) bad.emplace_back("pg_x");
  for (const std::string& name : bad) {
    BoxOptions named = options();
    named.schema = name;
    expect_refused<std::invalid_argument>([&] { Outbox box(database(), named); }, "schema name");
  }
}

TEST_P(BadInput, tables_that_are_too_new_are_refused_and_left_alone) {
  outbox().enqueue(a_message());
  write(
      "update {schema}twinbox_schema set version = 9999 where version is not null and box = "
      "'outbox'");
  expect_refused<SchemaError>([&] { Outbox box(database(), options()); }, "9999");
  expect_refused<SchemaError>([&] { Schema(database(), BoxKind::outbox, options()).deploy(); },
                              "newer program");
  EXPECT_TRUE(Schema(database(), BoxKind::outbox, options()).check().too_new());
  EXPECT_EQ(read("select count(*) from {schema}outbox_message"), "1");
  EXPECT_NO_THROW(inbox().accept(an_arrival())) << "the inbox is not";
}

/// Has a transaction, but speaks to another kind of database.
class Stranger final : public Session {
 public:
  explicit Stranger(Dialect dialect) : dialect_(dialect) {}
  [[nodiscard]] Dialect dialect() const noexcept override { return dialect_; }
  [[nodiscard]] bool in_transaction() const override { return true; }
  std::size_t execute(const Statement&, std::span<const Arg>, RowSink) override { return fail(); }

 private:
  std::size_t execute_text(std::string_view, std::span<const Arg>, RowSink) override {
    return fail();
  }
  static std::size_t fail() {
    ADD_FAILURE() << "it was used";
    return 0;
  }

  Dialect dialect_;
};

TEST_P(BadInput, a_session_of_another_database_is_refused) {
  Stranger stranger(on_postgres() ? Dialect::sqlite : Dialect::postgres);
  EXPECT_THROW(outbox().enqueue(stranger, a_message()), UsageError);
  EXPECT_THROW(std::ignore = outbox().claim(stranger, worker_a, 30s, 1), UsageError);
  EXPECT_THROW(outbox().ack(stranger, worker_a, DeliveryId{1}), UsageError);
  EXPECT_THROW(outbox().prune(stranger, {.older_than = 1s}), UsageError);
  EXPECT_THROW(inbox().accept(stranger, an_arrival()), UsageError);
  EXPECT_THROW(std::ignore = inbox().accept_and_claim(stranger, an_arrival(), worker_a, 30s),
               UsageError);
  EXPECT_THROW(inbox().observe(stranger, a_key()), UsageError);
  EXPECT_THROW(inbox().mark_processed(stranger, an_arrival()), UsageError);
  expect_nothing_written();
}

TEST_P(BadInput, an_address_that_cannot_be_understood_is_refused_without_showing_it) {
  for (const char* address : {"", "sqlite:", "mysql://root:geheim@host/db", "store.db",
                              "postgresql://u:geheim@host/db?nonsense=1"}) {
    try {
      Database database{address};
      ADD_FAILURE() << address;
    } catch (const std::invalid_argument& error) {
      EXPECT_EQ(std::string_view{error.what()}.find("geheim"), std::string_view::npos);
    }
  }
}

TWINBOX_ON_EVERY_BACKEND(BadInput);

}  // namespace
}  // namespace twinbox::test
