// Callers that handle a message themselves, and say what became of it.
#include <tuple>

#include "support/inbox_test.hpp"

namespace twinbox::test {
namespace {

class Mark : public InboxTest {
 protected:
  void make_seen(const std::string& id) { std::ignore = inbox().already_processed(a_key(id)); }
  void make_marked(const std::string& id) {
    make_seen(id);
    ASSERT_TRUE(inbox().mark_processing(a_key(id)));
  }
  /// One message in each state, named after it; `leased` is held by worker_b.
  void make_all() {
    make_done(an_arrival("done"));
    make_dead(an_arrival("dead"));
    inbox().accept(an_arrival("open"));
    held_ = inbox().accept_and_claim(an_arrival("leased"), worker_b, 30s).messages;
    make_seen("seen");
    make_marked("marked");
  }

  std::vector<Message> held_;
};

TEST_P(Mark, processing_takes_a_seen_message_and_no_other) {
  make_all();
  EXPECT_TRUE(inbox().mark_processing(a_key("seen")));
  EXPECT_EQ(inbox().state(a_key("seen")), MessageState::open);
  EXPECT_EQ(read("select Status from {schema}inbox where MessageId = 'seen'"), "Processing");
  for (const char* id : {"done", "dead", "open", "leased", "marked", "seen"}) {
    const auto state = inbox().state(a_key(id));
    EXPECT_FALSE(inbox().mark_processing(a_key(id))) << id;
    EXPECT_EQ(inbox().state(a_key(id)), state) << id;
  }
  EXPECT_FALSE(inbox().mark_processing(a_key("unknown")));
  EXPECT_EQ(inbox().state(a_key("unknown")), std::nullopt);
}

TEST_P(Mark, processing_is_never_handed_to_a_worker) {
  make_marked("evt_1");
  clock().advance(24h);
  EXPECT_TRUE(inbox().claim(worker_a, 30s, 10).empty());
  EXPECT_EQ(inbox().reap(), 0u);
}

TEST_P(Mark, processing_lets_one_of_many_through) {
  make_seen("evt_1");
  constexpr int callers = 6;
  for (int i = 0; i < callers; ++i) other_inbox(static_cast<std::size_t>(i));
  std::atomic<int> taken = 0;
  race(callers, [&](int caller) {
    taken += other_inbox(static_cast<std::size_t>(caller)).mark_processing(a_key());
  });
  EXPECT_EQ(taken, 1);
}

TEST_P(Mark, IBX_003_processed_makes_everything_done_but_what_is_unknown_or_done) {
  make_all();
  clock().advance(5s);
  for (const char* id : {"seen", "marked", "open", "leased", "dead"}) {
    EXPECT_TRUE(inbox().mark_processed(a_key(id))) << id;
    EXPECT_EQ(inbox().state(a_key(id)), MessageState::done) << id;
    EXPECT_EQ(delivery(a_key(id)).finished_at, clock().now()) << id;
    EXPECT_TRUE(inbox().already_processed(a_key(id))) << id;
    EXPECT_FALSE(inbox().mark_processed(a_key(id))) << id;
  }
  EXPECT_FALSE(inbox().mark_processed(a_key("done")));
  EXPECT_EQ(delivery(a_key("done")).finished_at, clock().now() - 5s);
  EXPECT_FALSE(inbox().mark_processed(a_key("unknown")));
  EXPECT_EQ(inbox().state(a_key("unknown")), std::nullopt);
  EXPECT_TRUE(inbox().claim(worker_a, 30s, 10).empty());
}

TEST_P(Mark, processed_takes_the_lease_from_whoever_holds_it) {
  make_all();
  inbox().mark_processed(a_key("leased"));
  EXPECT_TRUE(inbox().renew(worker_b, held_, 30s).empty());
  EXPECT_EQ(inbox().fail(worker_b, held_, "too late"), 0u);
  EXPECT_EQ(inbox().abandon(worker_b, held_, "too late"), 0u);
  EXPECT_EQ(inbox().ack(worker_b, held_), 0u);
  EXPECT_EQ(inbox().state(a_key("leased")), MessageState::done);
}

TEST_P(Mark, processed_makes_every_delivery_of_the_message_done) {
  const std::vector<HandlerName> handlers{
      {HandlerKey{"a"}}, {HandlerKey{"b"}}, {HandlerKey{"c"}}, {HandlerKey{"d"}}};
  inbox().accept(an_arrival(), handlers);
  const auto messages = inbox().claim(worker_a, 30s, 3);
  inbox().ack(worker_a, messages[0]);
  inbox().fail(worker_a, messages[1], "boom");
  EXPECT_TRUE(inbox().mark_processed(a_key()));
  const auto deliveries = detail().deliveries;
  ASSERT_EQ(deliveries.size(), 4u);
  for (const DeliveryView& delivery : deliveries) EXPECT_EQ(delivery.state, DeliveryState::done);
}

TEST_P(Mark, processed_with_an_envelope_stores_an_unknown_message_as_done) {
  EXPECT_TRUE(inbox().mark_processed(an_arrival()));
  EXPECT_EQ(inbox().state(a_key()), MessageState::done);
  EXPECT_EQ(detail().payload, payload());
  EXPECT_TRUE(inbox().claim(worker_a, 30s, 10).empty());
  EXPECT_FALSE(inbox().mark_processed(an_arrival()));
  EXPECT_EQ(inbox().accept(an_arrival()).state, Acceptance::duplicate_done);
}

TEST_P(Mark, processed_with_an_envelope_makes_a_known_message_done) {
  make_all();
  for (const char* id : {"seen", "marked", "open", "leased", "dead"}) {
    EXPECT_TRUE(inbox().mark_processed(an_arrival(id))) << id;
    EXPECT_EQ(inbox().state(a_key(id)), MessageState::done) << id;
  }
  EXPECT_FALSE(inbox().mark_processed(an_arrival("done")));
}

TEST_P(Mark, processed_lets_the_next_of_the_partition_key_go) {
  for (const char* id : {"first", "second"}) {
    Arrival arrival = an_arrival(id);
    arrival.extras.partition_key = PartitionKey{"customer 7"};
    inbox().accept(arrival);
  }
  EXPECT_TRUE(inbox().mark_processed(a_key("first")));
  const auto messages = inbox().claim(worker_a, 30s, 10);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].id.str(), "second");
}

TEST_P(Mark, IBX_038_dead_makes_seen_and_open_messages_dead) {
  make_all();
  for (const char* id : {"seen", "marked", "open", "leased"}) {
    EXPECT_TRUE(inbox().mark_dead(a_key(id), "poison")) << id;
    EXPECT_EQ(inbox().state(a_key(id)), MessageState::dead) << id;
    EXPECT_EQ(delivery(a_key(id)).last_error, "poison") << id;
    EXPECT_FALSE(inbox().mark_dead(a_key(id), "again")) << id;
    EXPECT_EQ(delivery(a_key(id)).last_error, "poison") << id;
  }
  EXPECT_EQ(inbox().ack(worker_b, held_), 0u);
  EXPECT_TRUE(inbox().claim(worker_a, 30s, 10).empty());
}

TEST_P(Mark, dead_never_reopens_what_is_done_and_changes_nothing_that_is_unknown) {
  make_all();
  EXPECT_FALSE(inbox().mark_dead(a_key("done"), "poison"));
  EXPECT_EQ(inbox().state(a_key("done")), MessageState::done);
  EXPECT_FALSE(inbox().mark_dead(a_key("dead"), "poison"));
  EXPECT_EQ(delivery(a_key("dead")).last_error, "boom");
  EXPECT_FALSE(inbox().mark_dead(a_key("unknown"), "poison"));
  EXPECT_EQ(inbox().state(a_key("unknown")), std::nullopt);
}

TEST_P(Mark, dead_leaves_the_finished_deliveries_of_a_message_alone) {
  const std::vector<HandlerName> handlers{{HandlerKey{"a"}}, {HandlerKey{"b"}}};
  inbox().accept(an_arrival(), handlers);
  inbox().ack(worker_a, inbox().claim(worker_a, 30s, 1));
  EXPECT_TRUE(inbox().mark_dead(a_key(), "poison"));
  EXPECT_EQ(inbox().state(a_key()), MessageState::dead);
  const auto deliveries = detail().deliveries;
  ASSERT_EQ(deliveries.size(), 2u);
  EXPECT_NE(deliveries[0].state, deliveries[1].state);
}

TEST_P(Mark, dead_without_an_error_keeps_the_last_one) {
  const auto held = inbox().accept_and_claim(an_arrival(), worker_a, 30s).messages;
  inbox().abandon(worker_a, held, "busy");
  EXPECT_TRUE(inbox().mark_dead(a_key()));
  EXPECT_EQ(delivery().last_error, "busy");
  EXPECT_EQ(delivery().attempts, 1);
}

TEST_P(Mark, IBX_102_leaves_nothing_behind_when_the_callers_transaction_is_rolled_back) {
  make_all();
  EXPECT_THROW(database().in_transaction([&](Session& session) {
    EXPECT_TRUE(inbox().mark_processing(session, a_key("seen")));
    EXPECT_TRUE(inbox().mark_processed(session, a_key("open")));
    EXPECT_TRUE(inbox().mark_processed(session, an_arrival("unknown")));
    EXPECT_TRUE(inbox().mark_dead(session, a_key("leased"), "poison"));
    throw std::runtime_error("rolled back");
  }),
               std::runtime_error);
  EXPECT_EQ(inbox().state(a_key("seen")), MessageState::seen);
  EXPECT_EQ(inbox().state(a_key("open")), MessageState::open);
  EXPECT_EQ(inbox().state(a_key("unknown")), std::nullopt);
  EXPECT_EQ(inbox().ack(worker_b, held_), 1u);
}

TWINBOX_ON_EVERY_BACKEND(Mark);

}  // namespace
}  // namespace twinbox::test
