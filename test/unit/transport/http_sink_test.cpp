// The HTTP sink: what it sends, and what it makes of the answers.
#include <gtest/gtest.h>

#include "a_message.hpp"
#include "support/receiver.hpp"
#include <twinbox/event.hpp>
#include <twinbox/sink.hpp>
#include <twinbox/webhook.hpp>

namespace twinbox::test {
namespace {

using namespace std::chrono_literals;
using Kind = Outcome::Kind;

constexpr Instant now = std::chrono::sys_days{std::chrono::November / 6 / 1994} + 8h + 49min + 7s;

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

class HttpSinkTo : public ::testing::Test {
 protected:
  MessageHandler sink(HttpSinkOptions options = {}) {
    if (options.url.empty()) options.url = receiver.url("/hook");
    return http_sink(client, std::move(options), {.clock = [] { return now; }});
  }
  Outcome send(const Message& message, HttpSinkOptions options = {}) {
    return sink(std::move(options))(message, std::stop_token{});
  }
  /// What a sink makes of an answer.
  Outcome outcome(int status, const std::string& body = {}, const std::string& headers = {},
                  HttpSinkOptions options = {}) {
    receiver.answer_with([=](const auto&) { return Receiver::answer(status, body, headers); });
    return send(claimed(), std::move(options));
  }

  Receiver receiver;
  std::shared_ptr<HttpClient> client =
      std::make_shared<HttpClient>(HttpClientOptions{.allow = {"127.0.0.1"}});
};

TEST_F(HttpSinkTo, a_receiver_sends_the_payload_as_it_is_with_attributes_as_headers) {
  Message message = claimed("order.placed", std::string{"a\0b\xff", 4}, "größe 1%");
  message.content_type = "text/x-order";
  message.correlation_id = CorrelationId{"story"};
  message.partition_key = PartitionKey{"customer-7"};
  message.attempts = 2;
  EXPECT_EQ(send(message).kind(), Kind::done);
  const auto request = receiver.requests().at(0);
  EXPECT_TRUE(request.head.starts_with("POST /hook HTTP/1.1"));
  EXPECT_EQ(request.body, message.payload);
  EXPECT_EQ(request.header("content-type"), "text/x-order");
  EXPECT_EQ(request.header("idempotency-key"), "shop gr%C3%B6%C3%9Fe%201%25");
  EXPECT_EQ(request.header("twinbox-id"), "shop gr%C3%B6%C3%9Fe%201%25");
  EXPECT_EQ(request.header("twinbox-source"), "shop");
  EXPECT_EQ(request.header("twinbox-topic"), "order.placed");
  EXPECT_EQ(request.header("twinbox-attempt"), "3");
  EXPECT_EQ(request.header("twinbox-created-at"), "2030-01-15T00:00:00Z");
  EXPECT_EQ(request.header("twinbox-correlation-id"), "story");
  EXPECT_EQ(request.header("twinbox-partition-key"), "customer-7");
}

Message an_envelope() {
  CloudEvent event{.id = "e-1", .source = "/shop", .type = "order.placed"};
  event.set_data(R"({"total": 12.50})");
  Message message = claimed("order.placed", to_json(event), "e-1");
  message.content_type = std::string{event_content_type};
  return message;
}

TEST_F(HttpSinkTo, a_receiver_sends_an_envelope_as_a_binary_event_by_itself) {
  EXPECT_EQ(send(an_envelope()).kind(), Kind::done);
  const auto request = receiver.requests().at(0);
  EXPECT_EQ(request.body, R"({"total": 12.50})");
  EXPECT_EQ(request.header("content-type"), "application/json");
  EXPECT_EQ(request.header("ce-id"), "e-1");
  EXPECT_EQ(request.header("ce-source"), "/shop");
  EXPECT_EQ(request.header("ce-type"), "order.placed");
  EXPECT_EQ(request.header("ce-specversion"), "1.0");
}

TEST_F(HttpSinkTo, a_receiver_sends_a_structured_event_when_asked_to) {
  EXPECT_EQ(send(an_envelope(), {.url = {}, .form = BodyFormat::structured}).kind(), Kind::done);
  const auto request = receiver.requests().at(0);
  EXPECT_TRUE(request.header("content-type").starts_with(event_content_type));
  EXPECT_EQ(event_from_json(request.body).id, "e-1");
}

TEST_F(HttpSinkTo, a_receiver_wraps_what_is_no_envelope_when_an_event_is_asked_for) {
  EXPECT_EQ(send(claimed(), {.url = {}, .form = BodyFormat::binary}).kind(), Kind::done);
  const auto request = receiver.requests().at(0);
  EXPECT_EQ(request.body, claimed().payload);
  EXPECT_EQ(request.header("ce-id"), "evt_1");
  EXPECT_EQ(request.header("ce-type"), "order.placed");
}

TEST_F(HttpSinkTo, a_receiver_sends_an_envelope_raw_when_asked_to) {
  const Message message = an_envelope();
  EXPECT_EQ(send(message, {.url = {}, .form = BodyFormat::raw}).kind(), Kind::done);
  EXPECT_EQ(receiver.requests().at(0).body, message.payload);
}

TEST_F(HttpSinkTo, a_receiver_calls_a_damaged_envelope_malformed_and_sends_nothing) {
  Message message = an_envelope();
  message.payload = R"({"specversion":"1.0"})";
  const Outcome outcome = send(message);
  EXPECT_EQ(outcome.kind(), Kind::dead);
  EXPECT_EQ(outcome.cause(), "malformed");
  EXPECT_TRUE(receiver.requests().empty());
}

TEST_F(HttpSinkTo, a_receiver_calls_a_content_type_that_no_header_can_hold_malformed) {
  Message message = claimed();
  message.content_type = "text/plain\r\nX-Evil: 1";
  EXPECT_EQ(send(message).cause(), "malformed");
  EXPECT_TRUE(receiver.requests().empty());
}

TEST_F(HttpSinkTo, a_receiver_sends_the_headers_of_the_sink_before_its_own) {
  HttpSinkOptions options;
  options.method = "PUT";
  options.headers = {{"Authorization", "Bearer abc"}, {"content-type", "application/x-mine"}};
  EXPECT_EQ(send(claimed(), options).kind(), Kind::done);
  const auto request = receiver.requests().at(0);
  EXPECT_TRUE(request.head.starts_with("PUT "));
  EXPECT_EQ(request.header("authorization"), "Bearer abc");
  EXPECT_EQ(request.header("content-type"), "application/x-mine");
}

TEST_F(HttpSinkTo, a_receiver_signs_with_every_secret_so_that_one_can_be_replaced) {
  const std::string old_secret = make_webhook_secret();
  const std::string new_secret = make_webhook_secret();
  EXPECT_EQ(send(claimed(), {.url = {}, .secrets = {new_secret, old_secret}}).kind(), Kind::done);
  const auto came = receiver.requests().at(0);
  EXPECT_EQ(came.header("webhook-id"), "shop evt_1");
  HttpRequest request{.body = came.body};
  for (const char* name : {"webhook-id", "webhook-timestamp", "webhook-signature"}) {
    request.headers.add(name, came.header(name));
  }
  for (const std::string& secret : {old_secret, new_secret}) {
    EXPECT_TRUE(SignatureVerifier(StandardWebhooks{}, {secret}).verify(request, now).genuine());
  }
  EXPECT_FALSE(SignatureVerifier(StandardWebhooks{}, {make_webhook_secret()})
                   .verify(request, now)
                   .genuine());
}

TEST_F(HttpSinkTo, a_receiver_can_tell_the_same_id_of_two_sources_apart) {
  const HttpSinkOptions options{.url = {}, .secrets = {make_webhook_secret()}};
  for (const char* source : {"shop", "sh op", "-"}) {
    Message message = claimed();
    message.source = Source{source};
    EXPECT_EQ(send(message, options).kind(), Kind::done);
  }
  const auto requests = receiver.requests();
  for (const char* header : {"idempotency-key", "twinbox-id", "webhook-id"}) {
    EXPECT_EQ(requests.at(0).header(header), "shop evt_1") << header;
    EXPECT_EQ(requests.at(1).header(header), "sh%20op evt_1") << header;
    EXPECT_EQ(requests.at(2).header(header), "evt_1") << header;
  }
}

TEST_F(HttpSinkTo, a_receiver_that_reports_a_conflict_makes_a_dead_letter) {
  const std::string conflict =
      R"({"state":"duplicate_open","source":"shop","id":"evt_1","conflict":true})";
  const Outcome refused = outcome(200, conflict);
  EXPECT_EQ(refused.kind(), Kind::dead);
  EXPECT_EQ(refused.cause(), "conflict");
  EXPECT_TRUE(has(refused.reason(), "other content under this id")) << refused.reason();
  EXPECT_EQ(outcome(200, conflict, "", {.url = {}, .done_on = {200}}).kind(), Kind::done);
  for (const std::string& other :
       {std::string{R"({"state":"duplicate_open","source":"shop","id":"evt_1","conflict":false})"},
        std::string{R"({"conflict":true})"}, std::string{R"("conflict":true)"},
        conflict + std::string(8192, ' ')}) {
    EXPECT_EQ(outcome(200, other).kind(), Kind::done) << other.substr(0, 80);
  }
}

TEST_F(HttpSinkTo, EVB_24_a_receiver_is_told_the_stored_trace) {
  const std::string trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  Message message = claimed();
  message.headers = R"({"traceparent":")" + trace + R"(","tracestate":"a=b"})";
  EXPECT_EQ(send(message).kind(), Kind::done);
  const auto request = receiver.requests().at(0);
  EXPECT_EQ(request.header("traceparent"), trace);
  EXPECT_EQ(request.header("tracestate"), "a=b");
}

TEST_F(HttpSinkTo, EVB_24_a_receiver_has_the_handlers_span_as_its_parent_where_there_is_one) {
  const std::string span = "00-11111111111111111111111111111111-2222222222222222-01";
  const TraceScope scope{*TraceContext::parse(span)};
  EXPECT_EQ(send(claimed()).kind(), Kind::done);
  EXPECT_EQ(receiver.requests().at(0).header("traceparent"), span);
}

TEST_F(HttpSinkTo, a_receiver_without_a_trace_sends_none) {
  EXPECT_EQ(send(claimed()).kind(), Kind::done);
  EXPECT_EQ(receiver.requests().at(0).header("traceparent"), "");
}

TEST_F(HttpSinkTo, a_receiver_judges_by_the_table_of_statuses) {
  for (const int status : {200, 201, 202, 204, 299}) {
    EXPECT_EQ(outcome(status).kind(), Kind::done) << status;
  }
  for (const int status : {400, 413, 415, 422}) {
    EXPECT_EQ(outcome(status).kind(), Kind::dead) << status;
  }
  for (const int status :
       {300, 301, 302, 304, 307, 308, 401, 402, 403, 404, 405, 406, 408, 409, 411,
        412, 421, 423, 425, 426, 428, 429, 431, 451, 500, 501, 502, 503, 504, 599}) {
    EXPECT_EQ(outcome(status).kind(), Kind::retry) << status;
  }
  EXPECT_THROW(outcome(410), ReceiverGone);
}

TEST_F(HttpSinkTo, a_receiver_judges_as_it_is_told_to) {
  EXPECT_EQ(outcome(409, "", "", {.url = {}, .done_on = {409}}).kind(), Kind::done);
  EXPECT_EQ(outcome(410, "", "", {.url = {}, .done_on = {410}}).kind(), Kind::done);
  EXPECT_EQ(outcome(400, "", "", {.url = {}, .dead_on = {}}).kind(), Kind::retry);
  EXPECT_EQ(outcome(404, "", "", {.url = {}, .dead_on = {404}}).kind(), Kind::dead);
}

TEST_F(HttpSinkTo, a_receivers_status_is_the_cause_that_the_log_shows_and_nothing_else) {
  EXPECT_EQ(outcome(503, "full: secret").log_cause()->str(), "http 503");
  EXPECT_EQ(outcome(400, "no: secret").log_cause()->str(), "http 400");
  receiver.close();
  EXPECT_EQ(send(claimed()).log_cause()->str(), "no http answer");
}

TEST_F(HttpSinkTo, a_receiver_keeps_its_words_as_the_error_cut_and_made_text) {
  const Outcome failed = outcome(503, "no \xff room " + std::string(9000, 'x'));
  EXPECT_TRUE(
      failed.reason().starts_with(receiver.url("/hook") + ": HTTP 503: no \xEF\xBF\xBD room xxx"))
      << failed.reason().substr(0, 80);
  EXPECT_LE(failed.reason().size(), 4100u);
  EXPECT_FALSE(failed.delay());
}

TEST_F(HttpSinkTo, a_receiver_names_where_a_redirect_leads_without_its_query) {
  const Outcome failed = outcome(301, "", "Location: https://example.com/new?token=secret\r\n");
  EXPECT_EQ(failed.kind(), Kind::retry);
  EXPECT_TRUE(has(failed.reason(), "set the address to https://example.com/new"))
      << failed.reason();
  EXPECT_FALSE(has(failed.reason(), "secret"));
  EXPECT_EQ(receiver.requests().size(), 1u);
}

TEST_F(HttpSinkTo, a_receiver_waits_as_long_as_retry_after_says) {
  EXPECT_EQ(outcome(429, "", "Retry-After: 120\r\n").delay(), 120s);
  EXPECT_EQ(outcome(503, "", "Retry-After: Sun, 06 Nov 1994 08:49:37 GMT\r\n").delay(), 30s);
  // By the receiver's own clock, which is an hour behind.
  EXPECT_EQ(outcome(503, "",
                    "Date: Sun, 06 Nov 1994 07:49:37 GMT\r\n"
                    "Retry-After: Sun, 06 Nov 1994 07:50:37 GMT\r\n")
                .delay(),
            60s);
}

TEST_F(HttpSinkTo, a_receiver_bounds_what_retry_after_says) {
  EXPECT_EQ(outcome(429, "", "Retry-After: 99999999\r\n").delay(), 24h);
  EXPECT_EQ(outcome(429, "", "Retry-After: 7200\r\n", {.url = {}, .max_retry_after = 1h}).delay(),
            1h);
  EXPECT_EQ(outcome(429, "", "Retry-After: 0\r\n").delay(), 1s);
  EXPECT_EQ(outcome(429, "", "Retry-After: soon\r\n").delay(), std::nullopt);
}

TEST_F(HttpSinkTo, a_receiver_that_is_down_is_a_retry_that_names_it) {
  receiver.close();
  const Outcome failed = send(claimed());
  EXPECT_EQ(failed.kind(), Kind::retry);
  EXPECT_TRUE(has(failed.reason(), receiver.url("/hook"))) << failed.reason();
}

std::string refusal(HttpSinkOptions options, std::shared_ptr<HttpClient> client) {
  if (options.url.empty()) options.url = "https://example.com/";
  try {
    http_sink(std::move(client), std::move(options));
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "taken";
}

TEST_F(HttpSinkTo, nobody_is_refused_when_it_is_made) {
  EXPECT_EQ(refusal({}, client), "taken");
  EXPECT_TRUE(has(refusal({}, nullptr), "client"));
  EXPECT_TRUE(has(refusal({.url = "example.com/x"}, client), "https://example.com/path"));
  EXPECT_TRUE(has(refusal({.url = "https://a:b@example.com/"}, client), "Authorization"));
  EXPECT_TRUE(has(refusal({.url = {}, .method = "GET"}, client), "POST, PUT or PATCH"));
  EXPECT_TRUE(has(refusal({.url = {}, .timeout = 0s}, client), "timeout"));
  EXPECT_TRUE(has(refusal({.url = {}, .max_retry_after = 0s}, client), "max_retry_after"));
  EXPECT_TRUE(has(refusal({.url = {}, .headers = {{"X", "a\nb"}}}, client), "line break"));
  EXPECT_TRUE(has(refusal({.url = {}, .done_on = {99}}, client), "done_on holds 99"));
  EXPECT_TRUE(has(refusal({.url = {}, .dead_on = {600}}, client), "dead_on holds 600"));
  const std::string secret = refusal({.url = {}, .secrets = {"whsec_!!!"}}, client);
  EXPECT_NE(secret, "taken");
  EXPECT_FALSE(has(secret, "!!!")) << secret;
}

}  // namespace
}  // namespace twinbox::test
