// What the library does in a transaction of its own is told when that is committed: one that is
// repeated is told once, one that failed is not told.
#include <stdexcept>
#include <string>
#include <vector>

#include "support/backend.hpp"
#include <twinbox/dispatcher.hpp>
#include <twinbox/event_bus.hpp>
#include <twinbox/operations.hpp>

namespace twinbox::test {
namespace {

using Kind = DatabaseError::Kind;

class LoggedOnce : public BoxTest {
 protected:
  template <class Body>
  void expect_told_once(const std::vector<std::string>& events, const Body& body) {
    log().clear();
    plan_.fail_commit(Kind::out_of_space);
    EXPECT_THROW(body(), DatabaseError);
    for (const std::string& event : events)
      EXPECT_TRUE(log().events(event).empty()) << event << " is told though it failed";
    plan_.fail_commit(Kind::contention);
    body();
    EXPECT_EQ(plan_.pending(), 0u);
    for (const std::string& event : events) EXPECT_EQ(log().events(event).size(), 1u) << event;
  }

  /// The number of a message that has failed.
  std::int64_t a_dead_message() {
    const MessageId id = sent_.enqueue(a_message()).id;
    sent_.fail(worker_a, sent_.claim(worker_a, 30s, 1), "boom");
    return Admin{sent_}.get(id)->message.number;
  }

  FaultPlan plan_;
  Database faulty_ = open_faulty(test_store().address(), plan_, {.retries = 1}, environment());
  Outbox sent_{faulty_, options()};
  Inbox received_{faulty_, options()};
  const Admin::Edit better_{.payload = payload("better"), .requeue = true};
};

TEST_P(LoggedOnce, an_edit_and_the_requeue_that_belongs_to_it) {
  const std::int64_t number = a_dead_message();
  expect_told_once({"edit", "requeue"}, [&] { EXPECT_TRUE(Admin{sent_}.edit(number, better_)); });
}

TEST_P(LoggedOnce, no_part_of_an_operation_in_a_callers_transaction_that_failed) {
  const std::int64_t number = a_dead_message();
  log().clear();
  plan_.fail_statement(Kind::other, 2, "operation_move");  // of the edit, behind the requeue's
  const auto edit = [&](Session& session) { Admin{sent_}.edit(session, number, better_); };
  EXPECT_THROW(faulty_.in_transaction(edit), DatabaseError);
  EXPECT_EQ(plan_.pending(), 0u);
  EXPECT_TRUE(log().events("requeue").empty());
  EXPECT_TRUE(log().events("edit").empty());
}

TEST_P(LoggedOnce, EVB_04_an_event_of_the_outbox_that_is_discarded) {
  EventOutboxStore store{sent_, worker_a};
  store.store({MessageId{"e1"}, Topic{"order.created"}, payload()});
  const std::vector<StoredEvent> held = store.unprocessed(1, 5);
  ASSERT_EQ(held.size(), 1u);
  expect_told_once({"release", "discard"}, [&] {
    EXPECT_TRUE(store.update(held[0], {.status = EventStatus::discarded, .error = "no"}));
  });
}

TEST_P(LoggedOnce, EVB_05_an_event_of_the_inbox_that_is_to_be_tried_again) {
  EventInboxStore store{received_, worker_a};
  expect_told_once({"accept", "abandon"}, [&] {
    EXPECT_TRUE(store.update({MessageId{"e1"}, Topic{"order.created"}, payload()}, {}));
  });
}

TEST_P(LoggedOnce, what_is_asked_and_marked_by_the_id_of_a_message) {
  expect_told_once({"observe"}, [&] { EXPECT_FALSE(received_.already_processed(a_key())); });
  expect_told_once({"mark_processing"}, [&] { EXPECT_TRUE(received_.mark_processing(a_key())); });
  const MessageKey other = a_key("evt_2");
  expect_told_once({"try_claim"}, [&] { EXPECT_TRUE(received_.try_claim(other, Topic{"t"})); });
  expect_told_once({"release_claim"}, [&] { EXPECT_TRUE(received_.release_claim(other)); });
}

TEST_P(LoggedOnce, what_a_dispatcher_settles) {
  sent_.enqueue(std::vector{a_message("good"), a_message("bad")});
  Handlers handlers;
  handlers.on(Topic{"good"}, [](const Message&) {});
  handlers.on(Topic{"bad"}, [](const Message&) { throw std::runtime_error("boom"); });
  Dispatcher dispatcher{sent_, handlers};
  plan_.fail_commit(Kind::contention, 2);  // behind the claim's
  EXPECT_EQ(dispatcher.step(), 2u);
  EXPECT_EQ(plan_.pending(), 0u);
  EXPECT_EQ(log().events("ack").size(), 1u);
  EXPECT_EQ(log().events("abandon").size(), 1u);
}

TWINBOX_ON_EVERY_BACKEND(LoggedOnce);

}  // namespace
}  // namespace twinbox::test
