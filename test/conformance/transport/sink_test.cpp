// From the outbox to a receiver: a dispatcher, routes and sinks on every backend.
#include <atomic>
#include <latch>
#include <map>
#include <mutex>
#include <thread>

#include "support/outbox_test.hpp"
#include "support/receiver.hpp"
#include <twinbox/dispatcher.hpp>
#include <twinbox/event.hpp>
#include <twinbox/operations.hpp>
#include <twinbox/sink.hpp>

namespace twinbox::test {
namespace {

using Texts = std::vector<std::string>;

class SinkOf : public OutboxTest {
 protected:
  MessageHandler to_receiver(HttpSinkOptions options = {.url = {}}) {
    options.url = receiver.url("/hook");
    return http_sink(client, std::move(options), environment());
  }
  Routes routes(HandlerCall sink, HandlerOptions options = {}, RouteObserver observer = {}) {
    return Routes{{{.name = "hook",
                    .pattern = TopicPattern{"order.#"},
                    .sink = std::move(sink),
                    .options = std::move(options)}},
                  std::move(observer),
                  environment()};
  }
  /// Hands out what is due, in order, on this thread.
  std::size_t drain(const Routes& made) {
    return Dispatcher{outbox(), made.handlers(), {.workers = 1}}.drain();
  }
  DeliveryView delivery(const std::string& id = "m") {
    return Admin{outbox()}.get(MessageKey{Source::none(), MessageId{id}}).value().deliveries.at(0);
  }
  void enqueue(const std::string& id, const std::string& topic = "order.placed",
               std::optional<PartitionKey> key = {}) {
    NewMessage message = a_message(topic, id);
    message.id = MessageId{id};
    message.extras.partition_key = std::move(key);
    outbox().enqueue(message);
  }

  Receiver receiver;
  std::shared_ptr<HttpClient> client =
      std::make_shared<HttpClient>(HttpClientOptions{.allow = {"127.0.0.1"}});
};

TEST_P(SinkOf, a_receiver_that_is_down_gets_everything_once_it_is_back) {
  const Routes made = routes(to_receiver());
  Texts sent;
  receiver.close();
  for (const char* id : {"a", "b", "c"}) {
    enqueue(id);
    sent.push_back(payload(id));
    clock().advance(100ms);
  }
  EXPECT_EQ(drain(made), 3u);
  EXPECT_EQ(delivery("a").attempts, 1);
  receiver.open();
  receiver.answer_with([](const auto&) { return Receiver::answer(503, "starting"); });
  clock().advance(2s);
  EXPECT_EQ(drain(made), 3u);
  EXPECT_NE(delivery("c").last_error.find("HTTP 503: starting"), std::string::npos);
  enqueue("d");
  sent.push_back(payload("d"));
  receiver.answer_with([](const auto&) { return Receiver::answer(204); });
  clock().advance(1h);
  const std::size_t failed = receiver.requests().size();
  drain(made);
  Texts bodies = receiver.bodies();
  bodies.erase(bodies.begin(), bodies.begin() + static_cast<std::ptrdiff_t>(failed));
  std::sort(bodies.begin(), bodies.end());
  EXPECT_EQ(bodies, sent);
  EXPECT_EQ(rows("work"), 0);
  EXPECT_EQ(made.status().at(0).done, 4u);
  EXPECT_EQ(made.status().at(0).retried, 6u);
}

TEST_P(SinkOf, EVB_27_a_receiver_that_was_down_gets_a_key_in_order_however_often_each_failed) {
  const Routes made = routes(to_receiver());
  const std::map<std::string, int> failures{{"c", 3}, {"a", 0}, {"d", 2}, {"b", 1}};
  std::map<std::string, int> tries;
  Texts sent;
  Texts received;
  receiver.answer_with([&](const Receiver::Request& request) {
    const std::string id = request.header("twinbox-id");
    if (tries[id]++ < failures.at(id)) return Receiver::answer(503, "busy");
    received.push_back(id);
    return Receiver::answer(204);
  });
  receiver.close();
  for (const char* id : {"c", "a", "d", "b"}) {
    enqueue(id, "order.placed", PartitionKey{"order 7"});
    sent.emplace_back(id);
    drain(made);
    clock().advance(100ms);
  }
  receiver.open();
  for (int round = 0; round < 20 && rows("work") > 0; ++round) {
    clock().advance(1h);
    drain(made);
  }
  EXPECT_EQ(rows("work"), 0);
  EXPECT_EQ(received, sent);
}

TEST_P(SinkOf, EVB_28_a_crash_after_sending_sends_again_under_the_same_id_and_an_inbox_drops_it) {
  std::vector<Acceptance> answers;
  receiver.answer_with([&](const Receiver::Request& request) {
    answers.push_back(inbox()
                          .accept({Source{"shop"}, MessageId{request.header("twinbox-id")},
                                   Topic{request.header("twinbox-topic")}, request.body})
                          .state);
    return Receiver::answer(200);
  });
  enqueue("m");
  const auto claimed = outbox().claim(worker_a, 30s, 1);
  EXPECT_EQ(to_receiver()(claimed.at(0), {}).kind(), Outcome::Kind::done);
  clock().advance(31s);  // worker_a is gone
  EXPECT_EQ(drain(routes(to_receiver())), 1u);
  ASSERT_EQ(receiver.requests().size(), 2u);
  EXPECT_EQ(receiver.requests()[0].header("idempotency-key"), "m");
  EXPECT_EQ(receiver.requests()[1].header("idempotency-key"), "m");
  EXPECT_EQ(answers, (std::vector{Acceptance::accepted, Acceptance::duplicate_open}));
  EXPECT_EQ(delivery().state, DeliveryState::done);
}

TEST_P(SinkOf, EVB_28_an_event_keeps_its_id_over_every_attempt) {
  CloudEvent event{.id = "e-1", .source = "/shop", .type = "order.placed"};
  event.set_data(R"({"total": 7})");
  outbox().enqueue(to_message(event));
  receiver.answer_with([](const Receiver::Request& request) {
    return Receiver::answer(request.header("twinbox-attempt") == "3" ? 200 : 500);
  });
  const Routes made = routes(to_receiver());
  for (int i = 0; i < 3; ++i) {
    drain(made);
    clock().advance(1h);
  }
  ASSERT_EQ(receiver.requests().size(), 3u);
  for (const auto& request : receiver.requests()) {
    EXPECT_EQ(request.header("ce-id"), "e-1");
    EXPECT_EQ(request.header("ce-source"), "/shop");
    EXPECT_EQ(request.body, R"({"total": 7})");
  }
  EXPECT_EQ(rows("work"), 0);
}

TEST_P(SinkOf, a_receiver_that_is_gone_disables_its_route_and_loses_nothing) {
  Texts told;
  RouteObserver observer;
  observer.disabled = [&](std::string_view name, std::string_view) { told.emplace_back(name); };
  Routes made = routes(to_receiver(), {}, observer);
  receiver.answer_with([](const auto&) { return Receiver::answer(410, payload("echo")); });
  for (const char* id : {"a", "b", "c"}) enqueue(id);
  drain(made);
  EXPECT_EQ(told, Texts{"hook"});
  EXPECT_EQ(receiver.requests().size(), 1u);
  for (int i = 0; i < 20; ++i) {  // more often than any policy would try
    clock().advance(30s);
    EXPECT_EQ(drain(made), 3u);
  }
  EXPECT_EQ(receiver.requests().size(), 1u);
  EXPECT_EQ(delivery("a").attempts, 0);
  EXPECT_EQ(rows("outcome"), 0);
  EXPECT_EQ(log().events("disable_route").size(), 1u);

  receiver.answer_with([](const auto&) { return Receiver::answer(200); });
  made.enable("hook");
  clock().advance(30s);
  EXPECT_EQ(drain(made), 3u);
  EXPECT_EQ(rows("work"), 0);
  EXPECT_EQ(receiver.requests().size(), 4u);
}

TEST_P(SinkOf, a_receiver_that_asks_for_time_gets_it) {
  receiver.answer_with(
      [](const auto&) { return Receiver::answer(429, "", "Retry-After: 120\r\n"); });
  enqueue("m");
  const Routes made = routes(to_receiver());
  drain(made);
  EXPECT_EQ(delivery().visible_at, clock().now() + 120s);
  EXPECT_EQ(delivery().attempts, 1);
}

TEST_P(SinkOf, a_receiver_that_cannot_take_the_message_makes_it_dead_with_its_words) {
  receiver.answer_with(
      [](const auto& request) { return Receiver::answer(422, "bad: " + request.body); });
  enqueue("m");
  drain(routes(to_receiver()));
  EXPECT_EQ(delivery().state, DeliveryState::dead);
  // Its words are kept; that they never reach a log is what the fixture's log book watches over.
  EXPECT_NE(delivery().last_error.find("HTTP 422: bad: " + payload("m")), std::string::npos);
  EXPECT_EQ(log().events("dead").size(), 1u);
}

TEST_P(SinkOf, EVB_16_each_route_has_a_retry_policy_of_its_own) {
  receiver.answer_with([](const auto&) { return Receiver::answer(500); });
  const Routes made{{{.name = "once",
                      .pattern = TopicPattern{"order.once"},
                      .sink = to_receiver(),
                      .options = {.retry = RetryPolicy{.max_attempts = 1}}},
                     {.name = "slowly",
                      .pattern = TopicPattern{"order.#"},
                      .sink = to_receiver(),
                      .options = {.retry = RetryPolicy::event_bus()}}}};
  enqueue("a", "order.once");
  enqueue("b", "order.placed");
  drain(made);
  EXPECT_EQ(delivery("a").state, DeliveryState::dead);
  EXPECT_EQ(delivery("b").visible_at, clock().now() + 1min);
}

TEST_P(SinkOf, a_stopped_dispatcher_releases_what_a_hanging_receiver_holds) {
  std::latch go{1};
  receiver.answer_with([&](const auto&) {
    go.wait();
    return Receiver::answer(200);
  });
  enqueue("m");
  const Routes made = routes(to_receiver({.url = {}, .timeout = 1h, .grace = 20ms}));
  {
    Dispatcher dispatcher{outbox(), made.handlers(), {.grace = 20ms}};
    std::jthread thread{[&](std::stop_token stop) { dispatcher.run(stop); }};
    ASSERT_TRUE(receiver.wait_for(1));
  }
  EXPECT_EQ(delivery().state, DeliveryState::ready);
  EXPECT_EQ(delivery().attempts, 0);
  go.count_down();
  receiver.close();  // nobody looks at the latch any more
}

TEST_P(SinkOf, a_stopped_dispatcher_waits_for_the_answers_of_its_receivers) {
  constexpr int count = 4;
  std::latch go{1};
  receiver.answer_with([&](const auto&) {
    go.wait();
    return Receiver::answer(200);
  });
  for (int i = 0; i < count; ++i) enqueue("m" + std::to_string(i));
  const Routes made = routes(to_receiver({.url = {}, .grace = 1min}));
  {
    Dispatcher dispatcher{outbox(), made.handlers(), {.workers = count, .grace = 1min}};
    std::jthread thread{[&](std::stop_token stop) { dispatcher.run(stop); }};
    ASSERT_TRUE(receiver.wait_for(count));
    thread.request_stop();
    go.count_down();
  }
  for (int i = 0; i < count; ++i)
    EXPECT_EQ(delivery("m" + std::to_string(i)).state, DeliveryState::done);
  EXPECT_EQ(receiver.requests().size(), std::size_t{count});
}

TEST_P(SinkOf, a_receiver_that_misbehaves_in_every_way_gets_everything_at_last) {
  constexpr int count = 60;
  std::atomic<int> calls = 0;
  std::mutex mutex;
  std::map<std::string, int> taken;
  receiver.answer_with([&](const Receiver::Request& request) -> Receiver::Answer {
    switch (calls++ % 7) {
      case 0: return {"", true};
      case 1: return {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhal", true};
      case 2: return {"garbage\r\n", true};
      case 3: return Receiver::answer(503, "", "Retry-After: soon\r\n");
      case 4: return Receiver::answer(302, "", "Location: http://127.0.0.1:1/\r\n");
      default: break;
    }
    const std::scoped_lock lock{mutex};
    ++taken[request.header("twinbox-id")];
    return Receiver::answer(200);
  });
  Database real{test_store().address()};  // its own clock: what failed is due again by itself
  Outbox box{real, options()};
  for (int i = 0; i < count; ++i) {
    NewMessage message = a_message();
    message.id = MessageId{"m" + std::to_string(i)};
    box.enqueue(message);
  }
  std::latch done{count};
  RouteObserver observer;
  observer.delivered = [&](auto, const Message&, const Outcome& outcome, Duration) {
    if (outcome.kind() == Outcome::Kind::done) done.count_down();
  };
  const RetryPolicy quickly{.first_delay = 1ms, .max_delay = 1ms, .max_attempts = 1000};
  const Routes made = routes(to_receiver(), {.retry = quickly}, observer);
  {
    Dispatcher dispatcher{box, made.handlers()};
    std::jthread thread{[&](std::stop_token stop) { dispatcher.run(stop); }};
    done.wait();
  }
  EXPECT_EQ(taken.size(), static_cast<std::size_t>(count));
  for (const auto& [id, times] : taken) {
    EXPECT_EQ(times, 1) << id;
    const auto found = Admin{box}.get(MessageKey{Source::none(), MessageId{id}});
    EXPECT_EQ(found.value().deliveries.at(0).state, DeliveryState::done) << id;
  }
}

TEST_P(SinkOf, an_inbox_in_the_same_database_takes_the_message_in_one_transaction) {
  const HandlerCall sink = inbox_sink(inbox(), database());
  EXPECT_EQ((HandlerEntry{sink, {}}.guarantee()), Guarantee::transactional);
  NewMessage message = a_message("order.placed", "x");
  message.id = MessageId{"m"};
  message.extras = {.correlation_id = CorrelationId{"story"},
                    .partition_key = PartitionKey{"customer"},
                    .content_type = "text/plain",
                    .headers = R"({"tenant":"7"})"};
  outbox().enqueue(message);
  EXPECT_EQ(drain(routes(sink)), 1u);
  EXPECT_EQ(rows("work"), 0);
  const auto arrived = inbox().claim(worker_a, 30s, 10);
  ASSERT_EQ(arrived.size(), 1u);
  EXPECT_EQ(arrived[0].source.str(), "outbox");
  EXPECT_EQ(arrived[0].id.str(), "m");
  EXPECT_EQ(arrived[0].topic.str(), "order.placed");
  EXPECT_EQ(arrived[0].payload, payload("x"));
  EXPECT_EQ(arrived[0].correlation_id, CorrelationId{"story"});
  EXPECT_EQ(arrived[0].partition_key, PartitionKey{"customer"});
  EXPECT_EQ(arrived[0].content_type, "text/plain");
}

TEST_P(SinkOf, an_inbox_that_refuses_the_message_leaves_it_in_the_outbox) {
  inbox();
  write(on_sqlite() ? "create trigger refuse before insert on inbox_message when new.topic = "
                      "'order.bad' begin select raise(abort, 'refused'); end"
                    : "alter table {schema}inbox_message add constraint refuse check (topic <> "
                      "'order.bad')");
  enqueue("m", "order.bad");
  drain(routes(inbox_sink(inbox(), database())));
  EXPECT_EQ(delivery().attempts, 1);
  EXPECT_EQ(read("select count(*) from {schema}inbox_message"), "0");
}

TEST_P(SinkOf, an_inbox_of_another_database_takes_the_message_once_though_it_comes_twice) {
  Database other{test_store().address(), {}, environment()};
  const HandlerCall sink = inbox_sink(inbox(), other, {.source = Source{"shop"}});
  EXPECT_EQ((HandlerEntry{sink, {}}.guarantee()), Guarantee::at_least_once);
  enqueue("m");
  const auto claimed = outbox().claim(worker_a, 30s, 1);
  std::get<MessageHandler>(sink)(claimed.at(0), {});
  clock().advance(31s);  // worker_a is gone before it could say so
  EXPECT_EQ(drain(routes(sink)), 1u);
  EXPECT_EQ(read("select count(*) from {schema}inbox_message"), "1");
  EXPECT_EQ(inbox().claim(worker_b, 30s, 10).at(0).source.str(), "shop");
}

TEST_P(SinkOf, an_inbox_keeps_the_first_content_of_an_id) {
  Database other{test_store().address(), {}, environment()};
  inbox().accept(Arrival{Source{"outbox"}, MessageId{"m"}, Topic{"order.first"}, payload("first")});
  enqueue("m");
  const auto claimed = outbox().claim(worker_a, 30s, 1);
  const HandlerCall apart = inbox_sink(inbox(), other);
  const HandlerCall together = inbox_sink(inbox(), database());
  const Outcome first = std::get<MessageHandler>(apart)(claimed.at(0), {});
  const Outcome second = database().in_transaction([&](Session& session) {
    return std::get<TransactionalHandler>(together)(session, claimed.at(0), {});
  });
  for (const Outcome& outcome : {first, second}) {
    EXPECT_EQ(outcome.kind(), Outcome::Kind::dead);
    EXPECT_EQ(outcome.cause(), "conflict");
    EXPECT_NE(outcome.reason().find("other content under the id 'm'"), std::string::npos)
        << outcome.reason();
  }
  EXPECT_EQ(log().events("conflict").size(), 2u);
  const auto kept = inbox().claim(worker_b, 30s, 10);
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept[0].topic, Topic{"order.first"});
  EXPECT_EQ(kept[0].payload, payload("first"));
}

TEST_P(SinkOf, a_conflict_in_the_inbox_is_a_dead_letter_of_the_outbox) {
  inbox().accept(Arrival{Source{"outbox"}, MessageId{"m"}, Topic{"order.first"}, payload("first")});
  enqueue("m");
  EXPECT_EQ(drain(routes(inbox_sink(inbox(), database()))), 1u);
  EXPECT_EQ(delivery().state, DeliveryState::dead);
  EXPECT_EQ(delivery().reason, "conflict");
  EXPECT_EQ(log().events("conflict").size(), 1u);
}

TEST_P(SinkOf, PHD_22_a_channel_is_fed_by_the_local_outbox) {
  REQUIREMENT("PHD-31");
  Channels channels;
  Texts handled;
  channels.add("orders")
      .from(Source{"outbox"})
      .over("outbox")
      .uses(inbox())
      .on(Topic{"order.placed"}, HandlerKey{"stock"},
          [&](const Message& message) { handled.push_back("stock " + message.payload); })
      .on(Topic{"order.placed"}, HandlerKey{"mail"},
          [&](const Message& message) { handled.push_back("mail " + message.payload); });
  channels.check();
  NewMessage message = a_message("order.placed", "x");
  message.id = MessageId{"m"};
  message.extras.headers = R"({"tenant":"7"})";
  outbox().enqueue(message);
  clock().advance(5s);
  const Instant received = clock().now();
  EXPECT_EQ(drain(routes(channel_sink(channels, "orders"))), 1u);
  const auto stored = Admin{inbox()}.get(MessageKey{Source{"outbox"}, MessageId{"m"}}).value();
  EXPECT_EQ(stored.deliveries.size(), 2u);
  EXPECT_EQ(stored.payload, payload("x"));
  EXPECT_EQ(stored.headers, R"({"transport":"outbox","tenant":"7"})");
  EXPECT_EQ(stored.message.created_at, received);
  Dispatcher{inbox(), channels.handlers_of(inbox())}.drain();
  std::sort(handled.begin(), handled.end());
  EXPECT_EQ(handled, (Texts{"mail " + payload("x"), "stock " + payload("x")}));
}

TWINBOX_ON_EVERY_BACKEND(SinkOf);

}  // namespace
}  // namespace twinbox::test
