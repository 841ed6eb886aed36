#include <stdexcept>

#include <gtest/gtest.h>

#include "twinbox/handler.hpp"
#include <twinbox/handler.hpp>

namespace twinbox {
namespace {

struct Case {
  const char* pattern;
  const char* topic;
  bool matches;
};

constexpr Case cases[] = {
    {"order.placed", "order.placed", true},
    {"order.placed", "order.Placed", false},
    {"order.placed", "order", false},
    {"order.placed", "order.placed.now", false},
    {"order", "order", true},
    {"*", "order", true},
    {"*", "order.placed", false},
    {"*.placed", "order.placed", true},
    {"*.placed", "placed", false},
    {"order.*", "order.placed", true},
    {"order.*", "order", false},
    {"order.*", "order.placed.now", false},
    {"order.*", "order.", true},  // one word, which is empty
    {"order.*.late", "order.payment.late", true},
    {"#", "order", true},
    {"#", "a.b.c.d", true},
    {"order.#", "order", true},
    {"order.#", "order.placed.now", true},
    {"order.#", "orders", false},
    {"#.late", "late", true},
    {"#.late", "order.payment.late", true},
    {"#.late", "order.payment.late.again", false},
    {"#.late.#", "order.late.again", true},
    {"order.#.late", "order.late", true},
    {"order.#.late", "order.late.late", true},
    {"order.#.late", "order.a.b.late", true},
    {"order.#.late", "order.a.b.soon", false},
    {"#.a.#.b", "x.a.y.a.b.c.b", true},
    {"#.a.#.b", "x.b.a", false},
    {"#.*", "a", true},
    {"#.*.*", "a", false},
    {"*.#", "a.b.c", true},
    {"#.#", "a", true},
    {"a.#.*.c", "a.c", false},
    {"a.#.*.c", "a.c.c", true},
    {"größe.*", "größe.klein", true},
    {"a.b", "a..b", false},
    {"a.*.b", "a..b", true},
};

TEST(TopicPatternOf, words_matches_what_its_words_say) {
  for (const Case& one : cases) {
    EXPECT_EQ(TopicPattern{one.pattern}.matches(one.topic), one.matches)
        << one.pattern << " against " << one.topic;
  }
}

TEST(TopicPatternOf, many_words_and_many_hashes_answers_in_bounded_time) {
  std::string pattern = "#";
  std::string topic = "a";
  for (int i = 0; i < 120; ++i) pattern += ".a.#";
  for (int i = 0; i < 248; ++i) topic += ".a";
  EXPECT_TRUE(TopicPattern{pattern}.matches(topic));
  EXPECT_FALSE(TopicPattern{pattern + ".b"}.matches(topic));
}

std::string refusal(std::string_view text) {
  try {
    TopicPattern{text};
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "taken";
}

TEST(TopicPatternOf, bad_text_is_refused_with_the_way_out) {
  EXPECT_NE(refusal("").find("topic pattern"), std::string::npos) << refusal("");
  EXPECT_NE(refusal("  ").find("topic pattern"), std::string::npos);
  EXPECT_NE(refusal("a\xff").find("UTF-8"), std::string::npos);
  EXPECT_NE(refusal(std::string(501, 'x')).find("500"), std::string::npos);
  EXPECT_EQ(refusal("a..b"),
            "topic pattern 'a..b': a word is empty; words are separated by single dots");
  EXPECT_NE(refusal(".a").find("empty"), std::string::npos);
  EXPECT_NE(refusal("a.").find("empty"), std::string::npos);
  EXPECT_EQ(refusal("order*"),
            "topic pattern 'order*': 'order*' mixes '*' with other characters; it must be a word "
            "of its own, as in 'order.*'");
  EXPECT_NE(refusal("a.##").find("'#'"), std::string::npos);
}

const HandlerEntry* found(const Handlers& handlers, const char* topic) {
  return handlers.find(HandlerKey::by_topic(), Topic{topic});
}

TEST(HandlersOfPatterns, are_found_after_the_exact_topic_in_order_of_registration) {
  Handlers handlers;
  const auto nothing = [](const Message&) {};
  handlers.on(TopicPattern{"order.*"}, nothing, {.timeout = std::chrono::seconds{1}})
      .on(TopicPattern{"#"}, nothing, {.timeout = std::chrono::seconds{2}})
      .on(TopicPattern{"order.#"}, nothing, {.timeout = std::chrono::seconds{3}})
      .on(Topic{"order.placed"}, nothing, {.timeout = std::chrono::seconds{4}});
  EXPECT_EQ(found(handlers, "order.placed")->options.timeout, std::chrono::seconds{4});
  EXPECT_EQ(found(handlers, "order.paid")->options.timeout, std::chrono::seconds{1});
  EXPECT_EQ(found(handlers, "order")->options.timeout, std::chrono::seconds{2});
  EXPECT_EQ(found(handlers, "other")->options.timeout, std::chrono::seconds{2});
}

TEST(HandlersOfPatterns, do_not_take_deliveries_under_a_key) {
  Handlers handlers;
  handlers.on(TopicPattern{"#"}, [](const Message&) {});
  EXPECT_EQ(handlers.find(HandlerKey{"mail"}, Topic{"order.placed"}), nullptr);
  EXPECT_TRUE(handlers.keys().empty());
}

TEST(HandlersOfPatterns, refuse_the_same_pattern_twice) {
  Handlers handlers;
  handlers.on(TopicPattern{"a.*"}, [](const Message&) {});
  EXPECT_THROW(handlers.on(TopicPattern{"a.*"}, [](const Message&) {}), UsageError);
}

TEST(HandlersOfPatterns, count_in_batches_and_in_the_switch_for_all) {
  Handlers batched;
  batched.add(TopicPattern{"a.*"},
              {BatchHandler{[](auto, auto) { return std::vector<Outcome>{}; }}, {.max_batch = 7}});
  EXPECT_EQ(batched.largest_batch(), 7u);
  EXPECT_THROW(batched.make_at_most_once(), UsageError);

  Handlers handlers;
  handlers.on(TopicPattern{"a.*"}, [](const Message&) {});
  handlers.make_at_most_once();
  EXPECT_EQ(found(handlers, "a.b")->guarantee(), Guarantee::at_most_once);
}

}  // namespace
}  // namespace twinbox
