// Outbox and inbox as the stores of an event bus.
#include "support/backend.hpp"
#include <twinbox/event_bus.hpp>
#include <twinbox/operations.hpp>

namespace twinbox::test {
namespace {

EventRecord an_event(std::string id = "e1") {
  return {.id = MessageId::event_id(std::move(id)),
          .name = Topic::event_name("order.created.v1"),
          .data = payload(),
          .extra_properties = R"({"tenant":"t1"})"};
}

/// Errors as they come from anywhere: too long, with NUL, not UTF-8, blank; and what is kept.
std::vector<std::pair<std::string, std::string>> odd_errors() {
  using namespace std::string_literals;
  return {{"a\0b"s, "a\uFFFDb"},
          {"caf\xE9"s, "caf\uFFFD"},
          {" \t"s, "discarded"},
          {std::string(5000, 'e'), std::string(3993, 'e') + "… (cut)"}};
}

class EventOutbox : public BoxTest {
 protected:
  EventOutboxStore store() { return {outbox(), worker_a}; }
};

TEST_P(EventOutbox, EVB_04_stores_hands_out_updates_finds_for_cleanup_and_deletes) {
  store().store(an_event());
  const auto events = store().unprocessed(10, 5);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].event.data, payload());
  EXPECT_EQ(events[0].event.extra_properties, R"({"tenant":"t1"})");
  EXPECT_TRUE(store().unprocessed(10, 5).empty());
  EXPECT_TRUE(store().update(events[0], {.status = EventStatus::processed}));
  EXPECT_FALSE(store().update(events[0], {.status = EventStatus::processed}));
  EXPECT_TRUE(store().processed(clock().now() - 1s, 10).empty());
  const auto old = store().processed(clock().now(), 10);
  ASSERT_EQ(old.size(), 1u);
  EXPECT_EQ(old[0].status, EventStatus::processed);
  EXPECT_EQ(old[0].handled_at, clock().now());
  EXPECT_EQ(store().remove(old), 1u);
  EXPECT_FALSE(Admin{outbox()}.get(an_event().id));
}

TEST_P(EventOutbox, an_event_that_failed_often_enough_becomes_dead) {
  store().store(an_event());
  for (int failure = 0; failure < 2; ++failure) {
    const auto events = store().unprocessed(10, 2);
    ASSERT_EQ(events.size(), 1u);
    EXPECT_TRUE(store().update(events[0], {.error = "broker down", .retry_after = Duration{1min}}));
    clock().advance(1min);
  }
  EXPECT_TRUE(store().unprocessed(10, 2).empty());
  const Page dead = Admin{outbox()}.list({.state = StateFilter::dead});
  ASSERT_EQ(dead.entries.size(), 1u);
  EXPECT_EQ(dead.entries[0].delivery.last_error, "broker down");
  EXPECT_EQ(dead.entries[0].delivery.reason, "max_retries");
}

TEST_P(EventOutbox, only_the_holder_of_an_event_can_discard_it) {
  store().store(an_event());
  const auto events = store().unprocessed(1, 5);
  ASSERT_EQ(events.size(), 1u);
  clock().advance(31s);
  ASSERT_EQ(outbox().claim(worker_b, 30s, 1).size(), 1u);
  EXPECT_FALSE(store().update(events[0], {.status = EventStatus::discarded}));
  EXPECT_EQ(Admin{outbox()}.counts().all.leased, 1);
  EXPECT_THROW(store().remove(events), UsageError);
}

TEST_P(EventOutbox, EVB_04_discards_with_any_error_cut_and_cleaned) {
  for (const auto& [error, kept] : odd_errors()) {
    store().store(an_event(std::to_string(error.size())));
    const auto events = store().unprocessed(1, 5);
    ASSERT_EQ(events.size(), 1u);
    EXPECT_TRUE(store().update(events[0], {.status = EventStatus::discarded, .error = error}));
    EXPECT_EQ(Admin{outbox()}.get(events[0].event.id)->deliveries.at(0).reason, kept);
  }
}

TEST_P(EventOutbox, stores_in_the_callers_transaction) {
  outbox();
  try {
    database().in_transaction([&](Session& session) {
      store().store(session, an_event());
      throw std::runtime_error("no");
    });
  } catch (const std::runtime_error&) {
  }
  EXPECT_TRUE(store().unprocessed(10, 5).empty());
}

TEST_P(EventOutbox, EVB_22_takes_names_of_500_and_ids_of_256_characters) {
  EventRecord event = an_event(std::string(256, 'i'));
  event.name = Topic::event_name(std::string(500, 'n'));
  store().store(event);
  ASSERT_EQ(store().unprocessed(1, 5).size(), 1u);
  EXPECT_THROW(Topic::event_name(std::string(501, 'n')), std::invalid_argument);
  EXPECT_THROW(MessageId::event_id(std::string(257, 'i')), std::invalid_argument);
}

TWINBOX_ON_EVERY_BACKEND(EventOutbox);

class EventInbox : public BoxTest {
 protected:
  EventInboxStore store() { return {inbox(), worker_a}; }
};

TEST_P(EventInbox, EVB_05_inserts_finds_marks_and_cleans_up) {
  const MessageId id = an_event().id;
  EXPECT_FALSE(store().has_processed(id));
  store().insert(an_event());
  ASSERT_TRUE(store().get(id));
  EXPECT_EQ(store().get(id)->status, EventStatus::pending);
  store().mark_processed(an_event());
  EXPECT_TRUE(store().has_processed(id));
  EXPECT_EQ(store().get(id)->status, EventStatus::processed);
  EXPECT_TRUE(store().for_cleanup(clock().now() - 1s, 10).empty());
  const auto old = store().for_cleanup(clock().now(), 10);
  ASSERT_EQ(old.size(), 1u);
  EXPECT_EQ(store().remove(old), 1u);
  EXPECT_FALSE(store().get(id));
}

TEST_P(EventInbox, marks_an_unknown_event_processed) {
  store().mark_processed(an_event());
  EXPECT_TRUE(store().has_processed(an_event().id));
}

TEST_P(EventInbox, EVB_10_a_failed_event_is_pending_with_its_next_retry_and_can_be_discarded) {
  const MessageId id = an_event().id;
  EXPECT_TRUE(
      store().update(an_event(), {.error = "no such order", .retry_after = Duration{1min}}));
  auto event = store().get(id);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->status, EventStatus::pending);
  EXPECT_EQ(event->retry_count, 1);
  EXPECT_EQ(event->next_retry_at, clock().now() + 1min);
  EXPECT_EQ(event->last_error, "no such order");
  EXPECT_TRUE(store().update(an_event(), {.error = "again", .retry_after = Duration{2min}}));
  EXPECT_EQ(store().get(id)->retry_count, 2);
  EXPECT_EQ(store().get(id)->next_retry_at, clock().now() + 2min);
  EXPECT_TRUE(store().update(an_event(), {.status = EventStatus::discarded, .error = "obsolete"}));
  event = store().get(id);
  EXPECT_EQ(event->status, EventStatus::discarded);
  EXPECT_EQ(event->handled_at, clock().now());
}

TEST_P(EventInbox, EVB_05_discards_with_any_error_cut_and_cleaned) {
  for (const auto& [error, kept] : odd_errors()) {
    const EventRecord event = an_event(std::to_string(error.size()));
    store().insert(event);
    EXPECT_TRUE(store().update(event, {.status = EventStatus::discarded, .error = error}));
    EXPECT_EQ(Admin{inbox()}.get(event.id)->deliveries.at(0).reason, kept);
  }
}

TWINBOX_ON_EVERY_BACKEND(EventInbox);

}  // namespace
}  // namespace twinbox::test
