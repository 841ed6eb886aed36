// How many attempts a message has, in the outbox and in the inbox, and what follows the last one.
#include "support/backend.hpp"
#include <twinbox/dispatcher.hpp>
#include <twinbox/operations.hpp>

namespace twinbox::test {
namespace {

class Attempts : public BoxTest {
 protected:
  /// Calls a handler that always fails until nothing is left to call; returns how often.
  int exhaust(WorkQueue& queue, HandlerOptions options = {}) {
    int calls = 0;
    Handlers handlers;
    handlers.on(
        TopicPattern{"#"},
        [&](const Message&) {
          ++calls;
          throw std::runtime_error("no");
        },
        std::move(options));
    Dispatcher dispatcher{queue, std::move(handlers)};
    for (int i = 0; i < 30; ++i) {
      dispatcher.drain();
      clock().advance(1h);
    }
    return calls;
  }
  static RetryPolicy at_most(int attempts) {
    RetryPolicy policy = RetryPolicy::standard();
    policy.max_attempts = attempts;
    return policy;
  }
  static DeliveryView delivery(WorkQueue& queue) {
    return Admin{queue}.list({}).entries.at(0).delivery;
  }
};

TEST_P(Attempts, OBX_064_OBX_065_the_outbox_has_10_and_the_last_failure_makes_it_dead) {
  outbox().enqueue(a_message());
  EXPECT_EQ(exhaust(outbox()), 10);
  EXPECT_EQ(delivery(outbox()).state, DeliveryState::dead);
  EXPECT_EQ(delivery(outbox()).reason, "max_attempts");
}

TEST_P(Attempts, IBX_083_IBX_084_the_inbox_has_10_and_the_last_failure_makes_it_dead) {
  inbox().accept(an_arrival());
  EXPECT_EQ(exhaust(inbox()), 10);
  EXPECT_EQ(delivery(inbox()).state, DeliveryState::dead);
  EXPECT_EQ(delivery(inbox()).reason, "max_attempts");
}

TEST_P(Attempts, OBX_065_IBX_084_the_number_is_an_option_of_the_box_and_of_the_handler) {
  outbox().enqueue(a_message());
  inbox().accept(an_arrival());
  EXPECT_EQ(exhaust(outbox(), {.retry = at_most(3)}), 3);
  BoxOptions chosen = options();
  chosen.retry = at_most(4);
  Inbox box{database(), chosen};
  EXPECT_EQ(exhaust(box), 4);
}

TEST_P(Attempts, PHD_08_what_is_out_of_retries_is_kept_and_neither_retried_nor_cleaned_up) {
  const HandlerName names[] = {{HandlerKey{"mail"}}};
  for (const int retries : {0, 3}) {
    const std::string id = "evt_" + std::to_string(retries);
    inbox().accept(an_arrival(id), names);
    int calls = 0;
    Handlers handlers;
    handlers.on_key(HandlerKey{"mail"},
                    [&](const Message&) {
                      ++calls;
                      throw std::runtime_error("no");
                    },
                    {.retry = at_most(retries)});
    Dispatcher dispatcher{inbox(), std::move(handlers)};
    for (int i = 0; i < 10; ++i) {
      dispatcher.drain();
      clock().advance(24h);
    }
    EXPECT_EQ(calls, std::max(1, retries));
    clock().advance(24h * 1000);
    EXPECT_EQ(inbox().prune({.older_than = 0s}), 0u);
    EXPECT_EQ(Admin{inbox()}.get(a_key(id))->deliveries.at(0).state, DeliveryState::dead);
  }
}

TWINBOX_ON_EVERY_BACKEND(Attempts);

}  // namespace
}  // namespace twinbox::test
