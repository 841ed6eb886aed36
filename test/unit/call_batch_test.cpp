#include "dispatch/call_batch.hpp"

#include <gtest/gtest.h>

#include "support/claimed_message.hpp"

namespace twinbox {
namespace {

using test::claimed_message;

using Batches = std::vector<std::vector<std::size_t>>;

std::vector<Outcome> all_done(std::span<const Message> messages, const std::stop_token&) {
  return std::vector<Outcome>(messages.size(), Outcome::done());
}

std::vector<Message> of_topics(const std::vector<std::string>& topics) {
  std::vector<Message> messages;
  for (const std::string& topic : topics) messages.push_back(claimed_message(topic));
  return messages;
}

TEST(CallBatch, puts_the_messages_of_one_batch_handler_together_up_to_its_bound) {
  Handlers handlers;
  handlers.on_batch(Topic{"b"}, all_done, {.max_batch = 2});
  handlers.on_batch(Topic{"c"}, all_done);
  handlers.on(Topic{"a"}, [](const Message&) {});
  EXPECT_EQ(batches_of(handlers, of_topics({"b", "a", "c", "b", "x", "b", "a", "c"})),
            (Batches{{0, 3}, {1}, {2, 7}, {4}, {5}, {6}}));
  EXPECT_EQ(batches_of(handlers, {}), Batches{});
}

TEST(CallBatch, a_bound_of_one_means_alone) {
  Handlers handlers;
  handlers.on_batch(Topic{"b"}, all_done, {.max_batch = 1});
  EXPECT_EQ(batches_of(handlers, of_topics({"b", "b"})), (Batches{{0}, {1}}));
}

TEST(CallBatch, a_key_and_its_legacy_keys_are_one_handler) {
  Handlers handlers;
  handlers.on_batch(HandlerKey{"new"}, all_done, {.legacy_keys = {HandlerKey{"old"}}});
  const std::vector<Message> messages{claimed_message("a", HandlerKey{"new"}),
                                      claimed_message("b", HandlerKey{"old"}),
                                      claimed_message("a", HandlerKey{"other"})};
  EXPECT_EQ(batches_of(handlers, messages), (Batches{{0, 1}, {2}}));
}

TEST(CallBatch, gives_an_outcome_for_each_message) {
  const BatchHandler handler = [](std::span<const Message> messages, const std::stop_token&) {
    EXPECT_EQ(messages.size(), 3u);
    return std::vector{Outcome::done(), Outcome::retry("busy"), Outcome::dead("no")};
  };
  const BatchAnswer answer = call_batch(handler, of_topics({"a", "b", "c"}), {});
  EXPECT_EQ(answer.error, "");
  ASSERT_EQ(answer.outcomes.size(), 3u);
  EXPECT_EQ(answer.outcomes[0].kind(), Outcome::Kind::done);
  EXPECT_EQ(answer.outcomes[1].reason(), "busy");
  EXPECT_EQ(answer.outcomes[2].kind(), Outcome::Kind::dead);
}

TEST(CallBatch, retries_all_when_the_number_is_wrong_or_the_handler_throws) {
  const auto answer_of = [](const BatchHandler& handler) {
    BatchAnswer answer = call_batch(handler, of_topics({"a", "b", "c"}), {});
    EXPECT_EQ(answer.outcomes.size(), 3u);
    for (const Outcome& outcome : answer.outcomes) {
      EXPECT_EQ(outcome.kind(), Outcome::Kind::retry);
      EXPECT_EQ(outcome.reason(), answer.error);
    }
    return answer.error;
  };
  const auto two = [](std::span<const Message>, const std::stop_token&) {
    return std::vector<Outcome>(2, Outcome::done());
  };
  EXPECT_EQ(answer_of(two),
            "the batch handler gave 2 outcomes for 3 messages; it must give one for each, in "
            "their order");
  EXPECT_EQ(answer_of([](std::span<const Message>, const std::stop_token&) -> std::vector<Outcome> {
              throw std::runtime_error("no table");
            }),
            "no table");
  EXPECT_NE(answer_of([](std::span<const Message>, const std::stop_token&) -> std::vector<Outcome> {
              throw 1;
            }),
            "");
}

}  // namespace
}  // namespace twinbox
