// The publisher's trace goes on in the handler, and in what the handler publishes.
#include "support/inbox_test.hpp"
#include <twinbox/event_bus.hpp>

namespace twinbox::test {
namespace {

constexpr std::string_view parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

CloudEvent an_event(std::string type = "order.placed.v1") {
  return {.id = "", .source = "/shop", .type = std::move(type)};
}

class EventTrace : public InboxTest {
 protected:
  void SetUp() override { outbox(); }

  struct Span {
    std::string topic, context, parent, error;
    Instant started;
  };
  EventHandlerOptions observed() {
    EventHandlerOptions handling;
    handling.tracing.environment = environment();
    handling.tracing.observer = [&](const HandlerSpan& span) {
      spans_.push_back({span.message.topic.str(), span.context.traceparent(),
                        span.parent ? span.parent->traceparent() : "", std::string{span.error},
                        span.started});
    };
    return handling;
  }

  std::vector<Span> spans_;
};

TEST_P(EventTrace, EVB_24_of_the_publisher_is_stored_and_the_parent_of_the_handlers_span) {
  EventHandlers handlers{observed()};
  std::optional<TraceContext> during;
  handlers.on({"order.placed", 1}, [&](const CloudEvent&, const Message& message) {
    EXPECT_EQ(property_of(message, "traceparent"), parent);
    EXPECT_EQ(property_of(message, "tracestate"), "a=1");
    during = current_trace();
  });
  {
    const TraceScope scope{*TraceContext::parse(parent, "a=1")};
    EventBus{outbox()}.publish(an_event());
  }
  Dispatcher{outbox(), handlers.handlers()}.drain();
  ASSERT_EQ(spans_.size(), 1u);
  EXPECT_EQ(spans_[0].parent, parent);
  EXPECT_EQ(spans_[0].topic, "order.placed.v1");
  EXPECT_EQ(spans_[0].started, clock().now());
  EXPECT_EQ(spans_[0].error, "");
  ASSERT_TRUE(during);
  EXPECT_EQ(spans_[0].context, during->traceparent());
  EXPECT_EQ(during->trace_id, TraceContext::parse(parent)->trace_id);
  EXPECT_NE(during->span_id, TraceContext::parse(parent)->span_id);
  EXPECT_EQ(during->state, "a=1");
  EXPECT_FALSE(current_trace()) << "it ends with the call";
}

TEST_P(EventTrace, EVB_24_goes_on_in_what_a_handler_publishes) {
  EventBus bus{outbox()};
  EventHandlers handlers{observed()};
  handlers
      .on({"order.placed", 1},
          [&](Session& session, const CloudEvent&) {
            bus.publish(session, an_event("order.packed.v1"));
          })
      .on({"order.packed", 1}, [](const CloudEvent&) {});
  CloudEvent first = an_event();
  first.extensions.emplace("traceparent", std::string{parent});
  bus.publish(first);
  Dispatcher{outbox(), handlers.handlers()}.drain();
  ASSERT_EQ(spans_.size(), 2u);
  EXPECT_EQ(spans_[0].parent, parent);
  EXPECT_EQ(spans_[1].parent, spans_[0].context);
}

TEST_P(EventTrace, EVB_24_a_message_without_one_begins_a_new_trace) {
  EventHandlers handlers{observed()};
  handlers.on({"order.placed", 1}, [](const CloudEvent&) { return Outcome::dead("no stock"); });
  EventBus{outbox()}.publish(an_event());
  Dispatcher{outbox(), handlers.handlers()}.drain();
  ASSERT_EQ(spans_.size(), 1u);
  EXPECT_EQ(spans_[0].parent, "");
  EXPECT_TRUE(TraceContext::parse(spans_[0].context));
  EXPECT_EQ(spans_[0].error, "no stock");
}

TEST_P(EventTrace, EVB_24_a_failed_call_and_its_retry_are_two_spans_of_one_parent) {
  EventHandlers handlers{observed()};
  int calls = 0;
  handlers.on({"order.placed", 1}, [&](const CloudEvent&) {
    if (++calls == 1) throw std::runtime_error("the warehouse is closed");
  });
  CloudEvent event = an_event();
  event.extensions.emplace("traceparent", std::string{parent});
  EventBus{outbox()}.publish(event);
  Dispatcher dispatcher{outbox(), handlers.handlers()};
  dispatcher.drain();
  clock().advance(1min);
  dispatcher.drain();
  ASSERT_EQ(spans_.size(), 2u);
  EXPECT_EQ(spans_[0].error, "the warehouse is closed");
  EXPECT_EQ(spans_[1].error, "");
  EXPECT_EQ(spans_[0].parent, parent);
  EXPECT_EQ(spans_[1].parent, parent);
  EXPECT_NE(spans_[0].context, spans_[1].context);
}

TEST_P(EventTrace, EVB_24_plain_messages_are_traced_by_their_headers) {
  Handlers handlers;
  handlers.add(Topic{"order.placed"},
               traced(HandlerEntry::of([](Session&, const Message&) {}), observed().tracing));
  NewMessage message = a_message();
  message.extras.headers = R"({"traceparent":")" + std::string{parent} + R"("})";
  outbox().enqueue(message);
  message.extras.headers = R"({"traceparent":"nonsense"})";
  outbox().enqueue(message);
  Dispatcher{outbox(), handlers}.drain();
  ASSERT_EQ(spans_.size(), 2u);
  EXPECT_EQ(spans_[0].parent, parent);
  EXPECT_EQ(spans_[1].parent, "");
}

TWINBOX_ON_EVERY_BACKEND(EventTrace);

}  // namespace
}  // namespace twinbox::test
