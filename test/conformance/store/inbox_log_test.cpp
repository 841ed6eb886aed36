// What the inbox writes down: the act, its numbers and names, never a payload.
#include <tuple>

#include "support/inbox_test.hpp"

namespace twinbox::test {
namespace {

class InboxLog : public InboxTest {
 protected:
  /// The only event of this name.
  RecordedEvent only(std::string_view name) {
    const auto events = log().events(name);
    EXPECT_EQ(events.size(), 1u) << name;
    return events.at(0);
  }
};

TEST_P(InboxLog, IBX_107_tells_a_duplicate_check_and_its_answer_at_debug_level) {
  std::ignore = inbox().already_processed(a_key());
  RecordedEvent event = only("observe");
  EXPECT_EQ(event.level, LogLevel::debug);
  EXPECT_EQ(event.field("source"), "stripe");
  EXPECT_EQ(event.field("id"), "evt_1");
  EXPECT_EQ(event.field("done"), "false");
  inbox().mark_processed(a_key());
  log().clear();
  std::ignore = inbox().already_processed(a_key());
  EXPECT_EQ(only("observe").field("done"), "true");
}

TEST_P(InboxLog, IBX_108_tells_an_accept_at_info_level_with_topic_source_and_id) {
  inbox().accept(an_arrival());
  RecordedEvent event = only("accept");
  EXPECT_EQ(event.level, LogLevel::info);
  EXPECT_EQ(event.field("topic"), "payment.received");
  EXPECT_EQ(event.field("source"), "stripe");
  EXPECT_EQ(event.field("id"), "evt_1");
  EXPECT_EQ(event.field("answer"), "accepted");
  log().clear();
  inbox().accept(an_arrival());
  EXPECT_EQ(only("accept").field("answer"), "duplicate_open");
}

TEST_P(InboxLog, IBX_108_tells_each_accept_of_a_batch) {
  inbox().accept(std::vector{an_arrival("a"), an_arrival("b")});
  const auto events = log().events("accept");
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].field("id"), "a");
  EXPECT_EQ(events[1].field("id"), "b");
}

TEST_P(InboxLog, IBX_108_tells_nothing_of_an_accept_that_failed) {
  refuse_poison("insert");
  EXPECT_THROW(inbox().accept(an_arrival("evt_1", "stripe", "poison")), DatabaseError);
  EXPECT_THROW(inbox().accept(std::vector{an_arrival("a"), an_arrival("b", "stripe", "poison")}),
               DatabaseError);
  EXPECT_TRUE(log().events("accept").empty());
}

TEST_P(InboxLog, IBX_108_logs_an_operation_once_after_its_commit_and_none_that_was_rolled_back) {
  REQUIREMENT("IBX-112");
  FaultPlan plan;
  Database faulty = open_faulty(test_store().address(), plan, {.retries = 1}, environment());
  Inbox box{faulty, options()};
  using Kind = DatabaseError::Kind;
  const auto expect_told_once = [&](const char* event, const auto& act) {
    log().clear();
    plan.fail_commit(Kind::out_of_space);
    EXPECT_THROW(act(), DatabaseError) << event;
    EXPECT_TRUE(log().events(event).empty()) << event << " is told though it failed";
    plan.fail_commit(Kind::contention);
    act();
    EXPECT_EQ(plan.pending(), 0u);
    EXPECT_EQ(log().events(event).size(), 1u) << event;
  };
  std::vector<Message> held;
  expect_told_once("accept",
                   [&] { held = box.accept_and_claim(an_arrival("a"), worker_a, 30s).messages; });
  ASSERT_EQ(held.size(), 1u);
  expect_told_once("accept", [&] { box.mark_processed(an_arrival("b")); });
  expect_told_once("mark_dead", [&] { box.mark_dead(a_key("c"), "poison"); });
  expect_told_once("fail", [&] { box.fail(worker_a, held, "boom"); });
  box.accept(an_arrival("d"));
  std::ignore = box.claim(worker_a, 30s, 1);
  clock().advance(31s);
  expect_told_once("reap", [&] { box.reap(); });
  Arrival expiring = an_arrival("e");
  expiring.extras.expires_at = clock().now() + 1s;
  box.accept(expiring);
  clock().advance(2s);
  expect_told_once("expire", [&] { box.expire(); });
}

TEST_P(InboxLog, IBX_109_tells_a_claim_at_debug_level_with_its_count) {
  inbox().accept(an_arrival("a"));
  inbox().accept(an_arrival("b"));
  std::ignore = inbox().claim(worker_a, 30s, 10);
  const RecordedEvent event = only("claim");
  EXPECT_EQ(event.level, LogLevel::debug);
  EXPECT_EQ(event.field("count"), "2");
}

TEST_P(InboxLog, IBX_112_tells_a_reap_at_info_level_with_its_count) {
  inbox().accept(an_arrival());
  std::ignore = inbox().claim(worker_a, 30s, 10);
  clock().advance(30s);
  inbox().reap();
  const RecordedEvent event = only("reap");
  EXPECT_EQ(event.level, LogLevel::info);
  EXPECT_EQ(event.field("count"), "1");
}

TEST_P(InboxLog, IBX_113_IBX_127_names_the_store_in_every_event_and_shows_no_payload) {
  Arrival arrival = an_arrival();
  arrival.extras.headers = "{\"secret\": \"~payload~\"}";
  arrival.extras.hash = ContentHash::of("first");
  inbox().accept(arrival);
  arrival.extras.hash = ContentHash::of("second");
  const auto held = inbox().accept_and_claim(arrival, worker_a, 5s).messages;
  std::ignore = inbox().renew(worker_a, held, 5s);
  inbox().abandon(worker_a, held, "busy");
  std::ignore = inbox().already_processed(a_key());
  inbox().mark_dead(a_key(), "poison");
  inbox().mark_processed(a_key());
  std::ignore = inbox().already_processed(a_key("seen"));
  std::ignore = inbox().mark_processing(a_key("seen"));
  std::ignore = inbox().try_claim(a_key("gate"), Topic{"payment.received"});
  inbox().release_claim(a_key("gate"));
  inbox().accept(an_arrival("failing"));
  inbox().fail(worker_a, inbox().claim(worker_a, 30s, 1000), "boom");
  inbox().reap();
  inbox().expire();
  clock().advance(1h);
  inbox().prune({.older_than = 1s});
  refuse_poison("insert");
  EXPECT_THROW(inbox().accept(an_arrival("evt_1", "stripe", "poison")), DatabaseError);

  const auto events = log().events();
  EXPECT_GE(events.size(), 18u);
  for (const RecordedEvent& event : events) {
    EXPECT_EQ(event.field("store"), "test store") << event.name;
    for (const auto& [name, value] : event.fields) {
      EXPECT_EQ(value.find(payload_mark), std::string::npos) << event.name << ' ' << name;
    }
  }
}

TEST_P(InboxLog, IBX_127_shows_no_payload_in_the_text_of_an_error) {
  inbox();
  write(on_postgres() ? "alter table {schema}inbox_message add check (octet_length(payload) < 5)"
        : on_sqlserver()
            ? "alter table {schema}inbox_message add check (datalength(payload) < 5)"
            : "create trigger refuse before insert on inbox_message "
              "when length(new.payload) >= 5 begin select raise(abort, 'refused'); end");
  try {
    inbox().accept(an_arrival());
    FAIL() << "the payload was taken";
  } catch (const DatabaseError& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.find(payload_mark), std::string::npos) << text;
    EXPECT_EQ(text.find("7e7061796c6f6164"), std::string::npos) << text;
  }
}

TEST_P(InboxLog, IBX_119_advises_once_about_a_lease_that_is_not_10_to_300_seconds) {
  std::ignore = inbox().claim(worker_a, 10s, 1);
  std::ignore = inbox().claim(worker_a, 300s, 1);
  EXPECT_TRUE(log().events("unusual_lease").empty());
  std::ignore = inbox().claim(worker_a, 301s, 1);
  std::ignore = inbox().claim(worker_a, 9s, 1);
  EXPECT_EQ(only("unusual_lease").level, LogLevel::warning);
}

TEST_P(InboxLog, IBX_119_advises_about_a_short_lease) {
  std::ignore = inbox().claim(worker_a, 9s, 1);
  EXPECT_EQ(only("unusual_lease").level, LogLevel::warning);
}

TEST_P(InboxLog, IBX_120_advises_once_about_a_batch_that_is_not_1_to_100) {
  std::ignore = inbox().claim(worker_a, 30s, 1);
  std::ignore = inbox().claim(worker_a, 30s, 100);
  EXPECT_TRUE(log().events("unusual_batch").empty());
  std::ignore = inbox().claim(worker_a, 30s, 101);
  std::ignore = inbox().claim(worker_a, 30s, 102);
  EXPECT_EQ(only("unusual_batch").level, LogLevel::warning);
}

TWINBOX_ON_EVERY_BACKEND(InboxLog);

}  // namespace
}  // namespace twinbox::test
