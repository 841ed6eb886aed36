// DispatcherOptions::on_failure: what a function of the user's makes of a failed call.
#include <latch>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "support/running.hpp"

namespace twinbox::test {
namespace {

class OnFailure : public RunningTest {
 protected:
  /// Handles one message that fails as `handler` says; `hook` decides what follows.
  template <class F>
  DeliveryView handled(F handler, FailureHook hook, HandlerOptions options = {}) {
    outbox().enqueue(a_message());
    Handlers handlers;
    handlers.on(Topic{"order.placed"}, std::move(handler), std::move(options));
    Dispatcher dispatcher{outbox(), std::move(handlers), {.on_failure = std::move(hook)}};
    EXPECT_EQ(dispatcher.drain(), 1u);
    return only_delivery();
  }
  static void broken(const Message&) { throw std::runtime_error("boom"); }
};

TEST_P(OnFailure, turns_a_failure_into_a_dead_letter) {
  std::string seen;
  const DeliveryView delivery =
      handled(broken, [&](const Message& message, const Outcome& failure) {
        seen = message.topic.str() + " " + failure.reason();
        EXPECT_EQ(failure.kind(), Outcome::Kind::retry);
        return Outcome::malformed("hopeless");
      });
  EXPECT_EQ(seen, "order.placed boom");
  EXPECT_EQ(delivery.state, DeliveryState::dead);
  EXPECT_EQ(delivery.reason, "malformed");
  EXPECT_EQ(delivery.last_error, "hopeless");
}

TEST_P(OnFailure, turns_a_failure_into_done) {
  const DeliveryView delivery = handled([](const Message&) { return Outcome::dead("no"); },
                                        [&](const Message&, const Outcome& failure) {
                                          EXPECT_EQ(failure.kind(), Outcome::Kind::dead);
                                          return Outcome::done();
                                        });
  EXPECT_EQ(delivery.state, DeliveryState::done);
  EXPECT_EQ(delivery.attempts, 0);
}

TEST_P(OnFailure, turns_a_failure_into_another_delay) {
  const DeliveryView delivery =
      handled(broken, [](const Message&, const Outcome&) { return Outcome::retry("later", 7min); });
  EXPECT_EQ(delivery.state, DeliveryState::scheduled);
  EXPECT_EQ(delivery.attempts, 1);
  EXPECT_EQ(delivery.last_error, "later");
  EXPECT_EQ(delivery.visible_at, clock().now() + 7min);
}

TEST_P(OnFailure, counts_for_a_transactional_handler_whose_writes_are_gone) {
  outbox();
  write("create table {schema}booked (id int)");
  const DeliveryView delivery = handled(
      [&](Session& session, const Message&) {
        session.execute(in_schema("insert into {schema}booked values (1)"));
        return Outcome::retry("busy");
      },
      [](const Message&, const Outcome&) { return Outcome::done(); });
  EXPECT_EQ(delivery.state, DeliveryState::done);
  EXPECT_EQ(read("select count(*) from {schema}booked"), "0");
}

TEST_P(OnFailure, counts_for_an_at_most_once_handler) {
  const DeliveryView delivery =
      handled(broken, [](const Message&, const Outcome&) { return Outcome::dead("given up"); },
              {.at_most_once = true});
  EXPECT_EQ(delivery.state, DeliveryState::dead);
  EXPECT_EQ(delivery.last_error, "given up");
}

TEST_P(OnFailure, counts_for_each_message_of_a_batch_handler) {
  for (const char* text : {"good", "bad", "worse"}) {
    outbox().enqueue(a_message("order.placed", text));
  }
  Handlers handlers;
  handlers.on_batch(
      Topic{"order.placed"}, [](std::span<const Message> messages, const std::stop_token&) {
        EXPECT_EQ(messages.size(), 3u);
        return std::vector{Outcome::done(), Outcome::retry("bad"), Outcome::retry("worse")};
      });
  std::vector<std::string> asked;
  FailureHook hook = [&](const Message& message, const Outcome& failure) {
    asked.push_back(failure.reason());
    return message.payload == payload("bad") ? Outcome::dead("given up") : failure;
  };
  EXPECT_EQ(Dispatcher(outbox(), std::move(handlers), {.on_failure = std::move(hook)}).drain(), 3u);
  EXPECT_EQ(asked, (std::vector<std::string>{"bad", "worse"}));
  const Counts counts = Admin{outbox()}.counts(true);
  EXPECT_EQ(counts.all.done, 1);
  EXPECT_EQ(counts.all.dead, 1);
  EXPECT_EQ(counts.all.scheduled, 1);
}

TEST_P(OnFailure, counts_for_a_batch_handler_that_throws) {
  outbox().enqueue(std::vector<NewMessage>(2, a_message()));
  Handlers handlers;
  handlers.on_batch(Topic{"order.placed"},
                    [](std::span<const Message>, const std::stop_token&) -> std::vector<Outcome> {
                      throw std::runtime_error("boom");
                    });
  int asked = 0;
  FailureHook hook = [&](const Message&, const Outcome& failure) {
    EXPECT_EQ(failure.reason(), "boom");
    ++asked;
    return Outcome::dead("given up");
  };
  EXPECT_EQ(Dispatcher(outbox(), std::move(handlers), {.on_failure = std::move(hook)}).drain(), 2u);
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(Admin{outbox()}.counts(true).all.dead, 2);
}

TEST_P(OnFailure, counts_after_a_timeout) {
  std::latch settled{1};
  DispatchObserver observer;
  observer.dead = [&](std::string_view, const Message&, std::string_view, std::string_view) {
    settled.count_down();
  };
  std::string asked;
  DispatcherOptions chosen = by_wake_up(1);
  chosen.on_failure = [&](const Message&, const Outcome& failure) {
    asked = failure.reason();
    return Outcome::dead("too slow");
  };
  outbox().enqueue(a_message());
  Handlers handlers;
  handlers.on(Topic{"order.placed"},
              [](const Message&, const std::stop_token& stop) { wait_for_stop(stop); },
              {.timeout = 5ms});
  {
    Dispatcher dispatcher{outbox(), std::move(handlers), chosen, observer};
    const std::jthread thread{[&](const std::stop_token& stop) { dispatcher.run(stop); }};
    settled.wait();
  }
  EXPECT_EQ(asked, "the handler ran past its timeout of 5 ms");
  EXPECT_EQ(only_delivery().state, DeliveryState::dead);
  EXPECT_EQ(only_delivery().last_error, "too slow");
}

TEST_P(OnFailure, is_not_asked_about_what_is_done_or_postponed) {
  const auto never = [](const Message&, const Outcome& outcome) {
    ADD_FAILURE() << "asked";
    return outcome;
  };
  EXPECT_EQ(handled([](const Message&) {}, never).state, DeliveryState::done);
}

TEST_P(OnFailure, that_throws_changes_nothing) {
  const DeliveryView delivery = handled(broken, [](const Message&, const Outcome&) -> Outcome {
    throw std::runtime_error("the tracker is away");
  });
  EXPECT_EQ(delivery.state, DeliveryState::scheduled);
  EXPECT_EQ(delivery.last_error, "boom");
  const auto errors = log().events("on_failure_error");
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].field("error"), "the tracker is away");
}

TEST_P(OnFailure, that_throws_is_logged_with_the_message_and_its_handler) {
  const HandlerName handler{HandlerKey{"billing"}};
  inbox().accept(an_arrival("evt_1"), std::span{&handler, 1});
  Handlers handlers;
  handlers.on_key(HandlerKey{"billing"}, broken);
  const FailureHook hook = [](const Message&, const Outcome&) -> Outcome {
    throw std::runtime_error("the tracker is away");
  };
  EXPECT_EQ(Dispatcher(inbox(), handlers, {.on_failure = hook}).drain(), 1u);
  const auto errors = log().events("on_failure_error");
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].field("topic"), "payment.received");
  EXPECT_EQ(errors[0].field("handler"), "billing");
  EXPECT_EQ(errors[0].field("id"), "evt_1");
}

TWINBOX_ON_EVERY_BACKEND(OnFailure);

}  // namespace
}  // namespace twinbox::test
