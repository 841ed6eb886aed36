// Handlers that take several messages in one call.
#include "support/inbox_test.hpp"
#include <twinbox/channel.hpp>

namespace twinbox::test {
namespace {

class Batch : public InboxTest {
 protected:
  void SetUp() override { outbox(); }
  void enqueue(int count) {
    for (int i = 0; i < count; ++i) {
      outbox().enqueue(a_message("row.added", std::to_string(i)));
    }
  }
  StateCounts counts() { return Admin{outbox()}.counts(true).all; }
};

std::vector<Outcome> all_done(std::span<const Message> messages, const std::stop_token&) {
  return std::vector<Outcome>(messages.size(), Outcome::done());
}

TEST_P(Batch, each_message_gets_its_own_outcome) {
  Handlers handlers;
  handlers.on_batch(Topic{"row.added"}, [&](std::span<const Message> messages, std::stop_token) {
    std::vector<Outcome> outcomes;
    for (const Message& message : messages) {
      if (message.payload == payload("1")) {
        outcomes.push_back(Outcome::retry("busy"));
      } else if (message.payload == payload("2")) {
        outcomes.push_back(Outcome::dead("no such table"));
      } else {
        outcomes.push_back(Outcome::done());
      }
    }
    return outcomes;
  });
  enqueue(5);
  EXPECT_EQ(Dispatcher(outbox(), std::move(handlers)).step(), 5u);
  EXPECT_EQ(counts().done, 3);
  EXPECT_EQ(counts().dead, 1);
  EXPECT_EQ(counts().scheduled, 1);
}

TEST_P(Batch, what_was_claimed_together_comes_in_calls_of_at_most_max_batch) {
  std::vector<std::size_t> sizes;
  std::vector<std::string> contents;
  Handlers handlers;
  handlers.on_batch(Topic{"row.added"},
                    [&](std::span<const Message> messages, std::stop_token) {
                      sizes.push_back(messages.size());
                      for (const Message& message : messages) contents.push_back(message.payload);
                      return std::vector<Outcome>(messages.size(), Outcome::done());
                    },
                    {.max_batch = 3});
  handlers.on(Topic{"order.placed"}, [](const Message&) {});
  enqueue(4);
  outbox().enqueue(a_message());
  enqueue(1);
  int told = 0;
  DispatchObserver observer;
  observer.handled = [&](std::string_view, const Message&, const Outcome&, Duration) { ++told; };
  EXPECT_EQ(Dispatcher(outbox(), std::move(handlers), {}, observer).step(), 6u);
  EXPECT_EQ(sizes, (std::vector<std::size_t>{3, 2}));
  EXPECT_EQ(contents,
            (std::vector{payload("0"), payload("1"), payload("2"), payload("3"), payload("0")}));
  EXPECT_EQ(counts().done, 6);
  EXPECT_EQ(told, 6);
  EXPECT_EQ(log().events("handle").size(), 6u);
}

TEST_P(Batch, leaves_out_what_is_paused) {
  std::vector<std::string> topics;
  Handlers handlers;
  handlers.on_batch(HandlerKey{"warehouse"},
                    [&](std::span<const Message> messages, std::stop_token) {
                      for (const Message& message : messages) topics.push_back(message.topic.str());
                      return std::vector<Outcome>(messages.size(), Outcome::done());
                    });
  const HandlerName names[] = {{HandlerKey{"warehouse"}}};
  for (const char* topic : {"a", "b", "c"}) inbox().accept(an_arrival(topic, "s", topic), names);
  Dispatcher dispatcher{inbox(), std::move(handlers)};
  dispatcher.pause_topic(Topic{"b"});
  EXPECT_EQ(dispatcher.step(), 3u);
  EXPECT_EQ(topics, (std::vector<std::string>{"a", "c"}));
  EXPECT_EQ(inbox().state(a_key("b", "s")), MessageState::open);
}

TEST_P(Batch, a_wrong_number_of_outcomes_is_a_retry_that_says_so) {
  Handlers handlers;
  handlers.on_batch(Topic{"row.added"}, [](std::span<const Message>, std::stop_token) {
    return std::vector<Outcome>{};
  });
  enqueue(2);
  Dispatcher(outbox(), std::move(handlers)).step();
  EXPECT_EQ(counts().scheduled, 2);
  const Page page = Admin{outbox()}.list({});
  for (const DeliveryEntry& entry : page.entries) {
    EXPECT_NE(entry.delivery.last_error.find("0 outcomes for 2"), std::string::npos);
    EXPECT_EQ(entry.delivery.attempts, 1);
  }
  EXPECT_EQ(log().events("handler_error").size(), 2u);
}

TEST_P(Batch, registration_is_checked_like_any_other) {
  Handlers handlers;
  handlers.on_batch(Topic{"a"}, all_done);
  EXPECT_THROW(handlers.on_batch(Topic{"a"}, all_done), UsageError);
  EXPECT_THROW(handlers.on_batch(Topic{"b"}, all_done, {.at_most_once = true}), UsageError);
  EXPECT_THROW(handlers.on_batch(Topic{"b"}, all_done, {.max_batch = 0}), std::out_of_range);
  EXPECT_THROW(handlers.make_at_most_once(), UsageError);
  Channels channels;
  channels.add("direct").allow_without_inbox().add(Topic{"a"}, {}, {BatchHandler{all_done}});
  EXPECT_THROW(channels.check(), UsageError);
}

TEST_P(Batch, lives_on_a_channel_beside_others) {
  std::size_t rows = 0;
  Channels channels;
  channels.add("rows")
      .uses(inbox())
      .on_batch(Topic{"row.added"}, HandlerKey{"warehouse"},
                [&](std::span<const Message> messages, std::stop_token) {
                  rows += messages.size();
                  return std::vector<Outcome>(messages.size(), Outcome::done());
                })
      .on(Topic{"row.added"}, HandlerKey{"mail"}, [](const Message&) {});
  channels.check();
  for (const char* id : {"1", "2", "3"}) {
    channels.accept("rows", an_arrival(id, "table", "row.added"));
  }
  EXPECT_EQ(Dispatcher(inbox(), channels.handlers_of(inbox())).drain(), 6u);
  EXPECT_EQ(rows, 3u);
}

TWINBOX_ON_EVERY_BACKEND(Batch);

}  // namespace
}  // namespace twinbox::test
