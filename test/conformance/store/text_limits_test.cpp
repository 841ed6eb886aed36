// Names as the store keeps them: bounded, byte for byte, and never taken for SQL.
#include "support/inbox_test.hpp"
#include "support/reused_schema.hpp"

namespace twinbox::test {
namespace {

std::string times(int count, std::string_view text) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

const std::string emoji = "\xF0\x9F\x98\x80";
const std::string composed = "caf\xC3\xA9";
const std::string decomposed = "cafe\xCC\x81";

class TextLimits : public InboxTest {
 protected:
  /// Every name that is bounded by 255 characters, made of `text`.
  static std::vector<std::function<void()>> names_of(const std::string& text) {
    return {[=] { Source{text}; }, [=] { MessageId{text}; }, [=] { Topic{text}; },
            [=] { CorrelationId{text}; }, [=] { PartitionKey{text}; }};
  }
};

TEST_P(TextLimits, IBX_011_IBX_012_IBX_020_count_utf16_code_units) {
  for (const std::string& text : {std::string(255, 'x'), times(127, emoji) + "x",
                                  times(255, "\xC3\xA9"), times(255, "\xE2\x82\xAC")}) {
    Arrival arrival = an_arrival(text, text, text);
    arrival.extras.correlation_id = CorrelationId{text};
    arrival.extras.partition_key = PartitionKey{text};
    EXPECT_EQ(inbox().accept(arrival).state, Acceptance::accepted);
    const auto messages = inbox().claim(worker_a, 30s, 1);
    ASSERT_EQ(messages.size(), 1u);
    EXPECT_EQ(messages[0].id.str(), text);
    EXPECT_EQ(messages[0].source.str(), text);
    EXPECT_EQ(messages[0].topic.str(), text);
    EXPECT_EQ(messages[0].correlation_id, CorrelationId{text});
    EXPECT_EQ(messages[0].partition_key, PartitionKey{text});
    inbox().ack(worker_a, messages);
    for (const auto& name : names_of(text + "x")) EXPECT_THROW(name(), std::invalid_argument);
  }
}

TEST_P(TextLimits, IBX_009_IBX_010_IBX_015_refuse_what_is_no_name) {
  const std::vector<std::string> no_names{
      "",
      " ",
      "\t\n\r ",
      "\xC2\xA0\xE3\x80\x80",  // a no-break space and an ideographic one
      std::string("nul\0byte", 8),
      "\xFF",
      "cut \xF0\x9F\x98",
      "\xC0\xAF",      // overlong
      "\xED\xA0\x80",  // a surrogate
  };
  for (const std::string& text : no_names) {
    for (const auto& name : names_of(text)) EXPECT_THROW(name(), std::invalid_argument) << text;
    EXPECT_THROW(HandlerKey{text}, std::invalid_argument) << text;
  }
  inbox();
  EXPECT_EQ(count_messages(), "0");
}

TEST_P(TextLimits, hold_handler_keys_of_200_characters) {
  const std::string key = times(100, emoji);
  EXPECT_THROW(HandlerKey{key + "x"}, std::invalid_argument);
  inbox().accept(an_arrival(), std::vector<HandlerName>{{HandlerKey{key}}});
  EXPECT_EQ(delivery().key.handler.str(), key);
}

TEST_P(TextLimits, hold_longer_names_on_the_event_path) {
  const std::string name = times(250, emoji);
  const std::string id = times(128, emoji);
  EXPECT_THROW(Topic::event_name(name + "x"), std::invalid_argument);
  EXPECT_THROW(MessageId::event_id(id + "x"), std::invalid_argument);
  const Arrival arrival{.source = Source{"bus"},
                        .id = MessageId::event_id(id),
                        .topic = Topic::event_name(name),
                        .payload = payload()};
  EXPECT_EQ(inbox().accept(arrival).state, Acceptance::accepted);
  EXPECT_EQ(inbox().accept(arrival).state, Acceptance::duplicate_open);
  const auto messages = inbox().claim(worker_a, 30s, 1);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].id.str(), id);
  EXPECT_EQ(messages[0].topic.str(), name);
}

TEST_P(TextLimits, IBX_001_tell_ids_and_sources_apart_byte_by_byte) {
  std::vector<MessageKey> keys{a_key("evt"),
                               a_key("EVT"),
                               a_key(" evt"),
                               a_key(composed),
                               a_key(decomposed),
                               a_key("evt", "A"),
                               a_key("evt", "a"),
                               a_key("evt", composed),
                               a_key("evt", decomposed),
                               a_key("stra\xC3\x9F"
                                     "e"),
                               a_key("strasse")};
  if (on_sqlserver()) {
    EXPECT_THROW(inbox().accept(an_arrival("evt ")), std::invalid_argument);
  } else {
    keys.push_back(a_key("evt "));
  }
  for (const MessageKey& key : keys) {
    Arrival arrival = an_arrival(key.id.str(), key.source.str());
    EXPECT_EQ(inbox().accept(arrival).state, Acceptance::accepted) << key.id.str();
  }
  EXPECT_TRUE(inbox().mark_processed(keys[0]));
  for (std::size_t i = 1; i < keys.size(); ++i) EXPECT_FALSE(inbox().has_processed(keys[i])) << i;
  EXPECT_EQ(count_messages(), std::to_string(keys.size()));
}

TEST_P(TextLimits, IBX_021_tell_topics_apart_by_case) {
  inbox().accept(an_arrival("1", "stripe", "Order.Created"));
  inbox().accept(an_arrival("2", "stripe", "order.created"));
  const auto messages = inbox().claim(worker_a, 30s, 10);
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0].topic.str(), "Order.Created");
  EXPECT_EQ(messages[1].topic.str(), "order.created");
  EXPECT_EQ(read("select count(*) from {schema}inbox where Topic = 'order.created'"), "1");
  EXPECT_EQ(Admin{inbox()}.list({.topic = Topic{"Order.Created"}}).entries.size(), 1u);
}

TEST_P(TextLimits, tell_handlers_and_partition_keys_apart_byte_by_byte) {
  const std::vector<HandlerName> handlers{
      {HandlerKey{"mail"}}, {HandlerKey{"Mail"}}, {HandlerKey{composed}}, {HandlerKey{decomposed}}};
  inbox().accept(an_arrival(), handlers);
  EXPECT_EQ(inbox().claim(worker_a, 30s, 10).size(), 4u);
  for (const std::string& key : {composed, decomposed, std::string{"k"}, std::string{"K"}}) {
    Arrival arrival = an_arrival("with " + key);
    arrival.extras.partition_key = PartitionKey{key};
    inbox().accept(arrival);
  }
  EXPECT_EQ(inbox().claim(worker_a, 30s, 10).size(), 4u);
}

TEST_P(TextLimits, keep_sql_in_every_text_as_text) {
  if (on_sqlserver() && is_stand_in())
    GTEST_SKIP() << "the stand-in leaves escapes in JSON as they are";
  for (const std::string& evil :
       {std::string{"'; drop table inbox_message; --"},
        std::string{"\"; delete from inbox_work; --"}, std::string{"@now ? $1 :x {message} %s \\"},
        std::string{"$twinbox$"}}) {
    Arrival arrival = an_arrival(evil, evil, evil);
    arrival.payload = payload(evil);
    arrival.extras.correlation_id = CorrelationId{evil};
    arrival.extras.partition_key = PartitionKey{evil};
    arrival.extras.content_type = evil;
    arrival.extras.headers = "{\"x\": \"'; drop table inbox_work; -- @now $1\"}";
    arrival.extras.hash = ContentHash{evil, evil};
    const std::vector<HandlerName> handlers{{HandlerKey{evil}, {HandlerKey{"old " + evil}}}};
    EXPECT_EQ(inbox().accept(arrival, handlers).state, Acceptance::accepted);
    const auto messages = inbox().claim(worker_a, 30s, 1);
    ASSERT_EQ(messages.size(), 1u);
    const Message& message = messages[0];
    EXPECT_EQ(message.id.str(), evil);
    EXPECT_EQ(message.source.str(), evil);
    EXPECT_EQ(message.topic.str(), evil);
    EXPECT_EQ(message.handler.str(), evil);
    EXPECT_EQ(message.payload, arrival.payload);
    EXPECT_EQ(message.correlation_id, arrival.extras.correlation_id);
    EXPECT_EQ(message.partition_key, arrival.extras.partition_key);
    EXPECT_EQ(message.content_type, arrival.extras.content_type);
    EXPECT_EQ(message.headers, arrival.extras.headers);
    EXPECT_EQ(message.hash, arrival.extras.hash);
    EXPECT_EQ(inbox().abandon(worker_a, messages, evil), 1u);
    EXPECT_EQ(delivery(arrival.key()).last_error, evil);
    EXPECT_TRUE(inbox().mark_dead(arrival.key(), evil));
    EXPECT_EQ(delivery(arrival.key()).last_error, evil);
    EXPECT_TRUE(inbox().try_claim(arrival.key(), Topic{evil}, HandlerKey{"gate " + evil}));
    EXPECT_TRUE(inbox().release_claim(arrival.key(), HandlerKey{"gate " + evil}));
  }
  EXPECT_EQ(count_messages(), "4");
}

TEST_P(TextLimits, refuse_extras_that_no_database_keeps) {
  inbox();
  const auto refused = [&](const MessageExtras& extras) {
    Arrival arrival = an_arrival();
    arrival.extras = extras;
    EXPECT_THROW(inbox().accept(arrival), std::invalid_argument);
    EXPECT_THROW(inbox().accept(std::vector{arrival}), std::invalid_argument);
  };
  refused({.content_type = std::string("text\0plain", 10)});
  refused({.content_type = "\xFF"});
  refused({.headers = "not json"});
  refused({.headers = "{\"x\": \"\xFF\"}"});
  refused({.hash = ContentHash{""}});
  refused({.hash = ContentHash{"bytes", "\xFF"}});
  refused({.hash = ContentHash{"bytes", ""}});
  EXPECT_EQ(count_messages(), "0");
}

TEST_P(TextLimits, cut_an_error_and_clean_it_instead_of_failing) {
  const auto held = inbox().accept_and_claim(an_arrival(), worker_a, 30s).messages;
  const std::string dirty = std::string("nul\0 ", 5) + "\xFF " + std::string(5000, 'e');
  EXPECT_EQ(inbox().fail(worker_a, held, dirty), 1u);
  const std::string kept = delivery().last_error;
  EXPECT_TRUE(kept.starts_with("nul\xEF\xBF\xBD \xEF\xBF\xBD eee"));
  EXPECT_TRUE(kept.ends_with("… (cut)"));
  EXPECT_LT(kept.size(), 4010u);
}

TWINBOX_ON_EVERY_BACKEND(TextLimits);

}  // namespace
}  // namespace twinbox::test
