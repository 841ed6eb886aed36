// Handlers that get the content of a message as a type of their own.
#include "support/inbox_test.hpp"
#include <twinbox/channel.hpp>

namespace shop {

/// Reads itself.
struct Order {
  int number;

  static Order from_payload(std::string_view payload) {
    const std::size_t at = payload.find("order ");
    if (at == std::string_view::npos) throw std::invalid_argument("no order in it");
    return {std::stoi(std::string{payload.substr(at + 6)})};
  }
};

/// Knows its topic, and how it is written.
struct WireMessage {
  int number;

  static constexpr std::string_view topic = "parcel.sent";
  [[nodiscard]] std::string to_payload() const { return "parcel " + std::to_string(number); }
};

/// Belongs to somebody else, and cannot be copied.
struct Invoice {
  std::unique_ptr<int> total;
};

}  // namespace shop

template <>
struct twinbox::Decode<shop::Invoice> {
  static shop::Invoice from(std::string_view payload) {
    if (payload.empty()) throw 42;
    return {std::make_unique<int>(static_cast<int>(payload.size()))};
  }
};

namespace twinbox::test {
namespace {

static_assert(Decodable<shop::Order> && Decodable<shop::Invoice> && !Decodable<int>);

class Typed : public InboxTest {
 protected:
  void SetUp() override { outbox(); }
  void handle(const std::string& topic, const std::string& content, Handlers handlers) {
    outbox().enqueue({.topic = Topic{topic}, .payload = content});
    Dispatcher{outbox(), std::move(handlers)}.drain();
  }
  DeliveryView only_delivery() { return Admin{outbox()}.list({}).entries.at(0).delivery; }
};

TEST_P(Typed, handlers_get_the_content_and_the_message) {
  std::vector<std::string> called;
  const auto note = [&](const char* what, const shop::Order& order) {
    called.push_back(what + std::to_string(order.number));
  };
  Handlers handlers;
  handlers.on<shop::Order>(Topic{"a"}, [&](const shop::Order& order) { note("a", order); })
      .on<shop::Order>(Topic{"b"},
                       [&](const shop::Order& order, const Message& message) {
                         note(message.topic.str().c_str(), order);
                         return Outcome::done();
                       })
      .on<shop::Order>(Topic{"c"},
                       [&](const shop::Order& order, const Message&, std::stop_token stop) {
                         EXPECT_FALSE(stop.stop_requested());
                         note("c", order);
                       });
  for (const char* topic : {"a", "b", "c"}) handle(topic, "order 7", handlers);
  EXPECT_EQ(called, (std::vector<std::string>{"a7", "b7", "c7"}));
  EXPECT_EQ(Admin{outbox()}.counts(true).all.done, 3);
}

TEST_P(Typed, a_specialisation_reads_types_of_others) {
  int total = 0;
  Handlers handlers;
  handlers.on<shop::Invoice>(Topic{"a"},
                             [&](const shop::Invoice& invoice) { total = *invoice.total; });
  handle("a", "four", handlers);
  EXPECT_EQ(total, 4);
}

TEST_P(Typed, what_cannot_be_decoded_is_dead_at_once_and_malformed) {
  Handlers handlers;
  handlers.on<shop::Order>(Topic{"a"}, [](const shop::Order&) { FAIL() << "was called"; });
  handle("a", payload("nothing"), handlers);
  EXPECT_EQ(only_delivery().state, DeliveryState::dead);
  EXPECT_EQ(only_delivery().reason, "malformed");
  EXPECT_EQ(only_delivery().last_error, "no order in it");
  EXPECT_EQ(only_delivery().attempts, 1);
  handlers.on<shop::Invoice>(Topic{"b"}, [](const shop::Invoice&) { FAIL() << "was called"; });
  handle("b", "", handlers);
  EXPECT_EQ(only_delivery().reason, "malformed");
  EXPECT_FALSE(only_delivery().last_error.empty());
}

TEST_P(Typed, what_the_handler_itself_throws_is_retried) {
  Handlers handlers;
  handlers.on<shop::Order>(Topic{"a"},
                           [](const shop::Order&) { throw std::invalid_argument("no stock"); });
  handle("a", "order 7", handlers);
  EXPECT_EQ(only_delivery().state, DeliveryState::scheduled);
  EXPECT_EQ(only_delivery().last_error, "no stock");
}

TEST_P(Typed, transactional_ones_write_with_the_end_of_the_delivery) {
  write("create table {schema}orders (number integer)");
  Handlers handlers;
  handlers.on<shop::Order>(
      Topic{"a"}, [&](Session& session, const shop::Order& order, const Message&) {
        session.execute(in_schema("insert into {schema}orders values (@number)"),
                        {{"number", order.number}});
      });
  handle("a", "order 7", handlers);
  EXPECT_EQ(read("select max(number) from {schema}orders"), "7");
  EXPECT_EQ(only_delivery().state, DeliveryState::done);
  handle("a", "order ?", handlers);
  EXPECT_EQ(only_delivery().reason, "malformed");
}

TEST_P(Typed, live_on_channels_under_their_keys) {
  int number = 0;
  Channels channels;
  channels.add("orders.events")
      .uses(inbox())
      .on(Topic{"order.placed"}, HandlerKey{"mail"},
          typed<shop::Order>([&](const shop::Order& order) { number = order.number; }));
  channels.check();
  Arrival arrival = an_arrival("evt_1", "orders", "order.placed");
  arrival.payload = "order 8";
  channels.accept("orders.events", arrival);
  Dispatcher{inbox(), channels.handlers_of(inbox())}.drain();
  EXPECT_EQ(number, 8);
}

TEST_P(Typed, transactional_ones_need_not_take_the_message) {
  write("create table {schema}orders (number integer)");
  const auto keep = [&](Session& session, const shop::Order& order) {
    session.execute(in_schema("insert into {schema}orders values (@number)"),
                    {{"number", order.number}});
  };
  Handlers handlers;
  handlers.on<shop::Order>(Topic{"a"}, keep);
  handle("a", "order 7", handlers);
  EXPECT_EQ(read("select max(number) from {schema}orders"), "7");

  Channels channels;
  channels.add("orders.events")
      .uses(inbox())
      .on<shop::Order>(Topic{"order.placed"}, HandlerKey{"keep"}, keep);
  int told = 0;
  channels.add("screens").allow_without_inbox().on<shop::Order>(
      Topic{"order.placed"}, [&](const shop::Order& order) { told = order.number; });
  channels.check();
  Arrival arrival = an_arrival("evt_1", "orders", "order.placed");
  arrival.payload = "order 8";
  channels.accept(arrival);
  EXPECT_EQ(told, 8);
  Dispatcher{inbox(), channels.handlers_of(inbox())}.drain();
  EXPECT_EQ(read("select max(number) from {schema}orders"), "8");
}

TEST_P(Typed, values_are_enqueued_under_their_own_topic) {
  outbox().enqueue(shop::WireMessage{3});
  database().in_transaction([&](Session& session) {
    outbox().enqueue(session, shop::WireMessage{4}, {.partition_key = PartitionKey{"road 1"}});
  });
  const auto messages = enqueued(outbox(), Topic{"parcel.sent"});
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0].payload, "parcel 3");
  EXPECT_EQ(messages[1].extras.partition_key, PartitionKey{"road 1"});
  EXPECT_TRUE(enqueued(outbox(), Topic{"order.placed"}).empty());
}

TEST_P(Typed, a_test_makes_the_message_that_its_handler_gets) {
  const Instant now = clock().now();
  const Message message = make_message({.topic = Topic{"a"},
                                        .payload = "order 9",
                                        .extras = {.delay = 1h, .headers = R"({"a":"b"})"}},
                                       now);
  int number = 0;
  const auto handler = typed<shop::Order>([&](const shop::Order& order) { number = order.number; });
  auto call = handler;
  EXPECT_EQ(call(message, {}).kind(), Outcome::Kind::done);
  EXPECT_EQ(number, 9);
  EXPECT_EQ(message.attempts, 0);
  EXPECT_EQ(message.due_at, now + 1h);
  EXPECT_EQ(message.headers, R"({"a":"b"})");
  EXPECT_EQ(message.id.view(), "test");
  EXPECT_EQ(message.source, Source::none());
}

TWINBOX_ON_EVERY_BACKEND(Typed);

}  // namespace
}  // namespace twinbox::test
