// Exceptions of a user's code that have no text at all.
#include <exception>

#include "support/inbox_test.hpp"
#include <twinbox/channel.hpp>
#include <twinbox/dispatcher.hpp>

namespace twinbox::test {
namespace {

/// As a library written in another language may throw it.
struct Textless : std::exception {
  [[nodiscard]] const char* what() const noexcept override { return nullptr; }
};

constexpr std::string_view no_text = "an exception without a text (its what() is null)";

class Exceptions : public InboxTest {
 protected:
  /// Handles one message with these handlers.
  void handle(Handlers handlers, DispatcherOptions options = {}) {
    outbox().enqueue(a_message());
    Dispatcher dispatcher{outbox(), std::move(handlers), std::move(options)};
    EXPECT_EQ(dispatcher.step(), 1u);
  }
  DeliveryView only_delivery() { return Admin{outbox()}.list({}).entries.at(0).delivery; }
  void expect_tried_again() {
    EXPECT_EQ(only_delivery().state, DeliveryState::scheduled);
    EXPECT_EQ(only_delivery().attempts, 1);
    EXPECT_EQ(only_delivery().last_error, no_text);
    ASSERT_EQ(log().events("handler_error").size(), 1u);
    EXPECT_EQ(log().events("handler_error")[0].field("error"), no_text);
  }
};

TEST_P(Exceptions, without_a_text_are_an_attempt_of_a_plain_handler) {
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [](const Message&) { throw Textless{}; });
  handle(std::move(handlers));
  expect_tried_again();
}

TEST_P(Exceptions, without_a_text_are_an_attempt_of_a_transactional_handler) {
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [](Session&, const Message&) { throw Textless{}; });
  handle(std::move(handlers));
  expect_tried_again();
}

TEST_P(Exceptions, without_a_text_are_an_attempt_of_each_message_of_a_batch_handler) {
  Handlers handlers;
  handlers.on_batch(Topic{"order.placed"},
                    [](std::span<const Message>, const std::stop_token&) -> std::vector<Outcome> {
                      throw Textless{};
                    });
  handle(std::move(handlers));
  expect_tried_again();
}

TEST_P(Exceptions, without_a_text_leave_the_mark_of_an_at_most_once_handler) {
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [](const Message&) { throw Textless{}; },
              {.at_most_once = true});
  handle(std::move(handlers));
  EXPECT_EQ(only_delivery().state, DeliveryState::marked);
  ASSERT_EQ(log().events("handler_error").size(), 1u);
  EXPECT_EQ(log().events("handler_error")[0].field("error"), no_text);
}

TEST_P(Exceptions, without_a_text_in_a_retry_policy_leave_the_doubling) {
  RetryPolicy retry;
  retry.custom = [](int) -> std::chrono::milliseconds { throw Textless{}; };
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [](const Message&) { return Outcome::retry("full"); },
              {.retry = retry});
  handle(std::move(handlers));
  EXPECT_EQ(only_delivery().state, DeliveryState::scheduled);
  EXPECT_EQ(only_delivery().visible_at, clock().now() + retry.first_delay);
  ASSERT_EQ(log().events("retry_error").size(), 1u);
  EXPECT_EQ(log().events("retry_error")[0].field("error"), no_text);
}

TEST_P(Exceptions, without_a_text_in_on_failure_leave_the_failure_as_it_was) {
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [](const Message&) { return Outcome::retry("full"); });
  handle(std::move(handlers),
         {.on_failure = [](const Message&, const Outcome&) -> Outcome { throw Textless{}; }});
  EXPECT_EQ(only_delivery().last_error, "full");
  ASSERT_EQ(log().events("on_failure_error").size(), 1u);
  EXPECT_EQ(log().events("on_failure_error")[0].field("error"), no_text);
}

TEST_P(Exceptions, without_a_text_are_told_of_a_handler_of_a_channel) {
  Channels channels{{}, environment()};
  channels.add("orders").allow_without_inbox().on(Topic{"order.placed"},
                                                  [](const Message&) { throw Textless{}; });
  channels.check();
  channels.accept(an_arrival("evt_1", "orders", "order.placed"));
  bool told = false;
  for (const RecordedEvent& event : log().events()) told |= event.field("error") == no_text;
  EXPECT_TRUE(told);
}

TWINBOX_ON_EVERY_BACKEND(Exceptions);

}  // namespace
}  // namespace twinbox::test
