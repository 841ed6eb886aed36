// What every way in refuses: an expiry that has passed, and a body that is encoded.
#include "support/inbox_test.hpp"
#include <twinbox/intake.hpp>
#include <twinbox/webhook.hpp>

namespace twinbox::test {
namespace {

class EventRefusals : public InboxTest {
 protected:
  IntakeOptions intake_options() { return {.environment = environment()}; }

  HttpResponse accept(const HttpRequest& request) {
    return EventIntake{accept_into(inbox()), intake_options()}.handle(request);
  }
  HttpResponse enqueue(HttpRequest request) {
    request.target = "/v1/outbox/order";
    return OutboxIntake{outbox(), intake_options()}.handle(request);
  }
  HttpResponse accept_named(HttpRequest request) {
    request.target = "/events/order/v2";
    return NamedEventIntake{
        {EventName{"order", 2}}, accept_mode(accept_into(inbox())), intake_options()}
        .handle(request);
  }
  HttpResponse handle_inline(HttpRequest request) {
    request.target = "/events/order/v2";
    EventHandlers handlers;
    handlers.on(EventName{"order", 2}, [](const CloudEvent&) { return Outcome::done(); });
    return NamedEventIntake{handlers.names(), inline_mode(inbox(), handlers.handlers()),
                            intake_options()}
        .handle(request);
  }
  HttpResponse deliver(HttpRequest request) {
    request.target = "/sidecar/orders";
    return SidecarIntake{{{.pubsub = "p",
                           .topic = "orders",
                           .route = "/sidecar/orders",
                           .take = accept_mode(accept_into(inbox()))}},
                         intake_options()}
        .handle(request);
  }
  HttpResponse take_webhook(HttpRequest request) {
    std::vector<WebhookEndpoint> endpoints;
    const std::string secret = make_webhook_secret();
    endpoints.push_back({.name = "crm",
                         .scheme = StandardWebhooks{},
                         .secrets = {secret},
                         .accept = accept_into(inbox())});
    request.target = "/webhooks/crm";
    HttpHeaders headers = WebhookSigner{{secret}}.sign("msg_1", clock().now(), request.body);
    for (const std::string_view coding : request.headers.all("Content-Encoding")) {
      headers.add("Content-Encoding", std::string{coding});
    }
    request.headers = std::move(headers);
    return WebhookIntake{std::move(endpoints), intake_options()}.handle(request);
  }

  [[nodiscard]] std::string passed() {
    return R"("expirytime":")" + Timestamp{clock().now() - 1s}.str() + "\"";
  }
  static std::string envelope(const std::string& id, const std::string& more) {
    return R"({"specversion":"1.0","id":")" + id + R"(","source":"/shop","type":"order.v2",)" +
           more + R"(,"data":1})";
  }
  static HttpRequest in_envelope(std::string body, const std::string& batch = "") {
    return {.target = "/v1/events",
            .headers = {{"Content-Type", "application/cloudevents" + batch + "+json"}},
            .body = std::move(body)};
  }
  HttpRequest in_headers() {
    return {.target = "/v1/events",
            .headers = {{"ce-specversion", "1.0"},
                        {"ce-id", "e1"},
                        {"ce-source", "/shop"},
                        {"ce-type", "order.v2"},
                        {"Content-Type", "application/json"}},
            .body = R"({"type":"contact.created"})"};
  }
  void expect_nothing_stored() {
    EXPECT_EQ(count_messages(), "0");
    EXPECT_TRUE(outbox().claim(worker_a).empty());
  }
};

TEST_P(EventRefusals, an_event_whose_expirytime_has_passed_gets_in_nowhere) {
  inbox(), outbox();
  HttpRequest binary = in_headers();
  binary.headers.add("ce-expirytime", Timestamp{clock().now() - 1s}.str());
  const HttpRequest structured = in_envelope(envelope("e1", passed()));
  for (const HttpRequest& request : {binary, structured}) {
    for (const HttpResponse& answer :
         {accept(request), accept_named(request), handle_inline(request), enqueue(request)}) {
      EXPECT_EQ(answer.status, 400) << answer.body;
      EXPECT_NE(answer.body.find("expirytime"), std::string::npos) << answer.body;
    }
    EXPECT_EQ(deliver(request).body, R"({"status":"DROP"})");
  }
  const std::string good = envelope("e2", R"("subject":"s")");
  EXPECT_EQ(accept(in_envelope("[" + good + "," + envelope("e1", passed()) + "]", "-batch")).status,
            400);
  expect_nothing_stored();
  EXPECT_EQ(accept(in_envelope("[" + good + "]", "-batch")).status, 202);
}

TEST_P(EventRefusals, an_encoded_body_gets_in_nowhere) {
  inbox(), outbox();
  HttpRequest event = in_headers();
  event.headers.add("Content-Encoding", "gzip");
  for (const HttpResponse& answer :
       {accept(event), accept_named(event), handle_inline(event), enqueue(event),
        take_webhook(event),
        enqueue({.target = {}, .headers = {{"Content-Encoding", "gzip"}}, .body = "x"})}) {
    EXPECT_EQ(answer.status, 415) << answer.body;
    EXPECT_EQ(answer.headers.find("Accept-Encoding"), "identity");
  }
  expect_nothing_stored();
  EXPECT_EQ(take_webhook(in_headers()).status, 202) << "without an encoding";
}

TWINBOX_ON_EVERY_BACKEND(EventRefusals);

}  // namespace
}  // namespace twinbox::test
