#include "twinbox/ids.hpp"

#include <stdexcept>
#include <string>
#include <type_traits>

#include <gtest/gtest.h>

namespace twinbox {
namespace {

template <class Make>
std::string refusal(Make make) {
  try {
    make();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

std::string smileys(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += "😀";
  return text;
}

TEST(Ids, keep_the_text_they_were_given) {
  EXPECT_EQ(Topic{"order.placed"}.str(), "order.placed");
  EXPECT_EQ(Source{" shop "}.view(), " shop ");
}

TEST(Ids, take_exactly_their_bound_and_no_more) {
  EXPECT_NO_THROW(Topic{std::string(255, 'a')});
  EXPECT_NO_THROW(HandlerKey{std::string(200, 'a')});
  EXPECT_EQ(refusal([] { Topic{std::string(300, 'a')}; }),
            "topic: 300 characters, at most 255 are allowed");
  EXPECT_EQ(refusal([] { Source{std::string(256, 'a')}; }),
            "source: 256 characters, at most 255 are allowed");
  EXPECT_EQ(refusal([] { MessageId{std::string(256, 'a')}; }),
            "message id: 256 characters, at most 255 are allowed");
  EXPECT_EQ(refusal([] { HandlerKey{std::string(201, 'a')}; }),
            "handler key: 201 characters, at most 200 are allowed");
  EXPECT_EQ(refusal([] { CorrelationId{std::string(256, 'a')}; }),
            "correlation id: 256 characters, at most 255 are allowed");
  EXPECT_EQ(refusal([] { PartitionKey{std::string(256, 'a')}; }),
            "partition key: 256 characters, at most 255 are allowed");
}

TEST(Ids, take_more_on_the_event_bus_path) {
  EXPECT_NO_THROW(Topic::event_name(std::string(500, 'a')));
  EXPECT_NO_THROW(MessageId::event_id(std::string(256, 'a')));
  EXPECT_EQ(refusal([] { Topic::event_name(std::string(501, 'a')); }),
            "event name: 501 characters, at most 500 are allowed");
  EXPECT_EQ(refusal([] { MessageId::event_id(std::string(257, 'a')); }),
            "event id: 257 characters, at most 256 are allowed");
}

TEST(Ids, are_counted_in_utf16_code_units) {
  EXPECT_NO_THROW(Topic{smileys(127)});
  EXPECT_EQ(refusal([] { Topic{smileys(128)}; }), "topic: 256 characters, at most 255 are allowed");
}

TEST(Ids, refuse_what_no_database_could_keep) {
  EXPECT_EQ(refusal([] { Source{""}; }), "source: empty, 1 to 255 characters are needed");
  EXPECT_EQ(refusal([] { Topic{" \t\u00A0\u2003"}; }),
            "topic: only blanks, 1 to 255 characters are needed");
  EXPECT_EQ(refusal([] { MessageId{"order-\xFF"}; }),
            "message id: not UTF-8 (byte 7), only UTF-8 text is allowed");
  EXPECT_EQ(refusal([] { Topic{std::string("a\0b", 3)}; }),
            "topic: contains NUL (byte 2), which no database keeps");
}

TEST(Ids, have_reserved_values_that_nobody_can_type_by_accident) {
  EXPECT_EQ(Source::none().str(), "-");
  EXPECT_EQ(HandlerKey::by_topic().str(), "");
}

TEST(Ids, compare_byte_by_byte) {
  EXPECT_NE(Topic{"Order"}, Topic{"order"});
  EXPECT_LT(Topic{"a"}, Topic{"b"});
  EXPECT_EQ((MessageKey{Source{"s"}, MessageId{"1"}}), (MessageKey{Source{"s"}, MessageId{"1"}}));
  EXPECT_LT((MessageKey{Source{"s"}, MessageId{"1"}}), (MessageKey{Source{"s"}, MessageId{"2"}}));
}

TEST(Ids, do_not_convert_into_each_other) {
  EXPECT_FALSE((std::is_convertible_v<Topic, Source>));
  EXPECT_FALSE((std::is_constructible_v<Topic, Source>));
  EXPECT_FALSE((std::is_convertible_v<std::string, Topic>));
  EXPECT_FALSE((std::is_convertible_v<std::int64_t, DeliveryId>));
}

}  // namespace
}  // namespace twinbox
