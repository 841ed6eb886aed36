// Events over HTTP, without a socket.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "support/inbox_test.hpp"
#include <twinbox/intake.hpp>
#include <twinbox/operations.hpp>
#include <twinbox/testing.hpp>

namespace twinbox::test {
namespace {

HttpRequest an_event(std::string target, std::string id = "e1") {
  return {.target = std::move(target),
          .headers = {{"ce-specversion", "1.0"},
                      {"ce-id", std::move(id)},
                      {"ce-source", "/shop"},
                      {"ce-type", "com.shop.order"},
                      {"Content-Type", "application/json"}},
          .body = "{\"mark\":\"" + payload() + "\"}"};
}

std::string envelope(const std::string& id, const std::string& more = "") {
  return R"({"specversion":"1.0","id":")" + id + R"(","source":"/shop","type":"com.shop.order")" +
         more + R"(,"data":{"mark":")" + payload() + R"("}})";
}

const MessageKey e1{Source{"/shop"}, MessageId{"e1"}};

class EventIntakes : public InboxTest {
 protected:
  IntakeOptions intake_options() { return {.environment = environment()}; }

  HttpResponse accept(const HttpRequest& request) {
    return EventIntake{accept_into(inbox()), intake_options()}.handle(request);
  }

  /// Handles in the request, as `handler_` says.
  HttpResponse handle_inline(const HttpRequest& request) {
    EventHandlers handlers;
    handlers.on(EventName{"order", 2}, [this](const CloudEvent& event) {
      ++calls_;
      return handler_(event);
    });
    const NamedEventIntake intake{handlers.names(), inline_mode(inbox(), handlers.handlers()),
                                  intake_options()};
    return intake.handle(request);
  }

  /// Whatever a claim or a failure would change of the deliveries of e1.
  std::string deliveries() {
    std::string found;
    const MessageDetail known = detail(e1);
    for (const DeliveryView& delivery : known.deliveries) {
      found += delivery.key.handler.str() + " " + std::string{to_string(delivery.state)} +
               " attempts " + std::to_string(delivery.attempts) + " expiries " +
               std::to_string(delivery.expiries) + (delivery.lease_until ? " leased" : " free") +
               (delivery.owner ? " owned " : " ") + delivery.last_error + "\n";
    }
    return found + read("select sum(epoch) from {schema}inbox_work");
  }

  /// An event in the request under the id of another message.
  void expect_conflict(const HttpRequest& request) {
    const std::string before = deliveries();
    for (int times = 0; times < 2; ++times) {
      const HttpResponse answer = handle_inline(request);
      EXPECT_EQ(answer.status, 200) << answer.body;
      EXPECT_EQ(answer.body,
                R"({"state":"duplicate_open","source":"/shop","id":"e1","conflict":true})");
      EXPECT_FALSE(answer.headers.find("Retry-After"));
    }
    EXPECT_EQ(calls_, 0);
    EXPECT_EQ(deliveries(), before);
    EXPECT_EQ(log().events("conflict").size(), 2u);
  }

  int calls_ = 0;
  std::function<Outcome(const CloudEvent&)> handler_ = [](const CloudEvent&) {
    return Outcome::done();
  };
};

// ---- POST /v1/events

TEST_P(EventIntakes, EVB_30_binary_structured_and_batch_are_taken) {
  EXPECT_EQ(accept(an_event("/v1/events")).body,
            R"({"state":"accepted","source":"/shop","id":"e1","conflict":false})");
  HttpRequest structured{.target = "/v1/events",
                         .headers = {{"Content-Type", "application/cloudevents+json"}},
                         .body = envelope("e2")};
  EXPECT_EQ(accept(structured).status, 202);
  HttpRequest batch{.target = "/v1/events",
                    .headers = {{"Content-Type", "application/cloudevents-batch+json"}},
                    .body = "[" + envelope("e2") + "," + envelope("e3") + "]"};
  const HttpResponse answer = accept(batch);
  EXPECT_EQ(answer.status, 202);
  EXPECT_EQ(answer.body,
            R"({"results":[{"state":"duplicate_open","source":"/shop","id":"e2","conflict":false},)"
            R"({"state":"accepted","source":"/shop","id":"e3","conflict":false}]})");
  EXPECT_EQ(accept(batch).status, 200);
  const auto messages = inbox().claim(worker_a);
  ASSERT_EQ(messages.size(), 3u);
  for (const Message& message : messages) {
    EXPECT_EQ(message.topic, Topic{"com.shop.order"});
    EXPECT_EQ(event_of(message).data, "{\"mark\":\"" + payload() + "\"}");
    EXPECT_EQ(property_of(message, "transport"), "http");
  }
}

TEST_P(EventIntakes, EVB_30_the_same_event_in_another_mode_is_a_duplicate_without_conflict) {
  accept(an_event("/v1/events"));
  HttpRequest structured{
      .target = "/v1/events",
      .headers = {{"Content-Type", "application/cloudevents+json; charset=utf-8"}},
      .body = envelope("e1", R"(,"datacontenttype":"application/json")")};
  EXPECT_EQ(accept(structured).body,
            R"({"state":"duplicate_open","source":"/shop","id":"e1","conflict":false})");
}

TEST_P(EventIntakes, the_first_content_of_an_id_stays_alone_in_a_batch_and_in_the_request) {
  accept(an_event("/v1/events"));
  HttpRequest other = an_event("/v1/events");
  other.body = R"({"mark":"other"})";
  const std::string conflict =
      R"({"state":"duplicate_open","source":"/shop","id":"e1","conflict":true})";
  EXPECT_EQ(accept(other).body, conflict);
  const HttpRequest batch{.target = "/v1/events",
                          .headers = {{"Content-Type", "application/cloudevents-batch+json"}},
                          .body = "[" + envelope("e1", R"(,"subject":"other")") + "]"};
  EXPECT_EQ(accept(batch).body, R"({"results":[)" + conflict + "]}");
  const std::string first = "{\"mark\":\"" + payload() + "\"}";
  other.target = "/events/order/v2";
  const HttpResponse answer = handle_inline(other);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, conflict);
  EXPECT_EQ(log().events("conflict").size(), 3u);
  const MessageDetail stored = Admin{inbox()}.get(e1).value();
  EXPECT_EQ(stored.message.topic, Topic{"com.shop.order"});
  EXPECT_EQ(event_from_json(stored.payload).data, first);
}

TEST_P(EventIntakes, EVB_30_a_batch_with_one_bad_event_writes_nothing) {
  inbox();
  HttpRequest batch{.target = "/v1/events",
                    .headers = {{"Content-Type", "application/cloudevents-batch+json"}},
                    .body = "[" + envelope("e1") + R"(,{"specversion":"1.0","id":"e2"}])"};
  EXPECT_EQ(accept(batch).status, 400);
  EXPECT_EQ(count_messages(), "0");
  batch.body = "[]";
  EXPECT_EQ(accept(batch).body, R"({"results":[]})");
}

TEST_P(EventIntakes, EVB_14_malformed_input_answers_400_names_the_attribute_and_writes_nothing) {
  inbox();
  const auto refused = [&](HttpRequest request, const std::string& detail) {
    for (const std::string target : {"/v1/events", "/events/order/v2"}) {
      request.target = target;
      const HttpResponse answer = target == "/v1/events" ? accept(request) : handle_inline(request);
      EXPECT_EQ(answer.status, 400) << answer.body;
      EXPECT_EQ(answer.headers.find("Content-Type"), "application/problem+json");
      EXPECT_NE(answer.body.find(detail), std::string::npos) << answer.body;
      EXPECT_EQ(answer.body.find(payload_mark), std::string::npos);
    }
  };
  HttpRequest request = an_event("");
  request.headers.set("ce-specversion", "0.3");
  refused(request, "specversion");
  request = an_event("");
  request.headers.set("ce-id", "");
  refused(request, "id");
  request = an_event("");
  request.headers.set("ce-time", "yesterday");
  refused(request, "time");
  refused({.headers = {{"Content-Type", "application/cloudevents+json"}}, .body = "{"}, "JSON");
  refused({.headers = {{"Content-Type", "application/json"}}, .body = "{}"}, "specversion");
  EXPECT_EQ(count_messages(), "0");
  EXPECT_EQ(calls_, 0);
}

TEST_P(EventIntakes, EVB_24_the_event_s_trace_wins_over_the_request_s) {
  const std::string own = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const std::string carrier = "00-11111111111111111111111111111111-2222222222222222-01";
  HttpRequest request = an_event("/v1/events");
  request.headers.add("traceparent", carrier);
  accept(request);
  request = an_event("/v1/events", "e2");
  request.headers.add("traceparent", carrier);
  request.headers.add("ce-traceparent", own);
  accept(request);
  const auto messages = inbox().claim(worker_a);
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(property_of(messages[0], "traceparent"), carrier);
  EXPECT_EQ(property_of(messages[1], "traceparent"), own);
}

// ---- POST /events/{name}/v{version}

TEST_P(EventIntakes, EVB_11_the_registered_handler_is_called_in_the_request) {
  std::string seen;
  handler_ = [&](const CloudEvent& event) {
    seen = event.type + " " + event.id;
    return Outcome::done();
  };
  const HttpResponse answer = handle_inline(an_event("/events/order/v2"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, R"({"state":"done","source":"/shop","id":"e1","conflict":false})");
  EXPECT_EQ(seen, "com.shop.order e1");
  EXPECT_EQ(inbox().state(e1), MessageState::done);
  EXPECT_EQ(detail(e1).message.topic, Topic{"order.v2"});
}

TEST_P(EventIntakes, each_call_in_a_request_claims_under_an_owner_token_of_its_own) {
  std::vector<Uuid> owners;
  EventHandlers handlers;
  handlers.on(EventName{"order", 2}, [&](const CloudEvent&) {
    for (const auto& [owner, count] : Admin{inbox()}.counts().by_owner) owners.push_back(owner);
    return Outcome::done();
  });
  const NamedEventIntake intake{handlers.names(), inline_mode(inbox(), handlers.handlers()),
                                intake_options()};
  for (const char* id : {"e1", "e2"})
    EXPECT_EQ(intake.handle(an_event("/events/order/v2", id)).status, 200);
  ASSERT_EQ(owners.size(), 2u);
  EXPECT_NE(owners[0], owners[1]);
}

TEST_P(EventIntakes, EVB_11_a_transactional_handler_commits_with_its_message) {
  inbox();
  write("create table {schema}booked (id text)");
  EventHandlers handlers;
  bool fail = true;
  handlers.on(EventName{"order"}, [&](Session& session, const CloudEvent&) {
    session.execute(in_schema("insert into {schema}booked values ('x')"));
    if (fail) throw std::runtime_error("after the write");
  });
  const NamedEventIntake intake{handlers.names(), inline_mode(inbox(), handlers.handlers()),
                                intake_options()};
  EXPECT_EQ(intake.handle(an_event("/events/order/v1")).status, 500);
  EXPECT_EQ(read("select count(*) from {schema}booked"), "0");
  fail = false;
  clock().advance(1min);
  EXPECT_EQ(intake.handle(an_event("/events/order/v1")).status, 200);
  EXPECT_EQ(read("select count(*) from {schema}booked"), "1");
  EXPECT_EQ(inbox().state(e1), MessageState::done);
}

TEST_P(EventIntakes, an_event_touches_no_open_message_of_another_topic) {
  inbox().accept(Arrival{e1.source, e1.id, Topic{"invoice"}, payload()});
  expect_conflict(an_event("/events/order/v2"));
}

TEST_P(EventIntakes, an_event_touches_no_delivery_for_a_handler_key_under_another_topic) {
  const std::vector<HandlerName> names{{HandlerKey::by_topic()}, {HandlerKey{"mail"}}};
  inbox().accept(Arrival{e1.source, e1.id, Topic{"invoice"}, payload()}, names);
  expect_conflict(an_event("/events/order/v2"));
}

TEST_P(EventIntakes, an_event_with_other_content_than_the_open_one_calls_no_handler) {
  HttpRequest first = an_event("/events/order/v2");
  first.body = R"({"mark":"first"})";
  const NamedEventIntake keeping{
      {EventName{"order", 2}}, accept_mode(accept_into(inbox())), intake_options()};
  EXPECT_EQ(keeping.handle(first).status, 202);
  expect_conflict(an_event("/events/order/v2"));
}

TEST_P(EventIntakes, an_event_with_other_content_than_one_that_is_due_later_or_held_is_a_conflict) {
  handler_ = [&](const CloudEvent&) {
    HttpRequest other = an_event("/events/order/v2");
    other.body = R"({"mark":"other"})";
    const HttpResponse meanwhile = handle_inline(other);
    EXPECT_EQ(meanwhile.status, 200);
    EXPECT_NE(meanwhile.body.find(R"("conflict":true)"), std::string::npos) << meanwhile.body;
    return Outcome::retry("no stock");
  };
  EXPECT_EQ(handle_inline(an_event("/events/order/v2")).status, 500);
  calls_ = 0;
  log().clear();
  HttpRequest later = an_event("/events/order/v2");
  later.body = R"({"mark":"later"})";
  expect_conflict(later);
}

TEST_P(EventIntakes, a_delivery_for_a_handler_key_that_is_not_known_here_is_left_to_others) {
  const std::vector<HandlerName> mail{{HandlerKey{"mail"}}};
  const NamedEventIntake keeping{
      {EventName{"order", 2}}, accept_mode(accept_into(inbox(), mail)), intake_options()};
  EXPECT_EQ(keeping.handle(an_event("/events/order/v2")).status, 202);
  const DeliveryView before = delivery(e1);
  EXPECT_EQ(handle_inline(an_event("/events/order/v2")).status, 200);
  EXPECT_EQ(handle_inline(an_event("/events/order/v2")).status, 503) << "the other one is open";
  EXPECT_EQ(calls_, 1);
  for (const DeliveryView& now : detail(e1).deliveries) {
    if (now.key.handler.view() != "mail") continue;
    EXPECT_EQ(now.state, before.state);
    EXPECT_EQ(now.attempts, 0);
    EXPECT_EQ(now.visible_at, before.visible_at);
    EXPECT_FALSE(now.lease_until);
    EXPECT_FALSE(now.owner);
  }
  EXPECT_EQ(inbox().claim(worker_a).size(), 1u);
}

TEST_P(EventIntakes, EVB_12_a_duplicate_answers_success_without_calling_the_handler) {
  handle_inline(an_event("/events/order/v2"));
  const HttpResponse again = handle_inline(an_event("/events/order/v2"));
  EXPECT_EQ(again.status, 200);
  EXPECT_EQ(again.body,
            R"({"state":"duplicate_done","source":"/shop","id":"e1","conflict":false})");
  EXPECT_EQ(calls_, 1);
}

TEST_P(EventIntakes, EVB_13_a_failing_handler_is_recorded_and_answers_500) {
  handler_ = [](const CloudEvent&) -> Outcome { throw std::runtime_error("no stock"); };
  const HttpResponse answer = handle_inline(an_event("/events/order/v2"));
  EXPECT_EQ(answer.status, 500);
  EXPECT_EQ(answer.headers.find("Retry-After"), "2");
  EXPECT_EQ(answer.body.find("no stock"), std::string::npos);
  const DeliveryView kept = delivery(e1);
  EXPECT_EQ(kept.state, DeliveryState::scheduled);
  EXPECT_EQ(kept.attempts, 1);
  EXPECT_EQ(kept.last_error, "no stock");
  EXPECT_EQ(kept.visible_at, clock().now() + 2s);
  EXPECT_EQ(inbox().state(e1), MessageState::open);
}

TEST_P(EventIntakes, EVB_13_the_sender_s_retry_calls_again_once_it_is_time) {
  handler_ = [](const CloudEvent&) { return Outcome::retry("no stock"); };
  handle_inline(an_event("/events/order/v2"));
  handler_ = [](const CloudEvent&) { return Outcome::done(); };
  const HttpResponse early = handle_inline(an_event("/events/order/v2"));
  EXPECT_EQ(early.status, 503);
  EXPECT_EQ(early.headers.find("Retry-After"), "2");
  EXPECT_EQ(calls_, 1);
  clock().advance(2s);
  EXPECT_EQ(handle_inline(an_event("/events/order/v2")).status, 200);
  EXPECT_EQ(calls_, 2);
}

TEST_P(EventIntakes, EVB_13_a_dispatcher_may_retry_beside_the_sender) {
  handler_ = [](const CloudEvent&) { return Outcome::retry("no stock"); };
  handle_inline(an_event("/events/order/v2"));
  clock().advance(2s);
  EventHandlers handlers;
  handlers.on(EventName{"order", 2}, [](const CloudEvent&) {});
  Dispatcher{inbox(), handlers.handlers()}.drain();
  EXPECT_EQ(handle_inline(an_event("/events/order/v2")).status, 200);
  EXPECT_EQ(calls_, 1);
}

TEST_P(EventIntakes, EVB_13_what_is_dead_is_kept_and_its_duplicates_answer_success) {
  handler_ = [](const CloudEvent&) { return Outcome::dead("unknown article"); };
  EXPECT_EQ(handle_inline(an_event("/events/order/v2")).status, 422);
  EXPECT_EQ(inbox().state(e1), MessageState::dead);
  const HttpResponse again = handle_inline(an_event("/events/order/v2"));
  EXPECT_EQ(again.status, 200);
  EXPECT_NE(again.body.find("duplicate_dead"), std::string::npos);
  EXPECT_EQ(calls_, 1);
}

TEST_P(EventIntakes, EVB_13_the_last_attempt_answers_500_too) {
  handler_ = [](const CloudEvent&) { return Outcome::retry("no stock"); };
  for (int attempt = 1; attempt <= 10; ++attempt) {
    EXPECT_EQ(handle_inline(an_event("/events/order/v2")).status, 500) << attempt;
    clock().advance(1h);
  }
  EXPECT_EQ(inbox().state(e1), MessageState::dead);
  EXPECT_EQ(handle_inline(an_event("/events/order/v2")).status, 200);
  EXPECT_EQ(calls_, 10);
}

TEST_P(EventIntakes, a_handler_that_postpones_says_when_to_come_again) {
  handler_ = [&](const CloudEvent&) { return Outcome::postpone(clock().now() + 1min); };
  const HttpResponse answer = handle_inline(an_event("/events/order/v2"));
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.headers.find("Retry-After"), "60");
  EXPECT_EQ(delivery(e1).attempts, 0);
}

TEST_P(EventIntakes, a_handler_that_lost_its_lease_says_so) {
  handler_ = [&](const CloudEvent&) {
    clock().advance(6min);
    EXPECT_EQ(inbox().claim(worker_b).size(), 1u);
    return Outcome::done();
  };
  EXPECT_EQ(handle_inline(an_event("/events/order/v2")).status, 503);
  EXPECT_EQ(inbox().state(e1), MessageState::open);
}

TEST_P(EventIntakes, EVB_11_the_lease_is_renewed_while_the_handler_works) {
  const Duration lease = 600ms;
  EventHandlers handlers;
  handlers.on(EventName{"order", 2}, [&](const CloudEvent&) {
    for (int i = 0; i < 3; ++i) {
      clock().advance(500ms);
      // By our own clock every 200 ms; only a failure takes longer.
      const auto end = std::chrono::steady_clock::now() + 60s;
      while (delivery(e1).lease_until < clock().now() + lease) {
        if (std::chrono::steady_clock::now() > end) return Outcome::dead("it was not renewed");
        std::this_thread::yield();
      }
      EXPECT_TRUE(inbox().claim(worker_b).empty());
    }
    return Outcome::done();
  });
  const NamedEventIntake intake{handlers.names(),
                                inline_mode(inbox(), handlers.handlers(), {.lease = lease}),
                                intake_options()};
  EXPECT_EQ(intake.handle(an_event("/events/order/v2")).status, 200);
}

TEST_P(EventIntakes, EVB_11_deliveries_that_wait_for_their_turn_in_the_request_keep_their_leases) {
  const Duration lease = 600ms;
  const HandlerName names[] = {{HandlerKey{"first"}}, {HandlerKey{"second"}}};
  const Arrival arrival{e1.source, e1.id, Topic{"order"}, payload()};
  inbox().accept(arrival, names);
  std::vector<std::string> handled;
  const auto handle = [&](const Message& message) {
    handled.push_back(message.handler.str());
    if (handled.size() > 1) return Outcome::done();
    clock().advance(500ms);
    const auto end = std::chrono::steady_clock::now() + 60s;
    const auto kept = [&](const DeliveryView& delivery) {
      return delivery.lease_until && *delivery.lease_until >= clock().now() + lease;
    };
    while (!std::ranges::all_of(Admin{inbox()}.get(e1)->deliveries, kept)) {
      if (std::chrono::steady_clock::now() > end) return Outcome::dead("they were not renewed");
      std::this_thread::yield();
    }
    return Outcome::done();
  };
  Handlers handlers;
  handlers.on(arrival.topic, handle);
  for (const HandlerName& name : names) handlers.on_key(name.key, handle);
  EXPECT_EQ(inline_mode(inbox(), std::move(handlers), {.lease = lease})(arrival).status, 200);
  std::ranges::sort(handled);
  EXPECT_EQ(handled, (std::vector<std::string>{"", "first", "second"}));
  EXPECT_EQ(inbox().state(e1), MessageState::done);
}

TEST_P(EventIntakes, EVB_13_a_handler_past_its_timeout_is_told_to_stop_and_counts_as_failed) {
  std::atomic<int> reported = 0;
  DispatchObserver observer;
  observer.timed_out = [&](std::string_view, const Message&) { ++reported; };
  EventHandlers handlers;
  handlers.on(EventName{"order", 2},
              [](const CloudEvent&, const Message&, std::stop_token stop) {
                std::mutex mutex;
                std::condition_variable_any told;
                std::unique_lock lock{mutex};
                EXPECT_FALSE(told.wait_for(lock, stop, 60s, [] { return false; }));
                return Outcome::done();
              },
              {.timeout = 5ms});
  const NamedEventIntake intake{handlers.names(),
                                inline_mode(inbox(), handlers.handlers(), {.observer = observer}),
                                intake_options()};
  const HttpResponse answer = intake.handle(an_event("/events/order/v2"));
  EXPECT_EQ(answer.status, 500);
  EXPECT_TRUE(answer.headers.find("Retry-After"));
  EXPECT_EQ(delivery(e1).attempts, 1);
  EXPECT_EQ(delivery(e1).last_error, "the handler ran past its timeout of 5 ms");
  EXPECT_LE(reported, 1);  // told after the handler was
}

TEST_P(EventIntakes, an_event_that_somebody_else_handles_is_not_handled_twice) {
  handler_ = [&](const CloudEvent&) {
    EXPECT_EQ(handle_inline(an_event("/events/order/v2")).status, 503);
    return Outcome::done();
  };
  EXPECT_EQ(handle_inline(an_event("/events/order/v2")).status, 200);
  EXPECT_EQ(calls_, 1);
}

TEST_P(EventIntakes, an_at_most_once_handler_that_failed_is_not_called_again) {
  EventHandlers handlers;
  handlers.on(EventName{"order"},
              [&](const CloudEvent&) -> void {
                ++calls_;
                throw std::runtime_error("boom");
              },
              {.at_most_once = true});
  const NamedEventIntake intake{handlers.names(), inline_mode(inbox(), handlers.handlers()),
                                intake_options()};
  EXPECT_EQ(intake.handle(an_event("/events/order/v1")).status, 500);
  EXPECT_EQ(intake.handle(an_event("/events/order/v1")).status, 200);
  EXPECT_EQ(calls_, 1);
}

TEST_P(EventIntakes, with_the_gate_off_an_at_most_once_handler_that_failed_is_called_again) {
  BoxOptions open = options();
  open.gate = false;
  Inbox box(database(), open);
  Handlers handlers;
  handlers.on(Topic{"order"},
              [&](const Message& message) {
                EXPECT_EQ(Admin{box}.get(message.key()).value().deliveries.at(0).state,
                          DeliveryState::leased);
                if (++calls_ == 1) throw std::runtime_error("boom");
              },
              {.at_most_once = true});
  const IntakeCall handle = inline_mode(box, std::move(handlers));
  const Arrival arrival{e1.source, e1.id, Topic{"order"}, payload()};
  EXPECT_EQ(handle(arrival).status, 500);
  clock().advance(1min);
  EXPECT_EQ(handle(arrival).status, 200);
  EXPECT_EQ(calls_, 2);
  EXPECT_EQ(box.state(e1), MessageState::done);
}

TEST_P(EventIntakes, on_failure_decides_what_follows_in_the_request_too) {
  const auto handle = [&](const std::string& id, FailureHook hook) {
    Handlers handlers;
    handlers.on(Topic{"order"}, [](const Message&) { throw std::runtime_error("boom"); });
    const Arrival arrival{e1.source, MessageId{id}, Topic{"order"}, payload()};
    const IntakeCall call =
        inline_mode(inbox(), std::move(handlers), {.on_failure = std::move(hook)});
    return call(arrival).status;
  };
  const auto state = [&](const std::string& id) {
    return delivery({e1.source, MessageId{id}}).state;
  };
  EXPECT_EQ(
      handle("dead", [](auto&, const Outcome& failure) { return Outcome::dead(failure.reason()); }),
      422);
  EXPECT_EQ(state("dead"), DeliveryState::dead);
  EXPECT_EQ(handle("done", [](auto&, auto&) { return Outcome::done(); }), 200);
  EXPECT_EQ(state("done"), DeliveryState::done);
  EXPECT_EQ(handle("later", [](auto&, auto&) { return Outcome::retry("busy", 7min); }), 500);
  EXPECT_EQ(delivery({e1.source, MessageId{"later"}}).visible_at, clock().now() + 7min);
}

TEST_P(EventIntakes, the_timeout_of_the_box_holds_for_handlers_without_one_of_their_own) {
  BoxOptions limited = options();
  limited.handler_timeout = 5ms;
  Inbox box(database(), limited);
  Handlers handlers;
  handlers.on(Topic{"order"}, [](const Message&, std::stop_token stop) {
    std::mutex mutex;
    std::condition_variable_any told;
    std::unique_lock lock{mutex};
    EXPECT_FALSE(told.wait_for(lock, stop, 60s, [] { return false; }));
  });
  const Arrival arrival{e1.source, e1.id, Topic{"order"}, payload()};
  EXPECT_EQ(inline_mode(box, std::move(handlers))(arrival).status, 500);
  EXPECT_EQ(delivery(e1).last_error, "the handler ran past its timeout of 5 ms");
}

TEST_P(EventIntakes, EVB_14_an_unknown_name_or_version_answers_404_with_a_clear_body) {
  inbox();
  const auto detail = [&](const std::string& target) {
    const HttpResponse answer = handle_inline(an_event(target));
    EXPECT_EQ(answer.status, 404);
    EXPECT_EQ(answer.headers.find("Content-Type"), "application/problem+json");
    return answer.body;
  };
  EXPECT_NE(detail("/events/parcel/v2").find("there is no event 'parcel'; there are: order/v2"),
            std::string::npos);
  for (const char* version : {"v1", "v02", "v2x", "2", "v", "v99999999999999999999", "v-2"}) {
    EXPECT_NE(
        detail(std::string{"/events/order/"} + version)
            .find(std::string{"the event 'order' has no version '"} + version + "'; there are: v2"),
        std::string::npos)
        << version;
  }
  EXPECT_EQ(count_messages(), "0");
}

TEST_P(EventIntakes, EVB_11_accept_mode_is_durable_then_202) {
  const NamedEventIntake intake{
      {EventName{"order", 2}}, accept_mode(accept_into(inbox())), intake_options()};
  EXPECT_EQ(intake.handle(an_event("/events/order/v2")).status, 202);
  EXPECT_EQ(intake.handle(an_event("/events/order/v2")).status, 200);
  EXPECT_EQ(intake.handle(an_event("/events/order/v3")).status, 404);
  const auto messages = inbox().claim(worker_a);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].topic, Topic{"order.v2"});
}

// ---- the sidecar

/// As Dapr 1.12 sends it.
HttpRequest from_dapr(std::string id = "5929aaac-a5e2-4ca1-859c-edfe73f11565") {
  return {.target = "/sidecar/orders",
          .headers = {{"Content-Type", "application/cloudevents+json"}},
          .body = R"({"topic":"orders","pubsubname":"order_pub_sub","traceid":)"
                  R"("00-113ad9c4e42b27583ae98ba698d54255-e3743e35ff56f219-01","tracestate":"",)"
                  R"("data":{"orderId":1},"id":")" +
                  id +
                  R"(","specversion":"1.0","datacontenttype":"application/json; charset=utf-8",)"
                  R"("source":"checkout","type":"com.dapr.event.sent","time":)"
                  R"("2020-09-23T06:23:21Z","traceparent":)"
                  R"("00-113ad9c4e42b27583ae98ba698d54255-e3743e35ff56f219-01"})"};
}

class Sidecar : public EventIntakes {
 protected:
  HttpResponse deliver(const HttpRequest& request) {
    Handlers handlers;
    handlers.add(Topic{"orders"}, event_handler([this](const CloudEvent& event) {
                   ++calls_;
                   return handler_(event);
                 }));
    const SidecarIntake intake{{{.pubsub = "order_pub_sub",
                                 .topic = "orders",
                                 .route = "/sidecar/orders",
                                 .take = inline_mode(inbox(), std::move(handlers))},
                                {.pubsub = "order_pub_sub",
                                 .topic = "refunds",
                                 .route = "/sidecar/refunds",
                                 .take = accept_mode(accept_into(inbox())),
                                 .stored = Topic{"refund"}}},
                               intake_options()};
    return intake.handle(request);
  }
};

TEST_P(Sidecar, EVB_29_the_subscriptions_are_listed_at_a_well_known_path) {
  const HttpResponse answer = deliver({.method = "GET", .target = "/dapr/subscribe"});
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body,
            R"([{"pubsubname":"order_pub_sub","topic":"orders","route":"/sidecar/orders"},)"
            R"({"pubsubname":"order_pub_sub","topic":"refunds","route":"/sidecar/refunds"}])");
  EXPECT_EQ(deliver({.target = "/dapr/subscribe"}).status, 405);
  EXPECT_EQ(deliver({.target = "/sidecar/other"}).status, 404);
}

TEST_P(Sidecar, EVB_29_answers_success_also_for_duplicates) {
  EXPECT_EQ(deliver(from_dapr()).body, R"({"status":"SUCCESS"})");
  EXPECT_EQ(deliver(from_dapr()).body, R"({"status":"SUCCESS"})");
  EXPECT_EQ(calls_, 1);
}

TEST_P(Sidecar, EVB_29_answers_success_for_what_is_accepted) {
  HttpRequest request = from_dapr();
  request.target = "/sidecar/refunds";
  EXPECT_EQ(deliver(request).body, R"({"status":"SUCCESS"})");
  const auto messages = inbox().claim(worker_a);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].topic, Topic{"refund"});
  EXPECT_EQ(messages[0].source, Source{"checkout"});
}

TEST_P(Sidecar, EVB_29_answers_retry_when_the_handler_fails) {
  handler_ = [](const CloudEvent&) { return Outcome::retry("no stock"); };
  const HttpResponse answer = deliver(from_dapr());
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, R"({"status":"RETRY"})");
  EXPECT_EQ(deliver(from_dapr()).body, R"({"status":"RETRY"})") << "before its time";
}

TEST_P(Sidecar, EVB_29_answers_drop_for_what_can_never_succeed) {
  handler_ = [](const CloudEvent&) { return Outcome::dead("unknown article"); };
  EXPECT_EQ(deliver(from_dapr()).body, R"({"status":"DROP"})");
  HttpRequest damaged = from_dapr();
  damaged.body.resize(20);
  EXPECT_EQ(deliver(damaged).body, R"({"status":"DROP"})");
  EXPECT_EQ(log().events("sidecar_drop").size(), 2u);
}

TEST_P(Sidecar, answers_retry_for_what_another_configuration_would_take) {
  IntakeOptions options = intake_options();
  options.reserved_sources = {"checkout"};
  options.max_body = 1000;
  const SidecarIntake intake{{{.pubsub = "p",
                               .topic = "orders",
                               .route = "/sidecar/orders",
                               .take = accept_mode(accept_into(inbox()))}},
                             options};
  EXPECT_EQ(intake.handle(from_dapr()).body, R"({"status":"RETRY"})") << "403";
  HttpRequest encoded = from_dapr();
  encoded.headers.add("Content-Encoding", "gzip");
  EXPECT_EQ(intake.handle(encoded).body, R"({"status":"RETRY"})") << "415";
  HttpRequest large = from_dapr();
  large.body += std::string(1000, ' ');
  EXPECT_EQ(intake.handle(large).body, R"({"status":"RETRY"})") << "413";
  EXPECT_EQ(count_messages(), "0");
  EXPECT_TRUE(log().events("sidecar_drop").empty());
  std::vector<std::string> statuses;
  for (const auto& event : log().events("sidecar_retry")) statuses.push_back(event.field("status"));
  EXPECT_EQ(statuses, (std::vector<std::string>{"403", "415", "413"}));
}

TEST_P(Sidecar, the_first_content_of_an_id_stays) {
  HttpRequest request = from_dapr();
  request.target = "/sidecar/refunds";
  EXPECT_EQ(deliver(request).body, R"({"status":"SUCCESS"})");
  HttpRequest other = request;
  other.body.replace(other.body.find("\"orderId\":1"), 11, "\"orderId\":2");
  EXPECT_EQ(deliver(other).body, R"({"status":"SUCCESS"})");
  EXPECT_EQ(log().events("conflict").size(), 1u);
  const auto messages = inbox().claim(worker_a);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(event_of(messages[0]).data, R"({"orderId":1})");
}

TEST_P(Sidecar, EVB_29_answers_retry_when_the_store_cannot_take_it) {
  FaultPlan plan;
  Database database = open_faulty(test_store().address(), plan, {.retries = 0}, environment());
  Inbox faulty{database, options()};
  const SidecarIntake intake{{{.pubsub = "p",
                               .topic = "orders",
                               .route = "/sidecar/orders",
                               .take = accept_mode(accept_into(faulty))}},
                             intake_options()};
  plan.fail_commit(DatabaseError::Kind::connection_lost);
  EXPECT_EQ(intake.handle(from_dapr()).body, R"({"status":"RETRY"})");
  EXPECT_EQ(intake.handle(from_dapr()).body, R"({"status":"SUCCESS"})");
}

TEST_P(Sidecar, routes_that_cannot_work_are_refused) {
  const auto with_route = [&](std::string route) {
    return Subscription{.pubsub = "p", .topic = "t", .route = std::move(route), .take = {}};
  };
  EXPECT_THROW(SidecarIntake({with_route("orders")}), std::invalid_argument);
  EXPECT_THROW(SidecarIntake({with_route("/a?b")}), std::invalid_argument);
  EXPECT_THROW(SidecarIntake({with_route("/dapr/subscribe")}), std::invalid_argument);
  EXPECT_THROW(SidecarIntake({with_route("/a"), with_route("/a")}), std::invalid_argument);
}

TWINBOX_ON_EVERY_BACKEND(EventIntakes);
TWINBOX_ON_EVERY_BACKEND(Sidecar);

}  // namespace
}  // namespace twinbox::test
