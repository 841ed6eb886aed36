// What users' tests get: a clock, chance and a log of their own, and faults on demand.
#include <thread>
#include <tuple>

#include "support/backend.hpp"
#include <twinbox/dispatcher.hpp>
#include <twinbox/operations.hpp>
#include <twinbox/testing.hpp>

namespace twinbox::test {
namespace {

using Kind = DatabaseError::Kind;

/// A store as a user's test would open it.
class ForTests : public BoxTest {
 protected:
  Database open(int retries = 0) {
    return open_faulty(test_store().address(), plan, {.name = "faulty", .retries = retries},
                       world.environment());
  }

  TestEnvironment world;
  FaultPlan plan;
};

/// The kind of the DatabaseError that `body` throws.
template <class F>
std::optional<Kind> kind_of(F&& body) {
  try {
    body();
  } catch (const DatabaseError& error) {
    return error.kind();
  }
  return std::nullopt;
}

std::int64_t open_in(Outbox& box) { return Admin{box}.counts().all.open(); }

TEST_P(ForTests, PHD_34_the_dispatcher_runs_by_hand_until_idle_with_no_thread) {
  const auto story = [](const std::string& address, const BoxOptions& options) {
    TestEnvironment own;
    Database database{address, {}, own.environment()};
    BoxOptions named = options;
    named.retry = RetryPolicy::per_handler();
    Outbox box{database, named};
    Handlers handlers;
    int calls = 0;
    const std::thread::id here = std::this_thread::get_id();
    handlers.on(Topic{"order.placed"}, [&](const Message& message) {
      EXPECT_EQ(std::this_thread::get_id(), here);
      // What a handler enqueues is handled before drain returns.
      box.enqueue(a_message("mail.send", message.payload));
    });
    handlers.on(Topic{"mail.send"}, [&](const Message&) {
      EXPECT_EQ(std::this_thread::get_id(), here);
      if (++calls <= 3) throw std::runtime_error("busy");
    });
    Dispatcher dispatcher{box, handlers};
    for (int i = 0; i < 5; ++i) box.enqueue(a_message());
    std::vector<std::string> told;
    for (int round = 0; round < 20; ++round) {
      told.push_back(std::to_string(dispatcher.drain()));
      EXPECT_EQ(dispatcher.step(), 0u);
      own.clock.advance(500ms);
    }
    EXPECT_EQ(Admin{box}.counts(true).all.done, 10);
    EXPECT_EQ(own.log.events("handler_error").size(), 3u);
    return told;
  };
  BoxOptions first = options();
  BoxOptions second = options();
  first.table = "one";
  second.table = "two";
  const auto told = story(test_store().address(), first);
  EXPECT_EQ(told.front(), "10");
  EXPECT_EQ(story(test_store().address(), second), told);
}

TEST_P(ForTests, the_clock_moves_only_when_it_is_told_to) {
  Database database = open();
  Outbox box{database, options()};
  box.enqueue(a_message());
  ASSERT_EQ(box.claim(worker_a, 30s, 1).size(), 1u);
  world.clock.advance(30s - 1us);
  EXPECT_TRUE(box.claim(worker_b, 30s, 1).empty());
  world.clock.advance(1us);
  const auto messages = box.claim(worker_b, 30s, 1);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].lease_until, world.clock.now() + 30s);
  world.clock.set(messages[0].created_at);
  EXPECT_EQ(world.clock.now(), ManualClock{}.now());
}

TEST_P(ForTests, a_seed_gives_the_same_numbers_and_ids_again) {
  SeededRandom one{7};
  SeededRandom two{7};
  SeededRandom three{8};
  const std::uint64_t first = one.bits();
  EXPECT_EQ(first, two.bits());
  EXPECT_NE(first, three.bits());
  EXPECT_NE(first, one.bits());
  TestEnvironment other;
  EXPECT_EQ(MessageId::make(world.environment()), MessageId::make(other.environment()));
}

TEST_P(ForTests, the_log_keeps_events_with_their_fields) {
  Database database = open();
  Outbox box{database, options()};
  const MessageId id = box.enqueue(a_message()).id;
  const auto events = world.log.events("enqueue");
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].field("id"), id.str());
  EXPECT_EQ(events[0].field("store"), "faulty");
  EXPECT_EQ(events[0].field("none"), "");
  EXPECT_GT(world.log.events().size(), 0u);
  world.log.clear();
  EXPECT_TRUE(world.log.events().empty());
}

TEST_P(ForTests, what_was_enqueued_is_read_beyond_one_page_in_the_order_of_the_calls) {
  Database database = open();
  Outbox box{database, options()};
  box.enqueue(a_message("first"));
  box.enqueue(std::vector<NewMessage>(500, a_message("of_many")));
  box.enqueue(a_message("last"));
  std::vector<std::string> expected(502, "of_many");
  expected.front() = "first";
  expected.back() = "last";
  std::vector<std::string> found;
  for (const NewMessage& message : enqueued(box)) found.push_back(message.topic.str());
  EXPECT_EQ(found, expected);
}

TEST_P(ForTests, a_statement_fails_by_number_or_by_name_once) {
  Database database = open();
  Outbox box{database, options()};
  box.enqueue(a_message());
  plan.fail_statement(Kind::out_of_space, 2, "claim");
  const auto claimed = box.claim(worker_a, 30s, 1);
  ASSERT_EQ(claimed.size(), 1u);
  EXPECT_EQ(box.release(worker_a, claimed), 1u);
  EXPECT_EQ(plan.pending(), 1u);
  EXPECT_EQ(kind_of([&] { std::ignore = box.claim(worker_a, 30s, 1); }), Kind::out_of_space);
  EXPECT_EQ(plan.pending(), 0u);
  EXPECT_EQ(plan.happened(), 1u);
  EXPECT_EQ(box.claim(worker_a, 30s, 1).size(), 1u);
  plan.fail_statement(Kind::permission);
  EXPECT_EQ(kind_of([&] { std::ignore = box.claim(worker_a, 30s, 1); }), Kind::permission);
  plan.fail_statement(Kind::permission, 100);
  plan.clear();
  EXPECT_EQ(plan.pending(), 0u);
  EXPECT_THROW(plan.fail_commit(Kind::contention, 0), std::out_of_range);
}

TEST_P(ForTests, a_commit_that_fails_leaves_nothing) {
  Database database = open();
  Outbox box{database, options()};
  for (const Kind kind : {Kind::contention, Kind::connection_lost, Kind::out_of_space}) {
    plan.fail_commit(kind);
    EXPECT_EQ(kind_of([&] { box.enqueue(a_message()); }), kind);
    EXPECT_EQ(open_in(box), 0);
    plan.fail_commit(kind);
    EXPECT_EQ(
        kind_of([&] { database.in_transaction([&](Session& s) { box.enqueue(s, a_message()); }); }),
        kind);
    EXPECT_EQ(open_in(box), 0);
  }
  EXPECT_EQ(plan.happened(), 6u);
  box.enqueue(a_message());
  EXPECT_EQ(open_in(box), 1);
}

TEST_P(ForTests, the_reply_to_a_commit_is_lost_whether_it_was_carried_out_or_not) {
  Database database = open(5);
  Outbox box{database, options()};
  plan.lose_commit_reply(1, true);
  EXPECT_EQ(kind_of([&] { box.enqueue(a_message()); }), Kind::commit_in_doubt);
  EXPECT_EQ(open_in(box), 1);
  plan.lose_commit_reply(1, false);
  EXPECT_EQ(kind_of([&] { box.enqueue(a_message()); }), Kind::commit_in_doubt);
  EXPECT_EQ(open_in(box), 1);
}

TEST_P(ForTests, what_the_library_repeats_by_itself_is_not_seen) {
  Database database = open(5);
  Outbox box{database, options()};
  plan.fail_statement(Kind::contention);
  plan.fail_statement(Kind::connection_lost, 2);
  plan.fail_connect();
  plan.fail_commit(Kind::contention);
  box.enqueue(a_message());
  EXPECT_EQ(open_in(box), 1);
  EXPECT_EQ(plan.pending(), 0u);
  EXPECT_EQ(world.log.events("retry").size(), 4u);
}

TEST_P(ForTests, after_a_fault_nothing_of_the_transaction_goes_on) {
  Database database = open();
  Outbox box{database, options()};
  plan.fail_statement(Kind::invalid_request, 2);
  EXPECT_EQ(kind_of([&] {
              database.in_transaction([&](Session& session) {
                session.execute("select 1");
                EXPECT_THROW(session.execute("select 1"), DatabaseError);
                EXPECT_FALSE(session.in_transaction());
                session.execute("select 1");
              });
            }),
            Kind::invalid_request);
  EXPECT_NO_THROW(box.enqueue(a_message()));
}

TWINBOX_ON_EVERY_BACKEND(ForTests);

}  // namespace
}  // namespace twinbox::test
