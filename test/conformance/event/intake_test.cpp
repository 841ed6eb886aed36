// Requests that become messages, without a socket.
#include <set>

#include "support/inbox_test.hpp"
#include <twinbox/dispatcher.hpp>
#include <twinbox/event.hpp>
#include <twinbox/intake.hpp>
#include <twinbox/testing.hpp>

namespace twinbox::test {
namespace {

class Intake : public InboxTest {
 protected:
  IntakeOptions intake_options() {
    return {.keep_headers = {"User-Agent"}, .environment = environment()};
  }
  HttpResponse accept(HttpRequest request) {
    return InboxIntake{accept_into(inbox()), intake_options()}.handle(request);
  }
  HttpResponse enqueue(HttpRequest request) {
    return OutboxIntake{outbox(), intake_options()}.handle(request);
  }
};

HttpRequest a_request(std::string target, HttpHeaders headers = {{"Idempotency-Key", "evt_1"}}) {
  return {.target = std::move(target), .headers = std::move(headers), .body = payload()};
}

const std::string path = "/v1/inbox/stripe/payment.received";

TEST_P(Intake, PHD_31_keeps_transport_body_properties_and_first_receipt) {
  const HttpResponse answer = accept(a_request(path, {{"Idempotency-Key", "evt_1"},
                                                      {"Content-Type", "application/json"},
                                                      {"User-Agent", "curl/8"},
                                                      {"Authorization", "not kept"},
                                                      {"Twinbox-Correlation-Id", "story 7"},
                                                      {"Twinbox-Partition-Key", "customer 3"}}));
  EXPECT_EQ(answer.status, 202);
  EXPECT_EQ(answer.body, R"({"state":"accepted","source":"stripe","id":"evt_1","conflict":false})");
  const Instant received = clock().now();
  clock().advance(1h);
  accept(a_request(path));
  const auto messages = inbox().claim(worker_a);
  ASSERT_EQ(messages.size(), 1u);
  const Message& message = messages[0];
  EXPECT_EQ(message.payload, payload());
  EXPECT_EQ(message.topic, Topic{"payment.received"});
  EXPECT_EQ(message.created_at, received);
  EXPECT_EQ(message.seen_count, 2);
}

TEST_P(Intake, PHD_31_keeps_what_came_with_the_message) {
  accept(a_request(path, {{"ce-id", "evt_1"},
                          {"Content-Type", "text/plain"},
                          {"User-Agent", "curl/8"},
                          {"Twinbox-Correlation-Id", "story 7"},
                          {"Twinbox-Partition-Key", "customer 3"},
                          {"Twinbox-Expires", "2030-01-16T00:00:00Z"}}));
  const auto messages = inbox().claim(worker_a);
  ASSERT_EQ(messages.size(), 1u);
  const Message& message = messages[0];
  EXPECT_EQ(message.content_type, "text/plain");
  EXPECT_EQ(message.correlation_id, CorrelationId{"story 7"});
  EXPECT_EQ(message.partition_key, PartitionKey{"customer 3"});
  EXPECT_EQ(message.expires_at, Instant{std::chrono::sys_days{std::chrono::January / 16 / 2030}});
  EXPECT_NE(message.headers->find("\"transport\""), std::string::npos);
  EXPECT_NE(message.headers->find("\"http\""), std::string::npos);
  EXPECT_NE(message.headers->find("curl/8"), std::string::npos);
}

TEST_P(Intake, requests_that_come_together_are_answered_each_by_its_own_fate) {
  std::vector<HttpRequest> requests{a_request(path, {{"Idempotency-Key", "evt_1"}}),
                                    a_request(path, {}),
                                    a_request(path, {{"Idempotency-Key", "evt_2"}}),
                                    a_request(path, {{"Idempotency-Key", "evt_1"}}),
                                    a_request(path, {{"Idempotency-Key", "refused"}})};
  const AcceptCall picky = [&](std::span<const Arrival> arrivals) {
    for (const Arrival& arrival : arrivals) {
      if (arrival.id == MessageId{"refused"}) {
        throw DatabaseError(DatabaseError::Kind::invalid_request, "not this one");
      }
    }
    return accept_into(inbox())(arrivals);
  };
  const auto answers = InboxIntake{picky, intake_options()}.handle(requests);
  std::vector<int> statuses;
  for (const HttpResponse& answer : answers) statuses.push_back(answer.status);
  EXPECT_EQ(statuses, (std::vector{202, 400, 202, 200, 422}));
  EXPECT_EQ(count_messages(), "2");
}

TEST_P(Intake, requests_that_come_together_wait_only_once_for_a_store_that_is_away) {
  int calls = 0;
  const AcceptCall away = [&](std::span<const Arrival>) -> std::vector<Accepted> {
    ++calls;
    throw DatabaseError(DatabaseError::Kind::connection_lost, "away");
  };
  const std::vector<HttpRequest> requests(3, a_request(path));
  for (const HttpResponse& answer : InboxIntake{away, intake_options()}.handle(requests)) {
    EXPECT_EQ(answer.status, 503);
    EXPECT_EQ(answer.headers.find("Retry-After"), "5");
  }
  EXPECT_EQ(calls, 1);
}

TEST_P(Intake, an_accept_call_that_throws_anything_is_answered) {
  const AcceptCall odd = [](std::span<const Arrival>) -> std::vector<Accepted> { throw 7; };
  const std::vector<HttpRequest> requests(2, a_request(path));
  for (const HttpResponse& answer : InboxIntake{odd, intake_options()}.handle(requests)) {
    EXPECT_EQ(answer.status, 500);
  }
}

TEST_P(Intake, what_comes_together_for_the_outbox_is_one_transaction_and_keeps_its_ids) {
  std::vector<HttpRequest> requests{
      a_request("/v1/outbox/order.placed", {{"Idempotency-Key", "order-1"}}),
      a_request("/v1/outbox/order.placed", {}),
      a_request("/v1/outbox/order.placed", {{"Twinbox-Due", "soon"}}),
      a_request("/v1/outbox/order.shipped", {{"Idempotency-Key", "order-1"}})};
  const auto answers = OutboxIntake{outbox(), intake_options()}.handle(requests);
  ASSERT_EQ(answers.size(), 4u);
  EXPECT_EQ(answers[0].body, R"({"state":"enqueued","id":"order-1"})");
  EXPECT_EQ(answers[1].status, 202);
  EXPECT_EQ(answers[2].status, 400);
  EXPECT_EQ(answers[3].status, 422) << "the key is known with another topic";
  const auto messages = outbox().claim(worker_a);
  ASSERT_EQ(messages.size(), 2u) << "an id that comes twice is one message";
  const bool first = messages[0].id == MessageId{"order-1"};
  EXPECT_EQ(answers[1].body,
            R"({"state":"enqueued","id":")" + messages[first ? 1 : 0].id.str() + "\"}");
  EXPECT_EQ(messages[0].created_at, messages[1].created_at);
}

TEST_P(Intake, a_duplicate_answers_success_and_a_conflict_is_flagged) {
  EXPECT_EQ(accept(a_request(path)).status, 202);
  const HttpResponse again = accept(a_request(path));
  EXPECT_EQ(again.status, 200);
  EXPECT_EQ(again.body,
            R"({"state":"duplicate_open","source":"stripe","id":"evt_1","conflict":false})");
  HttpRequest other = a_request(path);
  other.body += "other";
  const HttpResponse conflict = accept(other);
  EXPECT_EQ(conflict.status, 200);
  EXPECT_NE(conflict.body.find(R"("conflict":true)"), std::string::npos);
  EXPECT_EQ(count_messages(), "1");
}

TEST_P(Intake, IBX_129_the_content_hash_is_sha256) {
  accept(a_request(path));
  const auto messages = inbox().claim(worker_a);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].hash, ContentHash::of(payload()));
  EXPECT_EQ(messages[0].hash->algorithm, "sha256");
}

TEST_P(Intake, IBX_127_OBX_106_no_payload_is_logged_or_answered) {
  // The log book fails the test when it sees the mark of a payload.
  for (const char* target : {"/v1/inbox/s/t", "/v1/inbox/s/%ff", "/v1/inbox/s"}) {
    EXPECT_EQ(accept(a_request(target)).body.find(payload_mark), std::string::npos);
  }
  EXPECT_EQ(enqueue(a_request("/v1/outbox/t")).body.find(payload_mark), std::string::npos);
  refuse_poison("insert");
  const HttpResponse answer = accept(a_request("/v1/inbox/s/poison", {{"Idempotency-Key", "2"}}));
  EXPECT_GE(answer.status, 400);
  EXPECT_EQ(answer.body.find(payload_mark), std::string::npos);
  EXPECT_EQ(answer.body.find("refused'"), std::string::npos);
  EXPECT_FALSE(log().events("intake_error").empty());
}

TEST_P(Intake, malformed_input_answers_400_and_writes_nothing) {
  const auto expect_refused = [&](HttpRequest request, int status, const std::string& detail) {
    const HttpResponse answer = accept(std::move(request));
    EXPECT_EQ(answer.status, status) << answer.body;
    EXPECT_EQ(answer.headers.find("Content-Type"), "application/problem+json");
    EXPECT_NE(answer.body.find(detail), std::string::npos) << answer.body;
  };
  expect_refused(a_request(path, {}), 400, "send the header Idempotency-Key, or ce-id");
  expect_refused(a_request(path, {{"Idempotency-Key", "  "}}), 400, "message id");
  expect_refused(a_request(path, {{"Idempotency-Key", std::string(256, 'x')}}), 400, "255");
  expect_refused(a_request("/v1/inbox/stripe/"), 400, "topic");
  expect_refused(a_request("/v1/inbox/stripe/%zz"), 400, "two hexadecimal digits");
  expect_refused(a_request("/v1/inbox/stripe/%ff"), 400, "UTF-8");
  expect_refused(a_request("/v1/inbox/a/b/c"), 404, "nothing at this path");
  expect_refused(a_request(path, {{"Idempotency-Key", "1"}, {"Twinbox-Due", "soon"}}), 400,
                 "header Twinbox-Due: expected an RFC 3339 time");
  expect_refused(a_request(path, {{"Idempotency-Key", "1"}, {"Twinbox-Partition-Key", ""}}), 400,
                 "partition key");
  expect_refused(a_request(path, {{"Idempotency-Key", "1"}, {"Content-Type", "\xff"}}), 400,
                 "content type");
  HttpRequest get = a_request(path);
  get.method = "GET";
  expect_refused(get, 405, "only POST");
  HttpRequest large = a_request(path);
  large.body.resize((16U << 20U) + 1);
  expect_refused(large, 413, "16777216 are allowed");
  inbox();
  EXPECT_EQ(count_messages(), "0");
}

TEST_P(Intake, source_and_topic_may_hold_anything_once_encoded) {
  accept(a_request("/v1/inbox/http%3A%2F%2Fshop/orders%2Fcreate%20%C3%A4?store=x"));
  const auto messages = inbox().claim(worker_a);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].source, Source{"http://shop"});
  EXPECT_EQ(messages[0].topic, Topic{"orders/create ä"});
}

TEST_P(Intake, enqueue_stores_the_body_and_names_its_id) {
  const HttpResponse answer =
      enqueue(a_request("/v1/outbox/order.placed", {{"Twinbox-Due", "2030-01-15T01:00:00+00:30"}}));
  EXPECT_EQ(answer.status, 202);
  EXPECT_TRUE(outbox().claim(worker_a).empty());
  clock().advance(30min);
  const auto messages = outbox().claim(worker_a);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].payload, payload());
  EXPECT_EQ(messages[0].topic, Topic{"order.placed"});
  EXPECT_EQ(answer.body, R"({"state":"enqueued","id":")" + messages[0].id.str() + "\"}");
}

TEST_P(Intake, enqueue_repeated_with_the_same_key_is_one_message) {
  enqueue(a_request("/v1/outbox/order.placed"));
  const HttpResponse again = enqueue(a_request("/v1/outbox/order.placed"));
  EXPECT_EQ(again.status, 200);
  EXPECT_EQ(again.body, R"({"state":"duplicate","id":"evt_1"})");
  const auto messages = outbox().claim(worker_a);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].id, MessageId{"evt_1"});
}

TEST_P(Intake, enqueue_refuses_other_content_under_a_known_key) {
  EXPECT_EQ(enqueue(a_request("/v1/outbox/order.placed")).status, 202);
  HttpRequest other = a_request("/v1/outbox/order.placed");
  other.body += "other";
  const HttpResponse conflict = enqueue(other);
  EXPECT_EQ(conflict.status, 422);
  EXPECT_NE(conflict.body.find(R"("conflict":true,"id":"evt_1")"), std::string::npos);
  EXPECT_EQ(enqueue(a_request("/v1/outbox/order.cancelled")).status, 422);
  const auto messages = outbox().claim(worker_a);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].payload, payload());
  EXPECT_EQ(messages[0].topic, Topic{"order.placed"});
}

TEST_P(Intake, keys_of_different_senders_are_different_keys) {
  HttpRequest request = a_request("/v1/outbox/order.placed");
  for (const char* sender : {"", "shop", "billing"}) {
    request.sender = sender;
    request.body = payload(sender);
    EXPECT_EQ(enqueue(request).status, 202) << sender;
  }
  std::set<std::string> sources;
  for (const Message& message : outbox().claim(worker_a)) sources.insert(message.source.str());
  EXPECT_EQ(sources, (std::set<std::string>{"-", "billing", "shop"}));
}

TEST_P(Intake, a_sender_cannot_change_a_message_that_is_known) {
  accept(a_request(path));
  HttpRequest other =
      a_request("/v1/inbox/stripe/payment.refunded", {{"Idempotency-Key", "evt_1"},
                                                      {"Content-Type", "text/plain"},
                                                      {"Twinbox-Due", "2030-06-01T00:00:00Z"},
                                                      {"Twinbox-Expires", "2031-01-01T00:00:00Z"}});
  other.body = payload("forged");
  const HttpResponse answer = accept(other);
  EXPECT_EQ(answer.status, 200);
  EXPECT_NE(answer.body.find(R"("conflict":true)"), std::string::npos);
  const auto messages = inbox().claim(worker_a);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].payload, payload());
  EXPECT_EQ(messages[0].topic, Topic{"payment.received"});
  EXPECT_EQ(messages[0].content_type, std::nullopt);
  EXPECT_EQ(messages[0].due_at, std::nullopt);
  EXPECT_EQ(messages[0].expires_at, std::nullopt);
  EXPECT_EQ(messages[0].hash, ContentHash::of(payload()));
}

TEST_P(Intake, a_quoted_key_is_the_same_as_the_key) {
  EXPECT_EQ(accept(a_request(path, {{"Idempotency-Key", "a\"b\\c"}})).status, 202);
  EXPECT_EQ(accept(a_request(path, {{"Idempotency-Key", R"("a\"b\\c")"}})).status, 200);
  for (const char* wrong : {R"(")", R"("a)", R"("a"b)", R"("a\b")", R"("a\)"}) {
    const HttpResponse answer = accept(a_request(path, {{"Idempotency-Key", wrong}}));
    EXPECT_EQ(answer.status, 400) << wrong;
    EXPECT_NE(answer.body.find("Idempotency-Key"), std::string::npos) << answer.body;
  }
  EXPECT_EQ(count_messages(), "1");
}

TEST_P(Intake, answers_200_for_other_content_also_where_a_delivery_was_missing) {
  const Arrival first{Source{"till"}, MessageId{"evt_1"}, Topic{"t"}, "first"};
  inbox().accept(first, std::vector<HandlerName>{{HandlerKey{"mail"}}});
  HttpRequest request = a_request("/v1/inbox/till/t", {{"Idempotency-Key", "evt_1"}});
  const HttpResponse answer = accept(request);
  EXPECT_EQ(answer.status, 200) << "a sink takes a 202 for success";
  EXPECT_NE(answer.body.find(R"("conflict":true)"), std::string::npos) << answer.body;
}

TEST_P(Intake, refuses_a_source_that_belongs_to_a_webhook) {
  IntakeOptions options = intake_options();
  options.reserved_sources = {"stripe"};
  EXPECT_EQ(InboxIntake(accept_into(inbox()), options).handle(a_request(path)).status, 403);
  EXPECT_EQ(InboxIntake(accept_into(inbox()), options)
                .handle(a_request("/v1/inbox/other/payment.received"))
                .status,
            202);
  EXPECT_EQ(count_messages(), "1");
}

TEST_P(Intake, takes_the_source_of_a_sender_from_that_sender_alone) {
  IntakeOptions options = intake_options();
  options.sender_sources = {"shop"};
  HttpRequest request = a_request("/v1/inbox/shop/payment.received");
  const InboxIntake intake{accept_into(inbox()), options};
  for (const char* sender : {"", "till"}) {
    request.sender = sender;
    const HttpResponse answer = intake.handle(request);
    EXPECT_EQ(answer.status, 403);
    EXPECT_NE(answer.body.find("the sender of that name"), std::string::npos) << answer.body;
  }
  EXPECT_EQ(count_messages(), "0");
  request.sender = "shop";
  EXPECT_EQ(intake.handle(request).status, 202);
  EXPECT_EQ(count_messages(), "1");
}

TEST_P(Intake, refuses_an_expiry_that_has_passed) {
  inbox();
  for (const auto& [expires, status] :
       {std::pair{clock().now(), 400}, {clock().now() - 1h, 400}, {clock().now() + 1s, 202}}) {
    const HttpHeaders headers{{"Idempotency-Key", "evt_1"},
                              {"Twinbox-Expires", Timestamp{expires}.str()}};
    EXPECT_EQ(accept(a_request(path, headers)).status, status);
    EXPECT_EQ(enqueue(a_request("/v1/outbox/t", headers)).status, status);
  }
  EXPECT_EQ(count_messages(), "1");
}

TEST_P(Intake, refuses_a_due_time_that_would_block_a_partition_key_for_long) {
  inbox();
  const auto headers = [&](Duration ahead, bool keyed) {
    HttpHeaders made{{"Idempotency-Key", keyed ? "keyed" : "free"},
                     {"Twinbox-Due", Timestamp{clock().now() + ahead}.str()}};
    if (keyed) made.add("Twinbox-Partition-Key", "k");
    return made;
  };
  EXPECT_EQ(accept(a_request(path, headers(25h, true))).status, 400);
  EXPECT_EQ(enqueue(a_request("/v1/outbox/t", headers(25h, true))).status, 400);
  EXPECT_EQ(accept(a_request(path, headers(24h, true))).status, 202);
  EXPECT_EQ(accept(a_request(path, headers(9000h, false))).status, 202);
}

TEST_P(Intake, refuses_an_encoded_body) {
  inbox();
  for (const char* coding : {"gzip", "identity, br", "x"}) {
    const HttpResponse answer =
        accept(a_request(path, {{"Idempotency-Key", "evt_1"}, {"Content-Encoding", coding}}));
    EXPECT_EQ(answer.status, 415) << coding;
    EXPECT_EQ(answer.headers.find("Accept-Encoding"), "identity");
  }
  HttpRequest twice = a_request(path);
  twice.headers.add("Content-Encoding", "identity");
  twice.headers.add("Content-Encoding", "gzip");
  EXPECT_EQ(accept(twice).status, 415);
  EXPECT_EQ(count_messages(), "0");
  EXPECT_EQ(
      accept(a_request(path, {{"Idempotency-Key", "evt_1"}, {"Content-Encoding", "Identity"}}))
          .status,
      202);
}

TEST_P(Intake, EVB_24_the_sender_s_trace_is_stored) {
  const std::string parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  enqueue(
      a_request("/v1/outbox/order.placed", {{"traceparent", parent}, {"tracestate", "vendor=1"}}));
  enqueue(a_request("/v1/outbox/order.placed", {{"traceparent", "garbage"}}));
  const auto messages = outbox().claim(worker_a);
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_NE(messages[0].headers->find(parent), std::string::npos);
  EXPECT_NE(messages[0].headers->find("vendor=1"), std::string::npos);
  EXPECT_EQ(messages[1].headers->find("garbage"), std::string::npos);
}

TEST_P(Intake, an_event_for_the_outbox_is_stored_as_an_envelope) {
  const HttpResponse answer = enqueue({.target = "/v1/outbox/order.placed",
                                       .headers = {{"ce-specversion", "1.0"},
                                                   {"ce-id", "e1"},
                                                   {"ce-source", "/shop"},
                                                   {"ce-type", "com.shop.order"},
                                                   {"Content-Type", "application/json"}},
                                       .body = R"({"a":1})"});
  EXPECT_EQ(answer.body, R"({"state":"enqueued","id":"e1"})");
  const auto messages = outbox().claim(worker_a);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].topic, Topic{"order.placed"});
  EXPECT_EQ(messages[0].content_type, "application/cloudevents+json");
  EXPECT_NE(messages[0].payload.find(R"("type":"com.shop.order")"), std::string::npos);
  EXPECT_EQ(enqueue({.target = "/v1/outbox/order.placed",
                     .headers = {{"ce-specversion", "1.0"}, {"ce-id", "e1"}}})
                .status,
            400);
}

TEST_P(Intake, PHD_22_a_channel_is_fed_over_http) {
  Channels channels;
  int handled = 0;
  channels.add("payments")
      .from(Source{"stripe"})
      .uses(inbox())
      .on(Topic{"payment.received"}, HandlerKey{"book"}, [&](const Message&) { ++handled; });
  channels.check();
  const InboxIntake intake{accept_into(channels, "payments"), intake_options()};
  EXPECT_EQ(intake.handle(a_request(path)).status, 202);
  EXPECT_EQ(intake.handle(a_request("/v1/inbox/other/payment.received")).status, 400);
  EXPECT_EQ(intake.handle(a_request("/v1/inbox/stripe/unknown")).status, 400);
  EXPECT_EQ(handled, 0);
  Dispatcher{inbox(), channels.handlers_of(inbox())}.drain();
  EXPECT_EQ(handled, 1);
  EXPECT_EQ(intake.handle(a_request(path)).body,
            R"({"state":"duplicate_done","source":"stripe","id":"evt_1","conflict":false})");
}

TEST_P(Intake, PHD_29_a_failing_handler_does_not_change_the_answer) {
  EXPECT_EQ(accept(a_request(path)).status, 202);
  Handlers handlers;
  handlers.on(Topic{"payment.received"},
              [](const Message&) -> void { throw std::runtime_error("boom"); });
  Dispatcher{inbox(), std::move(handlers)}.drain();
  EXPECT_EQ(delivery().attempts, 1);
  EXPECT_EQ(accept(a_request(path)).status, 200);
}

/// A store in which what the plan says goes wrong.
class FaultyIntake : public InboxTest {
 protected:
  HttpResponse accept(const HttpRequest& request) {
    return InboxIntake{accept_into(inbox_), {.environment = environment()}}.handle(request);
  }

  FaultPlan plan_;
  Database database_{open_faulty(test_store().address(), plan_, {.retries = 0}, environment())};
  Inbox inbox_{database_, options()};
};

TEST_P(FaultyIntake, PHD_29_success_is_answered_only_after_the_commit) {
  plan_.fail_commit(DatabaseError::Kind::connection_lost);
  const HttpResponse failed = accept(a_request(path));
  EXPECT_EQ(failed.status, 503);
  EXPECT_EQ(inbox_.state(a_key()), std::nullopt);
  EXPECT_EQ(accept(a_request(path)).status, 202);
  EXPECT_EQ(inbox_.state(a_key()), MessageState::open);
}

TEST_P(FaultyIntake, PHD_30_a_failing_accept_asks_the_sender_to_come_again) {
  for (const auto kind : {DatabaseError::Kind::connection_lost, DatabaseError::Kind::contention,
                          DatabaseError::Kind::out_of_space, DatabaseError::Kind::read_only,
                          DatabaseError::Kind::cancelled, DatabaseError::Kind::missing_schema,
                          DatabaseError::Kind::permission}) {
    plan_.fail_commit(kind);
    const HttpResponse answer = accept(a_request(path));
    EXPECT_EQ(answer.status, 503) << to_string(kind);
    EXPECT_EQ(answer.headers.find("Retry-After"), "5");
    EXPECT_EQ(answer.headers.find("Content-Type"), "application/problem+json");
  }
  EXPECT_EQ(log().events("intake_error").size(), 7u);
  EXPECT_EQ(log().events("intake_error")[0].field("kind"), "connection_lost");
  EXPECT_EQ(accept(a_request(path)).status, 202);
}

TEST_P(FaultyIntake, PHD_30_what_the_store_refuses_for_ever_is_said_so) {
  plan_.fail_commit(DatabaseError::Kind::invalid_request);
  const HttpResponse refused = accept(a_request(path));
  EXPECT_EQ(refused.status, 422);
  EXPECT_FALSE(refused.headers.find("Retry-After"));
  plan_.fail_commit(DatabaseError::Kind::other);
  EXPECT_EQ(accept(a_request(path)).status, 500);
}

TEST_P(FaultyIntake, PHD_30_a_commit_in_doubt_is_settled_by_sending_again) {
  plan_.lose_commit_reply();
  EXPECT_EQ(accept(a_request(path)).status, 503);
  const HttpResponse again = accept(a_request(path));
  EXPECT_EQ(again.status, 200);
  EXPECT_NE(again.body.find("duplicate_open"), std::string::npos);
}

TEST_P(Intake, EVB_33_a_custom_endpoint_is_built_from_the_same_parts) {
  const IntakeOptions options = intake_options();
  const AcceptCall accept = accept_into(inbox());
  const auto orders = [&](const HttpRequest& request) {
    return response_or_problem(options, "accept", [&] {
      const auto segments = path_segments(request, "/shop", 2);
      require_post(request, options);
      if (segments[0] != "orders") throw RequestError(422, "only orders are taken");
      return accept_and_respond(accept, {.source = Source{"shop"},
                                         .id = MessageId{segments[1]},
                                         .topic = Topic{"order.placed"},
                                         .payload = request.body,
                                         .extras = extras_of(request, options)});
    });
  };
  EXPECT_EQ(orders({.target = "/shop/orders/7", .body = payload()}).status, 202);
  EXPECT_EQ(orders({.target = "/shop/orders/7", .body = payload()}).status, 200);
  const HttpResponse other = orders({.target = "/shop/orders/7", .body = payload("other")});
  EXPECT_EQ(other.status, 200);
  EXPECT_NE(other.body.find(R"("conflict":true)"), std::string::npos) << other.body;
  EXPECT_EQ(orders({.target = "/shop/users/7"}).status, 422);
  const auto messages = inbox().claim(worker_a);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].payload, payload());
}

TEST_P(Intake, says_503_while_a_commit_waits_for_no_standby_and_that_is_required) {
  if (!on_postgres()) GTEST_SKIP() << "only PostgreSQL can require it";
  BoxOptions strict = options();
  strict.require_synchronous = true;
  inbox();
  Inbox box{database(), strict};
  InboxIntake intake{accept_into(box), intake_options()};
  const HttpResponse answer = intake.handle(a_request(path));
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.headers.find("Retry-After"), "5");
  EXPECT_EQ(inbox().state(a_key()), std::nullopt);
  EXPECT_EQ(log().events("intake_error").size(), 1u);
}

TWINBOX_ON_EVERY_BACKEND(Intake);
TWINBOX_ON_EVERY_BACKEND(FaultyIntake);

}  // namespace
}  // namespace twinbox::test
