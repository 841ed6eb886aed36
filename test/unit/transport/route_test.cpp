// Routes, with sinks that are plain functions.
#include <gtest/gtest.h>

#include "a_message.hpp"
#include <twinbox/error.hpp>
#include <twinbox/sink.hpp>
#include <twinbox/testing.hpp>

namespace twinbox::test {
namespace {

using namespace std::chrono_literals;
using Kind = Outcome::Kind;

Route route(std::string name, const char* pattern, MessageHandler sink) {
  return {.name = std::move(name), .pattern = TopicPattern{pattern}, .sink = std::move(sink)};
}

MessageHandler answering(Outcome outcome) {
  return [outcome](const Message&, std::stop_token) { return outcome; };
}

Outcome deliver(const Routes& routes, const Message& message) {
  const Handlers handlers = routes.handlers();
  const HandlerEntry* entry = handlers.find(HandlerKey::by_topic(), message.topic);
  if (entry == nullptr) throw std::runtime_error("no route takes " + message.topic.str());
  return std::get<MessageHandler>(entry->call)(message, {});
}

TEST(RoutesOf, many_patterns_take_the_first_in_their_order_that_matches) {
  const Routes routes{{route("late", "*.late", answering(Outcome::done())),
                       route("orders", "order.#", answering(Outcome::dead("x"))),
                       route("exact", "order.placed", answering(Outcome::retry("y")))}};
  EXPECT_EQ(deliver(routes, claimed("order.late")).kind(), Kind::done);
  EXPECT_EQ(deliver(routes, claimed("order.placed")).kind(), Kind::dead);
  EXPECT_THROW(deliver(routes, claimed("payment")), std::runtime_error);
}

TEST(RoutesOf, a_sink_carry_its_options_and_count_its_outcomes) {
  std::vector<std::string> told;
  RouteObserver observer;
  observer.delivered = [&](std::string_view name, const Message& message, const Outcome& outcome,
                           Duration) {
    told.push_back(std::string{name} + " " + message.id.str() + " " +
                   std::to_string(static_cast<int>(outcome.kind())));
  };
  int call = 0;
  Route one = route("mail", "#", [&](const Message& message, std::stop_token) -> Outcome {
    switch (call++) {
      case 0: return Outcome::done();
      case 1: return Outcome::retry("later");
      case 2: return Outcome::dead("never");
      case 3: return Outcome::postpone(message.lease_until);
      default: throw std::runtime_error("boom");
    }
  });
  one.options = {.retry = RetryPolicy::event_bus(), .timeout = 5s};
  const Routes routes{{one}, observer};
  const Handlers handlers = routes.handlers();
  const HandlerEntry* entry = handlers.find(HandlerKey::by_topic(), Topic{"a"});
  EXPECT_EQ(entry->options.timeout, 5s);
  EXPECT_EQ(entry->options.retry->max_attempts, 5);
  for (int i = 0; i < 4; ++i) deliver(routes, claimed());
  EXPECT_THROW(deliver(routes, claimed()), std::runtime_error);
  const RouteStatus status = routes.status().at(0);
  EXPECT_EQ(status.name, "mail");
  EXPECT_EQ(status.pattern, "#");
  EXPECT_EQ(status.done, 1u);
  EXPECT_EQ(status.retried, 2u);
  EXPECT_EQ(status.dead, 1u);
  EXPECT_EQ(status.postponed, 1u);
  EXPECT_EQ(told, (std::vector<std::string>{"mail evt_1 0", "mail evt_1 1", "mail evt_1 2",
                                            "mail evt_1 3", "mail evt_1 1"}));
}

TEST(RoutesOf, a_receiver_that_is_gone_are_disabled_and_postpone_everything) {
  RecordingLog log;
  int calls = 0;
  std::vector<std::string> told;
  RouteObserver observer;
  observer.disabled = [&](std::string_view name, std::string_view reason) {
    told.push_back(std::string{name} + " disabled: " + std::string{reason});
  };
  observer.enabled = [&](std::string_view name) { told.push_back(std::string{name} + " enabled"); };
  bool gone = true;
  Routes routes{{route("hook", "#",
                       [&](const Message&, std::stop_token) {
                         ++calls;
                         if (gone) throw ReceiverGone("HTTP 410, gone");
                         return Outcome::done();
                       })},
                observer,
                {.log = [&](const LogEvent& event) { log.write(event); }}};
  for (int i = 0; i < 3; ++i) {
    const Outcome outcome = deliver(routes, claimed());
    EXPECT_EQ(outcome.kind(), Kind::postpone);
    EXPECT_EQ(outcome.until(), claimed().lease_until);
  }
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(routes.status().at(0).enabled);
  EXPECT_EQ(routes.status().at(0).reason, "HTTP 410, gone");
  EXPECT_EQ(routes.status().at(0).postponed, 3u);
  EXPECT_EQ(log.events("disable_route").at(0).field("route"), "hook");
  EXPECT_EQ(log.events("disable_route").at(0).field("reason"), "HTTP 410, gone");

  gone = false;
  routes.enable("hook");
  routes.enable("hook");
  EXPECT_EQ(deliver(routes, claimed()).kind(), Kind::done);
  EXPECT_TRUE(routes.status().at(0).enabled);
  EXPECT_EQ(routes.status().at(0).reason, "");
  EXPECT_EQ(told, (std::vector<std::string>{"hook disabled: HTTP 410, gone", "hook enabled"}));
  EXPECT_EQ(log.events("enable_route").size(), 1u);
}

TEST(RoutesOf, a_definition_may_begin_disabled_and_be_disabled_by_a_call) {
  Route off = route("off", "a", answering(Outcome::done()));
  off.enabled = false;
  Routes routes{{off, route("on", "b", answering(Outcome::done()))}};
  EXPECT_EQ(deliver(routes, claimed("a")).kind(), Kind::postpone);
  EXPECT_EQ(deliver(routes, claimed("b")).kind(), Kind::done);
  routes.disable("on", "maintenance");
  EXPECT_EQ(deliver(routes, claimed("b")).kind(), Kind::postpone);
  EXPECT_EQ(routes.status().at(1).reason, "maintenance");
  routes.enable("off");
  EXPECT_EQ(deliver(routes, claimed("a")).kind(), Kind::done);
  EXPECT_THROW(routes.enable("other"), UsageError);
  EXPECT_THROW(routes.disable("other", "x"), UsageError);
}

TEST(RoutesOf, a_batch_are_postponed_together) {
  Route batch{.name = "batch",
              .pattern = TopicPattern{"#"},
              .sink = BatchHandler{[](std::span<const Message> messages, std::stop_token) {
                return std::vector(messages.size(), Outcome::done());
              }}};
  Routes routes{{batch}};
  const Message messages[] = {claimed(), claimed()};
  const Handlers handlers = routes.handlers();
  const auto& call =
      std::get<BatchHandler>(handlers.find(HandlerKey::by_topic(), Topic{"order.placed"})->call);
  EXPECT_EQ(call(messages, {}).at(1).kind(), Kind::done);
  routes.disable("batch", "maintenance");
  EXPECT_EQ(call(messages, {}).size(), 2u);
  EXPECT_EQ(call(messages, {}).at(1).kind(), Kind::postpone);
  EXPECT_EQ(routes.status().at(0).done, 2u);
  EXPECT_EQ(routes.status().at(0).postponed, 4u);
}

TEST(RoutesOf, handlers_keep_what_they_need_when_the_routes_are_gone) {
  std::optional<Routes> routes{std::in_place,
                               std::vector{route("a", "#", answering(Outcome::done()))}};
  const Handlers handlers = routes->handlers();
  routes.reset();
  const auto& call =
      std::get<MessageHandler>(handlers.find(HandlerKey::by_topic(), Topic{"order.placed"})->call);
  EXPECT_EQ(call(claimed(), {}).kind(), Kind::done);
}

TEST(RoutesOf, bad_definitions_are_refused_by_name) {
  const auto refusal = [](std::vector<Route> routes) {
    try {
      Routes made{std::move(routes)};
      return std::string{"taken"};
    } catch (const std::logic_error& error) {
      return std::string{error.what()};
    }
  };
  const auto sink = answering(Outcome::done());
  EXPECT_EQ(refusal({route("a", "x", sink), route("a", "y", sink)}),
            "route 'a': there are two of that name");
  EXPECT_EQ(refusal({route("a", "x.*", sink), route("b", "x.*", sink)}),
            "route 'b': would never be used, because 'a' comes first with the same pattern 'x.*'");
  EXPECT_NE(refusal({route("", "x", sink)}).find("route name"), std::string::npos);
  Route bad = route("a", "x", sink);
  bad.options.timeout = 0s;
  EXPECT_NE(refusal({bad}).find("route 'a': timeout"), std::string::npos);
}

TEST(LogSink, writes_what_a_message_is_and_not_what_it_says) {
  RecordingLog log;
  const auto sink = log_sink({.log = [&](const LogEvent& event) { log.write(event); }});
  EXPECT_EQ(sink(claimed(), {}).kind(), Kind::done);
  const auto event = log.events("deliver").at(0);
  EXPECT_EQ(event.field("topic"), "order.placed");
  EXPECT_EQ(event.field("id"), "evt_1");
  EXPECT_EQ(event.field("source"), "shop");
  EXPECT_EQ(event.field("size"), "16");
  for (const auto& [name, value] : event.fields)
    EXPECT_EQ(value.find("~payload~"), std::string::npos);
}

}  // namespace
}  // namespace twinbox::test
