// Events for channels of the same process and store, and what a channel keeps of how they came.
#include <algorithm>

#include "support/inbox_test.hpp"
#include <twinbox/event_bus.hpp>

namespace twinbox::test {
namespace {

using Strings = std::vector<std::string>;

CloudEvent an_event(std::string id = "evt-1") {
  CloudEvent event{.id = std::move(id), .source = "/shop", .type = "order.placed.v1"};
  event.set_data(R"({"secret":"~payload~"})");
  return event;
}

class LocalEvent : public InboxTest {
 protected:
  void SetUp() override {
    outbox();
    channels_.add("stock")
        .from(Source{"/shop"})
        .over("local outbox")
        .uses(inbox())
        .add(type_, HandlerKey{"reserve"}, event_handler([&](const CloudEvent& event) {
               handled_.push_back("reserve " + event.id);
             }))
        .add(type_, HandlerKey{"count"}, event_handler([&](const CloudEvent& event) {
               handled_.push_back("count " + event.id);
             }));
    channels_.add("screen")
        .over("direct publish")
        .allow_without_inbox()
        .add(type_, {}, event_handler([&](const CloudEvent& event, const Message& message) {
               handled_.push_back("screen " + event.id);
               transport_ = property_of(message, "transport");
             }));
    channels_.check();
  }
  std::string rows(const std::string& table) {
    return read("select count(*) from {schema}" + table);
  }

  const Topic type_{"order.placed.v1"};
  Channels channels_;
  Strings handled_;
  std::optional<std::string> transport_;
};

TEST_P(LocalEvent, PHD_22_goes_straight_to_the_inbox_in_the_publishers_transaction) {
  EventBus bus{outbox()};
  bus.local(type_, channels_, "stock");
  bus.in_transaction([&](UnitOfWork& unit) { unit.publish(an_event()); });
  EXPECT_EQ(rows("outbox_message"), "0");
  EXPECT_EQ(rows("inbox_message"), "1");
  EXPECT_EQ(rows("inbox_work"), "2");
  EXPECT_EQ(Dispatcher(inbox(), channels_.handlers_of(inbox())).drain(), 2u);
  std::ranges::sort(handled_);
  EXPECT_EQ(handled_, (Strings{"count evt-1", "reserve evt-1"}));
}

TEST_P(LocalEvent, PHD_22_is_gone_when_the_transaction_is_rolled_back) {
  EventBus bus{outbox()};
  bus.local(type_, channels_, "stock");
  EXPECT_THROW(bus.in_transaction([&](UnitOfWork& unit) {
    unit.publish(an_event());
    throw std::runtime_error("changed my mind");
  }),
               std::runtime_error);
  EXPECT_EQ(rows("inbox_message"), "0");
}

TEST_P(LocalEvent, PHD_22_published_twice_is_handled_once) {
  EventBus bus{outbox()};
  bus.local(type_, channels_, "stock");
  bus.publish(an_event());
  bus.publish(an_event());
  EXPECT_EQ(Dispatcher(inbox(), channels_.handlers_of(inbox())).drain(), 2u);
}

TEST_P(LocalEvent, PHD_22_others_get_it_too_where_that_is_said) {
  EventBus bus{outbox()};
  bus.local(type_, channels_, "stock", LocalDestination::inbox_and_outbox);
  bus.publish(an_event("evt-1"));
  database().in_transaction([&](Session& session) { bus.publish(session, an_event("evt-2")); });
  EXPECT_EQ(rows("outbox_message"), "2");
  EXPECT_EQ(rows("inbox_message"), "2");
}

TEST_P(LocalEvent, PHD_22_a_channel_is_bound_to_the_local_outbox_by_its_dispatcher) {
  EventBus{outbox()}.publish(an_event());
  Handlers handlers;
  handlers.add(type_, event_handler([&](Session& session, const CloudEvent& event) {
                 channels_.accept(session, "stock", to_arrival(event));
               }));
  EXPECT_EQ(Dispatcher(outbox(), handlers).drain(), 1u);
  EXPECT_EQ(Dispatcher(inbox(), channels_.handlers_of(inbox())).drain(), 2u);
  EXPECT_EQ(handled_.size(), 2u);
}

TEST_P(LocalEvent, PHD_22_a_channel_without_an_inbox_is_bound_to_direct_publish) {
  EventBus bus{outbox()};
  bus.local(type_, channels_, "screen");
  bus.publish(an_event("evt-1"), {.use_outbox = false});
  EXPECT_EQ(handled_, (Strings{"screen evt-1"})) << "at once, on this thread";
  EXPECT_EQ(transport_, "direct publish");
  EXPECT_EQ(rows("outbox_message"), "0");
  bus.publish(an_event("evt-2"));
  EXPECT_EQ(handled_.size(), 1u);
  EXPECT_EQ(rows("outbox_message"), "1") << "with the outbox, the outbox keeps it";
}

TEST_P(LocalEvent, a_direct_publish_inside_a_transaction_does_not_wait_for_itself) {
  EventBus bus{outbox()};
  bus.local(type_, channels_, "stock");
  database().in_transaction([&](Session& session) {
    bus.publish(session, an_event("evt-1"));
    bus.publish(session, an_event("evt-2"), {.use_outbox = false});
  });
  EXPECT_EQ(rows("inbox_message"), "2");
  bus.publish(an_event("evt-3"), {.use_outbox = false});
  EXPECT_EQ(rows("inbox_message"), "3");
}

TEST_P(LocalEvent, PHD_31_the_stored_message_keeps_transport_body_properties_and_first_receipt) {
  EventBus bus{outbox()};
  bus.local(type_, channels_, "stock");
  CloudEvent event = an_event();
  event.time = Timestamp{clock().now() - 1h};
  const Instant received = clock().now();
  bus.publish(event, {.properties = R"({"tenant":"north"})"});
  clock().advance(5min);
  bus.publish(event, {.properties = R"({"tenant":"north"})"});
  const auto claimed = inbox().claim(worker_a, 30s, 1);
  ASSERT_EQ(claimed.size(), 1u);
  EXPECT_EQ(property_of(claimed[0], "transport"), "local outbox");
  EXPECT_EQ(property_of(claimed[0], "tenant"), "north");
  EXPECT_EQ(claimed[0].payload, to_json(event));
  EXPECT_EQ(claimed[0].created_at, received);
  EXPECT_EQ(claimed[0].last_seen_at, clock().now());
}

TEST_P(LocalEvent, an_inbox_of_another_database_is_refused) {
  Database elsewhere{"sqlite::memory:"};
  Inbox far{elsewhere, {.deploy_schema = true}};
  Channels channels;
  channels.add("far").uses(far).add(type_, HandlerKey{"far"},
                                    event_handler([](const CloudEvent&) {}));
  EventBus bus{outbox()};
  EXPECT_THROW(bus.local(type_, channels, "far"), UsageError);
  EXPECT_THROW(bus.local(type_, channels, "none"), std::invalid_argument);
  bus.local(type_, channels_, "stock");
  EXPECT_THROW(bus.local(type_, channels_, "stock"), UsageError);
}

TEST_P(LocalEvent, EVB_30_every_form_of_http_arrives_as_the_same_message) {
  const CloudEvent event = an_event();
  const auto arrive = [&](const HttpContent& content) {
    std::vector<Acceptance> answers;
    for (const CloudEvent& one : events_from_http(content.headers, content.body)) {
      answers.push_back(inbox().accept(to_arrival(one)).state);
    }
    return answers;
  };
  const std::vector<CloudEvent> batch{event, an_event("evt-2")};
  using enum Acceptance;
  EXPECT_EQ(arrive(to_http(event, ContentMode::binary)), (std::vector{accepted}));
  EXPECT_EQ(arrive(to_http(event, ContentMode::structured)), (std::vector{duplicate_open}));
  EXPECT_EQ(arrive(to_http(batch)), (std::vector{duplicate_open, accepted}));
  for (const Message& message : inbox().claim(worker_a, 30s, 10)) {
    EXPECT_EQ(event_of(message).data, event.data);
    EXPECT_EQ(event_of(message).type, event.type);
  }
}

TWINBOX_ON_EVERY_BACKEND(LocalEvent);

}  // namespace
}  // namespace twinbox::test
