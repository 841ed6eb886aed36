// The dispatcher, stepped by hand: which handler is called, and what becomes of the message.
#include "support/backend.hpp"
#include <twinbox/dispatcher.hpp>
#include <twinbox/operations.hpp>

namespace twinbox::test {
namespace {

class Dispatch : public BoxTest {
 protected:
  Dispatcher dispatcher(Handlers handlers, DispatcherOptions options = {},
                        DispatchObserver observer = {}) {
    return Dispatcher{outbox(), std::move(handlers), options, std::move(observer)};
  }
  DeliveryView only_delivery() { return Admin{outbox()}.list({}).entries.at(0).delivery; }
};

TEST_P(Dispatch, OBX_054_calls_the_handler_of_the_topic_and_no_other) {
  REQUIREMENT("OBX-057");
  std::vector<std::string> called;
  Handlers handlers;
  handlers.on(Topic{"a"}, [&](const Message& message, std::stop_token) {
    called.push_back("a:" + message.payload);
  });
  handlers.on(Topic{"A"}, [&](const Message&) { called.push_back("A"); });
  outbox().enqueue(a_message("a", "1"));
  auto dispatch = dispatcher(std::move(handlers));
  EXPECT_EQ(dispatch.step(), 1u);
  EXPECT_EQ(called, std::vector<std::string>{"a:" + payload("1")});
  EXPECT_EQ(only_delivery().state, DeliveryState::done);
  EXPECT_EQ(dispatch.step(), 0u);
}

TEST_P(Dispatch, OBX_055_warns_and_abandons_when_nobody_handles_the_topic) {
  outbox().enqueue(a_message("unknown"));
  auto dispatch = dispatcher({});
  dispatch.step();
  ASSERT_EQ(log().events("no_handler").size(), 1u);
  EXPECT_EQ(log().events("no_handler")[0].level, LogLevel::warning);
  EXPECT_EQ(only_delivery().state, DeliveryState::scheduled);
  EXPECT_EQ(only_delivery().attempts, 1);
}

TEST_P(Dispatch, a_policy_says_what_happens_to_topics_without_handler) {
  const std::pair<NoHandler, DeliveryState> expected[] = {
      {NoHandler::dead, DeliveryState::dead},
      {NoHandler::discard, DeliveryState::discarded},
      {NoHandler::complete, DeliveryState::done}};
  for (const auto& [policy, state] : expected) {
    outbox().enqueue(a_message("unknown"));
    dispatcher({}, {.no_handler = policy}).step();
    EXPECT_EQ(Admin{outbox()}.list({}, 1).entries.at(0).delivery.state, state);
  }
}

TEST_P(Dispatch, tells_of_an_answer_that_is_tried_again_without_its_reason) {
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [](const Message&) { return Outcome::retry("full: secret"); });
  outbox().enqueue(a_message());
  dispatcher(std::move(handlers)).step();
  const auto warnings = log().events("handler_retry");
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].level, LogLevel::warning);
  EXPECT_EQ(warnings[0].field("topic"), "order.placed");
  EXPECT_EQ(warnings[0].field("attempt"), "1");
  EXPECT_TRUE(warnings[0].field("error").empty());
  EXPECT_EQ(only_delivery().last_error, "full: secret");
}

TEST_P(Dispatch, OBX_056_an_exception_is_caught_logged_and_retried_by_the_policy) {
  REQUIREMENT("OBX-088, OBX-061");
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [](const Message&) { throw std::runtime_error("no stock"); });
  outbox().enqueue(a_message());
  auto dispatch = dispatcher(std::move(handlers));
  dispatch.step();
  const auto errors = log().events("handler_error");
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].level, LogLevel::error);
  EXPECT_EQ(errors[0].field("error"), "no stock");
  EXPECT_FALSE(errors[0].field("id").empty());
  EXPECT_EQ(only_delivery().last_error, "no stock");
  EXPECT_EQ(only_delivery().visible_at, clock().now() + 2s);
  EXPECT_EQ(dispatch.step(), 0u);
  clock().advance(2s);
  EXPECT_EQ(dispatch.step(), 1u);
  EXPECT_EQ(only_delivery().visible_at, clock().now() + 4s);
}

TEST_P(Dispatch, OBX_064_the_last_attempt_makes_it_dead) {
  REQUIREMENT("PHD-37");
  int calls = 0;
  std::vector<std::string> dead;
  Handlers handlers;
  RetryPolicy three = RetryPolicy::standard();
  three.max_attempts = 3;
  handlers.on(Topic{"order.placed"},
              [&](const Message&) {
                ++calls;
                throw std::runtime_error("no");
              },
              {.retry = three});
  outbox().enqueue(a_message());
  DispatchObserver observer;
  observer.dead = [&](std::string_view, const Message&, std::string_view reason,
                      std::string_view error) {
    dead.push_back(std::string{reason} + ": " + std::string{error});
  };
  auto dispatch = dispatcher(std::move(handlers), {}, observer);
  for (int i = 0; i < 10; ++i) {
    dispatch.drain();
    clock().advance(60s);
  }
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(only_delivery().state, DeliveryState::dead);
  EXPECT_EQ(only_delivery().attempts, 3);
  EXPECT_EQ(only_delivery().reason, "max_attempts");
  EXPECT_EQ(dead, std::vector<std::string>{"max_attempts: no"});
  ASSERT_EQ(log().events("dead").size(), 1u);
  EXPECT_EQ(log().events("dead")[0].level, LogLevel::error);
}

TEST_P(Dispatch, answers_that_no_database_can_keep_are_brought_within_bounds) {
  Handlers handlers;
  handlers.on(Topic{"past"}, [](const Message&) { return Outcome::retry("now", Duration{-1s}); });
  handlers.on(Topic{"far"}, [](const Message&) { return Outcome::retry("x", Duration::max()); });
  handlers.on(Topic{"never"}, [](const Message&) { return Outcome::postpone(Instant::max()); });
  handlers.on(Topic{"ever"}, [](const Message&) { return Outcome::postpone(Instant::min()); });
  for (const char* topic : {"past", "far", "never", "ever"}) outbox().enqueue(a_message(topic));
  auto dispatch = dispatcher(std::move(handlers));
  EXPECT_EQ(dispatch.step(), 4u);
  const Counts counts = Admin{outbox()}.counts();
  EXPECT_EQ(counts.all.leased, 0);
  EXPECT_EQ(counts.all.ready, 1);
  EXPECT_EQ(counts.all.scheduled, 3);
}

TEST_P(Dispatch, OBX_062_the_standard_backoff_is_two_to_the_attempts_seconds_up_to_a_minute) {
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [](const Message&) { throw std::runtime_error("no"); });
  outbox().enqueue(a_message());
  auto dispatch = dispatcher(std::move(handlers));
  for (const Duration expected : {Duration{2s}, Duration{4s}, Duration{8s}, Duration{16s},
                                  Duration{32s}, Duration{60s}, Duration{60s}}) {
    ASSERT_EQ(dispatch.step(), 1u);
    EXPECT_EQ(*only_delivery().visible_at - clock().now(), expected);
    clock().set(*only_delivery().visible_at);
  }
}

TEST_P(Dispatch, OBX_063_a_handler_may_have_a_backoff_of_its_own) {
  REQUIREMENT("EVB-16");
  RetryPolicy linear = RetryPolicy::standard();
  linear.custom = [](int attempts) { return std::chrono::milliseconds{attempts * 1000}; };
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [](const Message&) { throw std::runtime_error("no"); },
              {.retry = linear});
  outbox().enqueue(a_message());
  auto dispatch = dispatcher(std::move(handlers));
  for (const Duration expected : {Duration{1s}, Duration{2s}, Duration{3s}}) {
    ASSERT_EQ(dispatch.step(), 1u);
    EXPECT_EQ(*only_delivery().visible_at - clock().now(), expected);
    clock().set(*only_delivery().visible_at);
  }
}

TEST_P(Dispatch, a_backoff_of_ones_own_that_throws_costs_the_message_nothing_but_its_say) {
  RetryPolicy broken = RetryPolicy::standard();
  broken.custom = [](int attempts) -> std::chrono::milliseconds {
    if (attempts == 1) throw std::runtime_error("no idea");
    throw attempts;
  };
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [](const Message&) { throw std::runtime_error("no"); },
              {.retry = broken});
  outbox().enqueue(a_message());
  auto dispatch = dispatcher(std::move(handlers));
  for (const Duration expected : {Duration{2s}, Duration{4s}}) {
    ASSERT_EQ(dispatch.step(), 1u);
    EXPECT_EQ(only_delivery().state, DeliveryState::scheduled);
    EXPECT_EQ(*only_delivery().visible_at - clock().now(), expected) << "as without it";
    clock().set(*only_delivery().visible_at);
  }
  EXPECT_EQ(log().events("retry_error").at(0).field("error"), "no idea");
}

TEST_P(Dispatch, a_handler_may_ask_for_a_delay_for_death_or_for_another_time) {
  Handlers handlers;
  handlers.on(Topic{"later"}, [](const Message&) { return Outcome::retry("busy", Duration{7s}); });
  handlers.on(Topic{"never"}, [](const Message&) { return Outcome::dead("no such customer"); });
  const Instant tomorrow = clock().now() + 24h;
  handlers.on(Topic{"tomorrow"}, [&](const Message&) { return Outcome::postpone(tomorrow); });
  for (const char* topic : {"later", "never", "tomorrow"}) outbox().enqueue(a_message(topic));
  EXPECT_EQ(dispatcher(std::move(handlers)).step(), 3u);
  const auto delivery = [&](const char* topic) {
    return Admin{outbox()}.list({.topic = Topic{topic}}).entries.at(0).delivery;
  };
  EXPECT_EQ(delivery("later").visible_at, clock().now() + 7s);
  EXPECT_EQ(delivery("never").state, DeliveryState::dead);
  EXPECT_EQ(delivery("never").last_error, "no such customer");
  EXPECT_EQ(delivery("tomorrow").visible_at, tomorrow);
  EXPECT_EQ(delivery("tomorrow").attempts, 0);
}

TEST_P(Dispatch, OBX_087_logs_each_call_with_topic_and_message_id) {
  REQUIREMENT("OBX-071");
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [](const Message&) {});
  const MessageId id = outbox().enqueue(a_message()).id;
  dispatcher(std::move(handlers)).step();
  const auto calls = log().events("handle");
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].level, LogLevel::info);
  EXPECT_EQ(calls[0].field("topic"), "order.placed");
  EXPECT_EQ(calls[0].field("id"), id.str());
  EXPECT_EQ(calls[0].field("store"), "test store");
}

TEST_P(Dispatch, PHD_01_each_handler_of_a_message_is_called_and_settled_on_its_own) {
  REQUIREMENT("PHD-05, PHD-06, PHD-10");
  const HandlerName names[] = {{HandlerKey{"stock"}}, {HandlerKey{"mail"}}};
  inbox().accept(an_arrival(), names);
  Handlers handlers;
  int mails = 0;
  handlers.on_key(HandlerKey{"stock"},
                  [](const Message&) { throw std::runtime_error("no stock"); });
  handlers.on_key(HandlerKey{"mail"}, [&](const Message&) { ++mails; });
  Dispatcher dispatch{inbox(), std::move(handlers)};
  dispatch.drain();
  clock().advance(2s);
  dispatch.drain();
  EXPECT_EQ(mails, 1);
  const auto detail = Admin{inbox()}.get(a_key());
  ASSERT_EQ(detail->deliveries.size(), 2u);
  EXPECT_EQ(detail->deliveries[0].state, DeliveryState::done);
  EXPECT_EQ(detail->deliveries[1].attempts, 2);
}

TEST_P(Dispatch, PHD_09_a_key_that_nobody_claims_is_dead_at_once) {
  REQUIREMENT("PHD-36");
  const HandlerName names[] = {{HandlerKey{"renamed"}}};
  inbox().accept(an_arrival(), names);
  Dispatcher{inbox(), Handlers{}}.step();
  const auto detail = Admin{inbox()}.get(a_key());
  EXPECT_EQ(detail->deliveries.at(0).state, DeliveryState::dead);
  EXPECT_EQ(detail->deliveries.at(0).reason, "unknown_key");
  inbox().accept(an_arrival("evt_2"), names);
  Dispatcher{inbox(), Handlers{}, {.unknown_key = UnknownKey::retry}}.step();
  EXPECT_EQ(Admin{inbox()}.get(a_key("evt_2"))->deliveries.at(0).state, DeliveryState::scheduled);
}

TEST_P(Dispatch, PHD_19_rows_under_a_legacy_key_go_to_the_handler_that_carries_it) {
  const HandlerName names[] = {{HandlerKey{"old"}}};
  inbox().accept(an_arrival(), names);
  int calls = 0;
  Handlers handlers;
  handlers.on_key(HandlerKey{"new"}, [&](const Message&) { ++calls; },
                  {.legacy_keys = {HandlerKey{"older"}, HandlerKey{"old"}}});
  Dispatcher{inbox(), std::move(handlers)}.drain();
  EXPECT_EQ(calls, 1);
}

TEST_P(Dispatch, PHD_18_keys_and_topics_are_registered_once) {
  Handlers handlers;
  const auto nothing = [](const Message&) {};
  handlers.on(Topic{"a"}, nothing);
  EXPECT_THROW(handlers.on(Topic{"a"}, nothing), UsageError);
  handlers.on_key(HandlerKey{"k"}, nothing, {.legacy_keys = {HandlerKey{"was"}}});
  EXPECT_THROW(handlers.on_key(HandlerKey{"k"}, nothing), UsageError);
  EXPECT_THROW(handlers.on_key(HandlerKey{"was"}, nothing), UsageError);
  EXPECT_THROW(handlers.on_key(HandlerKey{"other"}, nothing, {.legacy_keys = {HandlerKey{"k"}}}),
               UsageError);
}

class InTransaction : public Dispatch {
 protected:
  void SetUp() override {
    outbox();
    write("create table {schema}effects (id integer)");
  }
  std::string effects() { return read("select count(*) from {schema}effects"); }
  void add_effect(Session& session) {
    session.execute(in_schema("insert into {schema}effects values (1)"));
  }
};

TEST_P(InTransaction, its_writes_and_the_end_of_the_delivery_commit_together) {
  Handlers handlers;
  handlers.on(Topic{"order.placed"},
              [&](Session& session, const Message&) { add_effect(session); });
  outbox().enqueue(a_message());
  dispatcher(std::move(handlers)).drain();
  EXPECT_EQ(effects(), "1");
  EXPECT_EQ(only_delivery().state, DeliveryState::done);
}

TEST_P(InTransaction, a_failure_takes_its_writes_back_and_is_retried) {
  int calls = 0;
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](Session& session, const Message&) {
    add_effect(session);
    if (++calls == 1) throw std::runtime_error("no");
    if (calls == 2) return Outcome::retry("not yet", Duration{1s});
    return Outcome::done();
  });
  outbox().enqueue(a_message());
  auto dispatch = dispatcher(std::move(handlers));
  dispatch.drain();
  EXPECT_EQ(effects(), "0");
  EXPECT_EQ(only_delivery().attempts, 1);
  clock().advance(2s);
  dispatch.drain();
  EXPECT_EQ(effects(), "0");
  clock().advance(1s);
  dispatch.drain();
  EXPECT_EQ(effects(), "1");
  EXPECT_EQ(only_delivery().attempts, 2);
}

TEST_P(InTransaction, a_lease_that_was_lost_takes_its_writes_back) {
  std::size_t lost = 0;
  DispatchObserver observer;
  observer.lease_lost = [&](std::string_view, std::size_t count) { lost += count; };
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](Session& session, const Message&) {
    add_effect(session);
    clock().advance(31s);
    ASSERT_EQ(outbox().claim(session, worker_b, 30s, 1).size(), 1u);
  });
  outbox().enqueue(a_message());
  dispatcher(std::move(handlers), {}, observer).step();
  EXPECT_EQ(effects(), "0");
  EXPECT_EQ(lost, 1u);
  EXPECT_EQ(only_delivery().attempts, 0);
}

TWINBOX_ON_EVERY_BACKEND(InTransaction);

class AtMostOnce : public Dispatch {};

TEST_P(AtMostOnce, MBH_03_the_delivery_is_marked_before_the_handler_is_called) {
  DeliveryState during = DeliveryState::seen;
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message&) { during = only_delivery().state; },
              {.at_most_once = true});
  outbox().enqueue(a_message());
  auto dispatch = dispatcher(std::move(handlers));
  dispatch.drain();
  EXPECT_EQ(during, DeliveryState::marked);
  EXPECT_EQ(only_delivery().state, DeliveryState::done);
}

TEST_P(AtMostOnce, a_failed_call_stays_marked_and_is_not_repeated) {
  int calls = 0;
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message&) {
    ++calls;
    throw std::runtime_error("no");
  });
  handlers.make_at_most_once();
  outbox().enqueue(a_message());
  auto dispatch = dispatcher(std::move(handlers));
  dispatch.drain();
  clock().advance(1h);
  dispatch.drain();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(only_delivery().state, DeliveryState::marked);
}

TEST_P(AtMostOnce, with_release_claim_on_error_a_failed_call_is_released) {
  int calls = 0;
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message&) {
    if (++calls == 1) throw std::runtime_error("no");
  });
  handlers.make_at_most_once(true);
  outbox().enqueue(a_message());
  auto dispatch = dispatcher(std::move(handlers));
  dispatch.drain();
  EXPECT_EQ(only_delivery().state, DeliveryState::scheduled);
  EXPECT_EQ(only_delivery().attempts, 1);
  EXPECT_EQ(only_delivery().last_error, "no");
  clock().advance(2s);
  dispatch.drain();
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(only_delivery().state, DeliveryState::done);
}

TWINBOX_ON_EVERY_BACKEND(AtMostOnce);
TEST_P(Dispatch, refuses_times_that_no_clock_can_count) {
  // Added to the present moment they lay in the past: there was no grace, and no timeout was short
  // enough.
  constexpr Duration ever = Duration::max();
  EXPECT_THROW(dispatcher({}, {.poll_interval = ever}), std::out_of_range);
  EXPECT_THROW(dispatcher({}, {.grace = ever}), std::out_of_range);
  EXPECT_THROW(dispatcher({}, {.restart_delay = ever}), std::out_of_range);
  Handlers handlers;
  EXPECT_THROW(handlers.on(Topic{"a"}, [](const Message&) {}, {.timeout = ever}),
               std::out_of_range);
  EXPECT_NO_THROW(dispatcher({}, {.grace = std::chrono::years{10}}));
}

TEST_P(Dispatch, refuses_a_handler_that_is_an_empty_function) {
  Handlers handlers;
  EXPECT_THROW(handlers.on_batch(Topic{"a"}, BatchHandler{}), UsageError);
  EXPECT_THROW(handlers.add(HandlerKey{"a"}, {.call = MessageHandler{}}), UsageError);
}

TWINBOX_ON_EVERY_BACKEND(Dispatch);

}  // namespace
}  // namespace twinbox::test
