// At most once, where it is more than a mark: what is told, what is put back, and when it is over.
#include <atomic>
#include <future>
#include <thread>

#include "support/backend.hpp"
#include <twinbox/dispatcher.hpp>
#include <twinbox/operations.hpp>

namespace twinbox::test {
namespace {

class MarkedCall : public BoxTest {
 protected:
  template <class Handler>
  Dispatcher dispatcher(Handler handler, bool release_claim_on_error) {
    RetryPolicy three = RetryPolicy::standard();
    three.max_attempts = 3;
    Handlers handlers;
    handlers.on(
        Topic{"order.placed"}, handler,
        {.retry = three, .at_most_once = true, .release_claim_on_error = release_claim_on_error});
    return Dispatcher{outbox(), std::move(handlers), {}, stats.observer()};
  }
  DeliveryView only_delivery() { return Admin{outbox()}.list({}).entries.at(0).delivery; }
  StoreStats told() { return stats.snapshot().all; }

  DispatchStats stats;
};

TEST_P(MarkedCall, a_dead_letter_is_told_to_log_and_observer) {
  outbox().enqueue(a_message());
  dispatcher([](const Message&) { return Outcome::dead("never"); }, false).drain();
  EXPECT_EQ(only_delivery().state, DeliveryState::dead);
  EXPECT_EQ(told().dead, 1u);
  EXPECT_EQ(log().events("dead").size(), 1u);
}

TEST_P(MarkedCall, a_failed_call_that_is_released_is_told_to_the_observer) {
  outbox().enqueue(a_message());
  dispatcher([](const Message&) { throw std::runtime_error("no"); }, true).drain();
  EXPECT_EQ(told().failed, 1u);
  EXPECT_EQ(told().dead, 0u);
}

TEST_P(MarkedCall, a_call_that_takes_longer_than_its_lease_is_not_told_to_stop) {
  const Duration lease = 300ms;
  std::promise<void> renewed_twice;
  std::promise<bool> told_to_stop;
  Handlers handlers;
  handlers.on(Topic{"order.placed"},
              [&](const Message&, std::stop_token stop) {
                EXPECT_EQ(renewed_twice.get_future().wait_for(60s), std::future_status::ready);
                told_to_stop.set_value(stop.stop_requested());
                return Outcome::done();
              },
              {.at_most_once = true});
  // Renewed by the same visits: when its second renewal is there, the first is over for both.
  handlers.on(Topic{"order.paid"}, [&](const Message& message) {
    for (int i = 0; i < 2; ++i) {
      clock().advance(200ms);
      const auto end = std::chrono::steady_clock::now() + 60s;
      const auto lease_until = [&] {
        return Admin{outbox()}.get(message.id).value().deliveries.at(0).lease_until;
      };
      while (lease_until() < clock().now() + lease && std::chrono::steady_clock::now() < end) {
        std::this_thread::yield();
      }
    }
    renewed_twice.set_value();
  });
  outbox().enqueue(a_message());
  NewMessage beside = a_message();
  beside.topic = Topic{"order.paid"};
  beside.id = MessageId{"beside"};
  outbox().enqueue(beside);
  Dispatcher dispatch{outbox(), std::move(handlers), {.workers = 2, .lease = lease}};
  const std::jthread thread{[&](std::stop_token stop) { dispatch.run(stop); }};
  EXPECT_FALSE(told_to_stop.get_future().get());
}

/// Where a statement commits itself, so that there is a moment between the mark and the call.
using MarkedCallOnServer = MarkedCall;

TEST_P(MarkedCallOnServer, a_renewal_between_its_mark_and_its_call_does_not_tell_it_to_stop) {
  std::promise<bool> told_to_stop;
  std::shared_future<bool> answer = told_to_stop.get_future().share();
  Handlers handlers;
  handlers.on(
      Topic{"order.placed"},
      [&](const Message&, std::stop_token stop) { told_to_stop.set_value(stop.stop_requested()); },
      {.at_most_once = true});
  // Something to renew by the same visits: when the second has begun, the first is over.
  handlers.on(Topic{"order.paid"}, [&](const Message&) { answer.wait_for(60s); });
  std::atomic<int> renewals = 0;
  Environment watched = environment();
  watched.timing = [&](std::string_view statement, std::chrono::nanoseconds, std::size_t) {
    if (statement == "renew") ++renewals;
    const auto end = std::chrono::steady_clock::now() + 60s;
    while (statement == "mark" && renewals < 2 && std::chrono::steady_clock::now() < end) {
      std::this_thread::yield();
    }
  };
  Database database(test_store().address(), {}, watched);
  Outbox box(database, options());
  box.enqueue(a_message());
  NewMessage beside = a_message("order.paid");
  beside.id = MessageId{"beside"};
  box.enqueue(beside);
  Dispatcher dispatch{box, std::move(handlers), {.workers = 2, .lease = 300ms}};
  const std::jthread thread{[&](std::stop_token stop) { dispatch.run(stop); }};
  EXPECT_FALSE(answer.get());
}

TEST_P(MarkedCall, MBH_13_a_crash_between_the_claim_and_the_end_of_the_call_does_not_repeat_it) {
  FaultPlan plan;
  Database store = open_faulty(test_store().address(), plan, {.retries = 0}, environment());
  Outbox box{store, options()};
  int calls = 0;
  Handlers handlers;
  handlers.on(Topic{"order.placed"},
              [&](const Message&) {
                ++calls;
                plan.fail_statement(DatabaseError::Kind::connection_lost, 1, "finish_marked");
              },
              {.at_most_once = true, .release_claim_on_error = true});
  const MessageId id = box.enqueue(a_message()).id;
  try {
    Dispatcher{box, handlers}.step();
  } catch (const DatabaseError&) {
    // As far as the message is concerned, the process has ended here.
  }
  EXPECT_EQ(plan.happened(), 1u);
  for (int i = 0; i < 3; ++i) {
    clock().advance(1h);
    box.reap();
    EXPECT_EQ(Dispatcher(box, handlers).drain(), 0u);
  }
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(Admin{box}.get(id)->deliveries.at(0).state, DeliveryState::marked);
}

TEST_P(MarkedCall, MBH_07_one_switch_wraps_every_handler) {
  int calls = 0;
  const auto broken = [&](const Message&) {
    ++calls;
    throw std::runtime_error("no");
  };
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, broken);
  handlers.on(TopicPattern{"invoice.#"}, broken);
  handlers.on_key(HandlerKey{"mail"}, broken);
  handlers.make_at_most_once();
  outbox().enqueue(a_message());
  outbox().enqueue(a_message("invoice.sent"));
  const HandlerName names[] = {{HandlerKey{"mail"}}};
  inbox().accept(an_arrival(), names);
  for (int i = 0; i < 3; ++i) {
    Dispatcher{outbox(), handlers}.drain();
    Dispatcher{inbox(), handlers}.drain();
    clock().advance(1h);
  }
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(Admin{outbox()}.list({}).entries.at(0).delivery.state, DeliveryState::marked);
  EXPECT_EQ(Admin{inbox()}.list({}).entries.at(0).delivery.state, DeliveryState::marked);
}

TEST_P(MarkedCall, OBX_064_the_last_attempt_is_not_released_but_dead) {
  int calls = 0;
  outbox().enqueue(a_message());
  auto dispatch = dispatcher(
      [&](const Message&) {
        ++calls;
        throw std::runtime_error("no");
      },
      true);
  for (int i = 0; i < 5; ++i) {
    dispatch.step();
    clock().advance(60s);
  }
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(only_delivery().state, DeliveryState::dead);
  EXPECT_EQ(only_delivery().reason, "max_attempts");
  EXPECT_EQ(only_delivery().attempts, 3);
  EXPECT_EQ(read("select cast(count(*) as text) from {schema}outbox_failure"), "3");
  EXPECT_EQ(only_delivery().last_error, "no");
  EXPECT_EQ(told().dead, 1u);
}

TEST_P(MarkedCall, a_postponed_call_comes_at_its_time_and_counts_no_attempt) {
  for (const bool release_claim_on_error : {false, true}) {
    int calls = 0;
    outbox().enqueue(a_message());
    auto dispatch = dispatcher(
        [&](const Message&) {
          return ++calls == 1 ? Outcome::postpone(clock().now() + 15s) : Outcome::done();
        },
        release_claim_on_error);
    dispatch.drain();
    const DeliveryView delivery = Admin{outbox()}.list({}, 1).entries.at(0).delivery;
    EXPECT_EQ(delivery.state, DeliveryState::scheduled);
    EXPECT_EQ(delivery.attempts, 0);
    EXPECT_EQ(delivery.visible_at, clock().now() + 15s);
    clock().advance(15s);
    dispatch.drain();
    EXPECT_EQ(calls, 2);
  }
  EXPECT_EQ(told().failed, 0u);
  EXPECT_EQ(Admin{outbox()}.counts(true).all.done, 2);
  EXPECT_EQ(read("select cast(count(*) as text) from {schema}outbox_failure"), "0");
}

TEST_P(MarkedCall, one_that_could_not_be_marked_was_not_called_and_is_released) {
  FaultPlan plan;
  Database store = open_faulty(test_store().address(), plan, {.retries = 0}, environment());
  Outbox box{store, options()};
  box.enqueue(a_message());
  int calls = 0;
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message&) { ++calls; }, {.at_most_once = true});
  Dispatcher dispatch{box, std::move(handlers)};
  plan.fail_statement(DatabaseError::Kind::contention, 1, "mark");
  EXPECT_EQ(dispatch.step(), 1u);
  const DeliveryView delivery = Admin{box}.list({}).entries.at(0).delivery;
  EXPECT_EQ(delivery.state, DeliveryState::ready) << "nobody has to wait for the end of its lease";
  EXPECT_EQ(delivery.expiries, 0) << "no worker has died of it";
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(dispatch.drain(), 1u);
  EXPECT_EQ(calls, 1);
}

TEST_P(MarkedCall, whatever_it_gives_as_its_reason_can_be_kept) {
  const std::string reasons[] = {std::string(10'000, 'x'), "\xff is no UTF-8",
                                 std::string{"with a \0 in it", 15}};
  for (const std::string& reason : reasons) {
    outbox().enqueue(a_message());
    dispatcher([&](const Message&) { return Outcome::dead(reason); }, false).drain();
    const DeliveryView delivery = Admin{outbox()}.list({}, 1).entries.at(0).delivery;
    EXPECT_EQ(delivery.state, DeliveryState::dead);
    EXPECT_LT(delivery.last_error.size(), 4'100u);
  }
}

TEST_P(MarkedCall, its_end_is_written_down_once_the_database_is_back) {
  for (const bool fails : {false, true}) {
    FaultPlan plan;
    Database store = open_faulty(test_store().address(), plan, {.retries = 0}, environment());
    Outbox box{store, options()};
    std::atomic<int> calls = 0;
    Handlers handlers;
    handlers.on(Topic{"order.placed"},
                [&](const Message&) {
                  ++calls;
                  if (fails) throw std::runtime_error("no");
                },
                {.at_most_once = true, .release_claim_on_error = true});
    std::promise<void> written_down;
    DispatchObserver observer;
    observer.settled = [&](std::string_view, std::size_t, Duration) { written_down.set_value(); };
    Dispatcher dispatch{box, std::move(handlers), {.housekeeping = std::nullopt}, observer};
    plan.fail_statement(DatabaseError::Kind::connection_lost, 1,
                        fails ? "release_marked" : "finish_marked");
    const MessageId id = box.enqueue(a_message()).id;
    const std::jthread thread{[&](const std::stop_token& stop) { dispatch.run(stop); }};
    ASSERT_EQ(written_down.get_future().wait_for(60s), std::future_status::ready);
    const DeliveryView delivery = Admin{box}.get(id)->deliveries.at(0);
    EXPECT_EQ(delivery.state, fails ? DeliveryState::scheduled : DeliveryState::done);
    EXPECT_EQ(delivery.attempts, fails ? 1 : 0);
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(plan.happened(), 1u);
  }
}

TWINBOX_ON_EVERY_BACKEND(MarkedCall);
TWINBOX_ON_BACKENDS(MarkedCallOnServer, Backend::postgres, Backend::sqlserver);

}  // namespace
}  // namespace twinbox::test
