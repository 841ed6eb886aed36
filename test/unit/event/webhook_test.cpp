#include "twinbox/webhook.hpp"

#include <functional>

#include <gtest/gtest.h>

#include "core/encoding.hpp"
#include "crypto/ed25519.hpp"
#include "crypto/hmac.hpp"
#include "twinbox/testing.hpp"

namespace twinbox {
namespace {

using namespace std::chrono_literals;

constexpr Instant now{1614265330s};

/// Endpoints over a list instead of a store: what would have been written.
class Webhook : public ::testing::Test {
 protected:
  Webhook() { world_.clock.set(now); }

  WebhookEndpoint endpoint(std::string name, SignatureScheme scheme,
                           std::vector<std::string> secrets) {
    return {.name = std::move(name),
            .scheme = std::move(scheme),
            .secrets = std::move(secrets),
            .accept = [this](std::span<const Arrival> arrivals) {
              written_.insert(written_.end(), arrivals.begin(), arrivals.end());
              return std::vector<Accepted>(arrivals.size(), Accepted{Acceptance::accepted});
            }};
  }

  HttpResponse send(const WebhookEndpoint& to, HttpRequest request) {
    request.target = "/webhooks/" + to.name;
    return WebhookIntake{{to}, options()}.handle(request);
  }

  IntakeOptions options() {
    return {.keep_headers = {"User-Agent"}, .environment = world_.environment()};
  }

  /// Nothing was written, and a problem document says so.
  void expect_refused(const HttpResponse& answer, int status, const std::string& detail) {
    EXPECT_EQ(answer.status, status);
    EXPECT_EQ(answer.headers.find("Content-Type"), "application/problem+json");
    EXPECT_NE(answer.body.find("\"detail\":\"" + detail), std::string::npos) << answer.body;
    EXPECT_TRUE(written_.empty());
  }

  TestEnvironment world_;
  std::vector<Arrival> written_;
};

HttpRequest signed_by_github(std::string body, HttpHeaders headers) {
  headers.add("X-Hub-Signature-256", "sha256=" + hex(hmac(HashFunction::sha256, "s", body)));
  return {.headers = std::move(headers), .body = std::move(body)};
}

HttpRequest signed_by_stripe(std::string body) {
  const std::string code = hex(hmac(HashFunction::sha256, "s", "1614265330." + body));
  return {.headers = {{"Stripe-Signature", "t=1614265330,v1=" + code}}, .body = std::move(body)};
}

HttpRequest signed_by_slack(std::string body) {
  const std::string code = hex(hmac(HashFunction::sha256, "s", "v0:1614265330:" + body));
  return {
      .headers = {{"X-Slack-Signature", "v0=" + code}, {"X-Slack-Request-Timestamp", "1614265330"}},
      .body = std::move(body)};
}

TEST_F(Webhook, gitlab_and_ed25519_have_ids_and_topics_of_their_own) {
  const HttpResponse gitlab = send(endpoint("gitlab", GitLabToken{}, {"token"}),
                                   {.headers = {{"X-Gitlab-Token", "token"},
                                                {"Idempotency-Key", "key-1"},
                                                {"X-Gitlab-Event", "Push Hook"}},
                                    .body = "{}"});
  EXPECT_EQ(gitlab.status, 202);
  const std::string seed(32, 's');
  const HttpResponse discord =
      send(endpoint("discord", Ed25519Signature{}, {hex(ed25519_public_key(seed))}),
           {.headers = {{"X-Signature-Ed25519", hex(ed25519_sign(seed, "1614265330{}"))},
                        {"X-Signature-Timestamp", "1614265330"}},
            .body = "{}"});
  EXPECT_EQ(discord.status, 202);
  ASSERT_EQ(written_.size(), 2u);
  EXPECT_EQ(written_[0].id.str(), "key-1");
  EXPECT_EQ(written_[0].topic.str(), "Push Hook");
  EXPECT_EQ(written_[1].id.str(), hex(ContentHash::of("{}").bytes));
  EXPECT_EQ(written_[1].topic.str(), "discord");
}

TEST_F(Webhook, the_header_of_an_id_is_named_in_any_case) {
  HttpRequest request{.headers = {{"Idempotency-Key", "\"key-1\""}}};
  request.loopback = true;
  for (const char* name : {"Idempotency-Key", "idempotency-key", "IDEMPOTENCY-KEY"}) {
    WebhookEndpoint one = endpoint("one", Unsigned{}, {});
    one.id = ValueFrom::header(name);
    ASSERT_LT(send(one, request).status, 300) << name;
    EXPECT_EQ(written_.back().id.str(), "key-1") << name;
  }
}

TEST_F(Webhook, a_source_that_is_read_from_the_request_cannot_be_another_endpoint_s) {
  WebhookEndpoint reading = endpoint("crm", GitLabToken{}, {"token"});
  reading.source = ValueFrom::pointer("/s");
  WebhookEndpoint named = endpoint("pay", StripeSignature{}, {"s"});
  named.source = ValueFrom::fixed("payments");
  IntakeOptions reserving = options();
  reserving.reserved_sources = {"elsewhere"};
  const WebhookIntake intake{{endpoint("stripe", StripeSignature{}, {"s"}), named, reading},
                             reserving};
  const auto answer = [&](const std::string& source) {
    return intake.handle({.target = "/webhooks/crm",
                          .headers = {{"X-Gitlab-Token", "token"},
                                      {"Idempotency-Key", "key-1"},
                                      {"X-Gitlab-Event", "Push Hook"}},
                          .body = R"({"s":")" + source + "\"}"});
  };
  for (const char* reserved : {"stripe", "payments", "elsewhere"}) {
    expect_refused(answer(reserved), 403, "the source '" + std::string{reserved} + "' belongs to");
  }
  EXPECT_EQ(answer("crm").status, 202) << "its own";
  EXPECT_EQ(answer("pay").status, 202) << "this endpoint has another source";
}

TEST_F(Webhook, stripe_is_known_by_its_body) {
  const auto answer = send(endpoint("stripe", StripeSignature{}, {"s"}),
                           signed_by_stripe(R"({"id":"evt_1","type":"charge.succeeded"})"));
  EXPECT_EQ(answer.status, 202);
  EXPECT_EQ(answer.body, R"({"state":"accepted","source":"stripe","id":"evt_1","conflict":false})");
  ASSERT_EQ(written_.size(), 1u);
  EXPECT_EQ(written_[0].topic, Topic{"charge.succeeded"});
  EXPECT_EQ(written_[0].payload, R"({"id":"evt_1","type":"charge.succeeded"})");
  EXPECT_EQ(written_[0].extras.hash, ContentHash::of(written_[0].payload));
}

TEST_F(Webhook, github_is_known_by_its_headers) {
  auto request = signed_by_github("{}", {{"X-GitHub-Delivery", "72d3162e"},
                                         {"X-GitHub-Event", "push"},
                                         {"Content-Type", "application/json"},
                                         {"User-Agent", "GitHub-Hookshot/1"},
                                         {"Cookie", "not kept"}});
  auto github = endpoint("github", GitHubSignature{}, {"s"});
  github.topic_prefix = "github.";
  EXPECT_EQ(send(github, request).status, 202);
  ASSERT_EQ(written_.size(), 1u);
  EXPECT_EQ(written_[0].key(), (MessageKey{Source{"github"}, MessageId{"72d3162e"}}));
  EXPECT_EQ(written_[0].topic, Topic{"github.push"});
  EXPECT_EQ(written_[0].extras.content_type, "application/json");
  EXPECT_EQ(
      written_[0].extras.headers,
      R"({"transport":"http","endpoint":"github","http":{"user-agent":"GitHub-Hookshot/1"}})");
}

TEST_F(Webhook, standard_webhooks_are_known_by_their_id) {
  const std::string secret = make_webhook_secret();
  HttpRequest request{.body = R"({"type":"contact.created"})"};
  request.headers = WebhookSigner{{secret}}.sign("msg_1", now, request.body);
  EXPECT_EQ(send(endpoint("crm", StandardWebhooks{}, {secret}), request).status, 202);
  ASSERT_EQ(written_.size(), 1u);
  EXPECT_EQ(written_[0].id, MessageId{"msg_1"});
  EXPECT_EQ(written_[0].topic, Topic{"contact.created"});
}

TEST_F(Webhook, slack_s_events_are_taken_and_its_question_is_answered) {
  const auto slack = endpoint("slack", SlackSignature{}, {"s"});
  const auto answer =
      send(slack, signed_by_slack(R"({"type":"url_verification","challenge":"3eZbrw1aB"})"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "3eZbrw1aB");
  EXPECT_TRUE(written_.empty());
  send(slack, signed_by_slack(
                  R"({"type":"event_callback","event_id":"Ev1","event":{"type":"app_mention"}})"));
  ASSERT_EQ(written_.size(), 1u);
  EXPECT_EQ(written_[0].id, MessageId{"Ev1"});
  EXPECT_EQ(written_[0].topic, Topic{"app_mention"});
}

TEST_F(Webhook, a_question_is_answered_only_where_the_endpoint_has_its_handshake) {
  const auto ask = [&](Handshake handshake, SignatureScheme scheme, HttpRequest request) {
    WebhookEndpoint one = endpoint("one", std::move(scheme), {"s"});
    one.handshake = std::move(handshake);
    return WebhookIntake{{one}, options()}.handle(request);
  };
  const HttpRequest meta{
      .method = "GET",
      .target = "/webhooks/one?hub.mode=subscribe&hub.challenge=%3Cb%3E&hub.verify_token=t+1"};
  const HttpRequest origin{.method = "OPTIONS",
                           .target = "/webhooks/one",
                           .headers = {{"WebHook-Request-Origin", "A.example"}}};
  const HttpRequest graph{.target = "/webhooks/one?validationToken=a%3A+b"};
  const HmacSignature hmac{.header = "X-Signature"};

  const HttpResponse challenge = ask(MetaHandshake{{"t 2", "t 1"}}, hmac, meta);
  EXPECT_EQ(challenge.status, 200);
  EXPECT_EQ(challenge.body, "<b>");
  EXPECT_EQ(challenge.headers.find("Content-Type"), "text/plain");
  EXPECT_EQ(challenge.headers.find("X-Content-Type-Options"), "nosniff");
  expect_refused(ask(MetaHandshake{{"t"}}, hmac, meta), 403, "expected hub.mode=subscribe");

  const HttpResponse allowed =
      ask(CloudEventsHandshake{{"b.example", "a.example"}, 5}, hmac, origin);
  EXPECT_EQ(allowed.status, 200);
  EXPECT_EQ(allowed.headers.find("WebHook-Allowed-Origin"), "a.example");
  EXPECT_EQ(allowed.headers.find("WebHook-Allowed-Rate"), "5");
  EXPECT_EQ(allowed.headers.find("Allow"), "POST, OPTIONS");
  const HttpResponse any = ask(CloudEventsHandshake{{"*"}}, hmac, origin);
  EXPECT_EQ(any.headers.find("WebHook-Allowed-Origin"), "*");
  EXPECT_EQ(any.headers.find("WebHook-Allowed-Rate"), "*");
  expect_refused(ask(CloudEventsHandshake{{"b.example"}}, hmac, origin), 403, "this origin may");

  const HttpResponse token = ask(GraphHandshake{}, GraphClientState{}, graph);
  EXPECT_EQ(token.body, "a: b");
  EXPECT_EQ(token.headers.find("X-Content-Type-Options"), "nosniff");
  expect_refused(ask(GraphHandshake{}, GraphClientState{},
                     {.target = "/webhooks/one?validationToken=" + std::string(1025, 'x')}),
                 400, "validationToken: expected 1 to 1024");

  expect_refused(ask({}, hmac, meta), 405, "only POST is taken here");
  expect_refused(ask({}, hmac, origin), 405, "only POST is taken here");
  expect_refused(ask({}, GraphClientState{}, graph), 401, "it could not be verified");
  EXPECT_EQ(ask(MetaHandshake{{"t"}}, hmac, origin).headers.find("Allow"), "POST, GET, HEAD");
}

TEST_F(Webhook, zoom_is_answered_with_the_secret_that_signed_its_question) {
  const HmacSignature scheme{.header = "x-zm-signature",
                             .prefix = "v0=",
                             .timestamp_header = "x-zm-request-timestamp",
                             .signed_content = "v0:{timestamp}:{body}"};
  WebhookEndpoint zoom = endpoint("zoom", scheme, {"new", "s"});
  const std::string question =
      R"({"event":"endpoint.url_validation","payload":{"plainToken":"token"}})";
  const auto signed_by = [&](const std::string& secret, const std::string& body) {
    const std::string code = hex(hmac(HashFunction::sha256, secret, "v0:1614265330:" + body));
    return HttpRequest{
        .headers = {{"x-zm-signature", "v0=" + code}, {"x-zm-request-timestamp", "1614265330"}},
        .body = body};
  };
  zoom.handshake = ZoomHandshake{};
  for (const char* secret : {"new", "s"}) {
    const HttpResponse answer = send(zoom, signed_by(secret, question));
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, R"({"plainToken":"token","encryptedToken":")" +
                               hex(hmac(HashFunction::sha256, secret, "token")) + "\"}");
  }
  expect_refused(send(zoom, signed_by("other", question)), 401, "it could not be verified");
  zoom.handshake = {};
  EXPECT_EQ(send(zoom, signed_by("s", question)).status, 202) << "a message like any other";
}

TEST_F(Webhook, a_handshake_goes_with_its_scheme) {
  const auto refused = [&](Handshake handshake, SignatureScheme scheme) {
    WebhookEndpoint one = endpoint("a", std::move(scheme), {"s"});
    one.handshake = std::move(handshake);
    try {
      const WebhookIntake made{{one}};
    } catch (const std::invalid_argument& error) {
      return std::string{error.what()};
    }
    return std::string{};
  };
  const HmacSignature sha1{.header = "X-Signature", .hash = MacHash::sha1};
  EXPECT_EQ(refused(MetaHandshake{{"t"}}, sha1), "");
  EXPECT_EQ(refused(MetaHandshake{{"t"}}, StripeSignature{}),
            "webhook endpoint 'a': the handshake meta goes with the scheme hmac, not with the "
            "scheme stripe");
  EXPECT_NE(refused(MetaHandshake{{""}}, sha1), "");
  EXPECT_NE(refused(ZoomHandshake{}, sha1), "");
  EXPECT_NE(refused(GraphHandshake{}, BearerToken{}), "");
  EXPECT_NE(refused(CloudEventsHandshake{{"*"}}, SlackSignature{}), "");
  EXPECT_NE(refused(CloudEventsHandshake{}, BearerToken{}), "");
  EXPECT_NE(refused(CloudEventsHandshake{{"a b"}}, BearerToken{}), "");
  EXPECT_EQ(refused(CloudEventsHandshake{{"*"}}, BearerToken{}), "");
}

TEST_F(Webhook, every_notification_of_graph_has_a_client_state_that_is_known) {
  const WebhookEndpoint graph = endpoint("graph", GraphClientState{}, {"old", "new"});
  for (const char* body :
       {"", "x", "{}", R"({"value":[]})", R"({"value":[{"clientState":"other"}]})",
        R"({"value":[{"clientState":"new"},{}]})", R"({"value":[{"clientState":["new"]}]})",
        R"({"value":{"clientState":"new"}})"}) {
    expect_refused(send(graph, {.body = body}), 401, "it could not be verified");
  }
  const std::string body = R"({"value":[{"clientState":"new"},{"clientState":"old"}]})";
  EXPECT_EQ(send(graph, {.body = body}).status, 202);
  ASSERT_EQ(written_.size(), 1u);
  EXPECT_EQ(written_[0].id.str(), hex(ContentHash::of(body).bytes));
  EXPECT_EQ(written_[0].topic, Topic{"graph"});
}

TEST_F(Webhook, shopify_is_known_by_its_headers) {
  HttpRequest request{
      .headers = {{"X-Shopify-Webhook-Id", "b54557e4"}, {"X-Shopify-Topic", "orders/create"}},
      .body = R"({"id":820982911946154508})"};
  request.headers.add("X-Shopify-Hmac-Sha256",
                      base64(hmac(HashFunction::sha256, "s", request.body)));
  EXPECT_EQ(send(endpoint("shop", ShopifySignature{}, {"s"}), request).status, 202);
  ASSERT_EQ(written_.size(), 1u);
  EXPECT_EQ(written_[0].topic, Topic{"orders/create"});
  EXPECT_EQ(written_[0].id, MessageId{"b54557e4"});
}

TEST_F(Webhook, without_an_id_of_its_own_the_body_is_the_id_whatever_the_secret) {
  const auto generic = endpoint("erp", HmacSignature{.header = "X-Sign"}, {"s", "rotated"});
  const auto code = [](const char* secret) {
    return hex(hmac(HashFunction::sha256, secret, "body"));
  };
  send(generic, {.headers = {{"X-Sign", code("s")}}, .body = "body"});
  send(generic, {.headers = {{"X-Sign", code("rotated")}}, .body = "body"});
  send(generic, {.headers = {{"X-Sign", hex(hmac(HashFunction::sha256, "s", "b"))}}, .body = "b"});
  ASSERT_EQ(written_.size(), 3u);
  EXPECT_EQ(written_[0].id, written_[1].id);
  EXPECT_NE(written_[0].id, written_[2].id);
  EXPECT_EQ(written_[0].id.view().size(), 64u);
  EXPECT_EQ(written_[0].topic, Topic{"erp"});
}

TEST_F(Webhook, id_topic_and_source_are_taken_from_where_the_endpoint_says) {
  auto own = endpoint("own", BearerToken{}, {"token"});
  own.id = ValueFrom::parse("/data/~0a~1b/0");
  own.topic = ValueFrom::parse("header:X-Kind");
  own.source = ValueFrom::parse("fixed:shop 7");
  const auto answer = send(own, {.headers = {{"Authorization", "Bearer token"}, {"X-Kind", "paid"}},
                                 .body = R"({"data":{"~a/b":[42]}})"});
  EXPECT_EQ(answer.status, 202) << answer.body;
  ASSERT_EQ(written_.size(), 1u);
  EXPECT_EQ(written_[0].key(), (MessageKey{Source{"shop 7"}, MessageId{"42"}}));
  EXPECT_EQ(written_[0].topic, Topic{"paid"});
}

TEST_F(Webhook, what_is_not_genuine_is_told_to_the_log_only) {
  auto request = signed_by_stripe(R"({"id":"evt_1","type":"charge.succeeded"})");
  request.body += ' ';
  const auto stripe = endpoint("stripe", StripeSignature{}, {"s", "old"});
  expect_refused(send(stripe, request), 401, "it could not be verified who sent this");
  expect_refused(send(stripe, {}), 401, "it could not be verified who sent this");
  world_.clock.advance(301s);
  expect_refused(send(stripe, signed_by_stripe("{}")), 401, "it could not be verified who");
  const auto told = world_.log.events("webhook_refused");
  ASSERT_EQ(told.size(), 3u);
  EXPECT_EQ(told[0].field("endpoint"), "stripe");
  EXPECT_EQ(told[0].field("scheme"), "stripe");
  EXPECT_EQ(told[0].field("fault"), "no_match");
  EXPECT_EQ(told[0].field("detail"), "no secret made this signature (2 tried)");
  EXPECT_EQ(told[1].field("detail"), "there is no header Stripe-Signature");
  EXPECT_EQ(told[2].field("fault"), "too_old");
}

TEST_F(Webhook, unsigned_requests_come_from_this_machine_only) {
  const auto open = endpoint("open", Unsigned{}, {});
  HttpRequest request{.headers = {{"Idempotency-Key", "1"}}};
  expect_refused(send(open, request), 401, "it could not be verified who sent this");
  request.loopback = true;
  EXPECT_EQ(send(open, request).status, 202);
}

TEST_F(Webhook, malformed_input_answers_400_and_writes_nothing) {
  const auto stripe = endpoint("stripe", StripeSignature{}, {"s"});
  expect_refused(send(stripe, signed_by_stripe("no json")), 400,
                 "no id: the body is no JSON, and it is expected at /id");
  expect_refused(send(stripe, signed_by_stripe(R"({"type":"x"})")), 400,
                 "no id: the body has nothing at /id");
  expect_refused(send(stripe, signed_by_stripe(R"({"id":{},"type":"x"})")), 400,
                 "no id: the value at /id is neither text nor a whole number");
  expect_refused(send(stripe, signed_by_stripe(R"({"id":"","type":"x"})")), 400, "message id");
  expect_refused(
      send(stripe, signed_by_stripe(R"({"id":"1","type":")" + std::string(300, 'x') + R"("})")),
      400, "topic");
  expect_refused(send(stripe, signed_by_stripe(std::string(1000, '['))), 400, "no id: the body");
  expect_refused(send(endpoint("github", GitHubSignature{}, {"s"}), signed_by_github("{}", {})),
                 400, "no id: there is no header X-GitHub-Delivery");
}

TEST_F(Webhook, paths_methods_and_sizes_are_checked_first) {
  const WebhookIntake intake{{endpoint("open", Unsigned{}, {})}, {.max_body = 3}};
  const auto ask = [&](std::string method, std::string target, std::string body = {}) {
    return intake.handle({.method = std::move(method),
                          .target = std::move(target),
                          .body = std::move(body),
                          .loopback = true});
  };
  expect_refused(ask("POST", "/webhooks/other"), 404, "there is no webhook endpoint of this name");
  expect_refused(ask("POST", "/webhooks"), 404, "there is nothing at this path");
  expect_refused(ask("POST", "/webhooks/open/more"), 404, "there is nothing at this path");
  expect_refused(ask("POST", "/webhooks/%4"), 400, "the path has a %");
  const auto get = ask("GET", "/webhooks/open");
  expect_refused(get, 405, "only POST is taken here");
  EXPECT_EQ(get.headers.find("Allow"), "POST");
  expect_refused(ask("POST", "/webhooks/open?x=1", "long"), 413,
                 "the body has 4 bytes, and 3 are allowed");
}

std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST_F(Webhook, an_endpoint_that_cannot_work_is_refused_by_name) {
  const auto refused = [&](std::vector<WebhookEndpoint> endpoints) {
    return refusal([&] { WebhookIntake{std::move(endpoints)}; });
  };
  const auto good = endpoint("a", GitHubSignature{}, {"s"});
  EXPECT_EQ(refused({good, good}), "webhook endpoint 'a': this name is in use; choose another one");
  EXPECT_EQ(refused({endpoint("a/b", GitHubSignature{}, {"s"})}),
            "webhook endpoint 'a/b': its name may have letters, digits, -, _ and . only");
  EXPECT_EQ(refused({endpoint("a", GitHubSignature{}, {})}),
            "webhook endpoint 'a': signature scheme github needs a secret");
  auto other = good;
  other.accept = {};
  EXPECT_EQ(refused({other}), "webhook endpoint 'a': it has no target: say where it is accepted");
  other = good;
  other.id = ValueFrom::pointer("id");
  EXPECT_EQ(refused({other}),
            "webhook endpoint 'a': its id: 'id' is no JSON pointer such as /data/id");
  other.id = ValueFrom::pointer("/data/~2");
  EXPECT_EQ(refused({other}),
            "webhook endpoint 'a': its id: '/data/~2' is no JSON pointer such as /data/id");
  EXPECT_NE(refusal([] { ValueFrom::parse("id"); }).find("'id' says not where to look"),
            std::string::npos);
  EXPECT_NE(refusal([] { ValueFrom::parse("header:"); }).find("says not where"), std::string::npos);
}

}  // namespace
}  // namespace twinbox
