// What was sent once and comes again.
#include "support/inbox_test.hpp"
#include <twinbox/dispatcher.hpp>
#include <twinbox/webhook.hpp>

namespace twinbox::test {
namespace {

class WebhookReplay : public InboxTest {
 protected:
  WebhookIntake intake() {
    std::vector<WebhookEndpoint> endpoints;
    endpoints.push_back({.name = "crm",
                         .scheme = StandardWebhooks{},
                         .secrets = {secret_},
                         .accept = accept_into(inbox())});
    return WebhookIntake{std::move(endpoints), {.environment = environment()}};
  }
  HttpRequest a_webhook(std::string_view id = "msg_1") {
    HttpRequest request{.target = "/webhooks/crm",
                        .body = R"({"type":"contact.created","mark":")" + payload() + "\"}"};
    request.headers = WebhookSigner{{secret_}}.sign(id, clock().now(), request.body);
    return request;
  }

  const std::string secret_ = make_webhook_secret();
};

TEST_P(WebhookReplay, EVB_12_a_replay_answers_success_and_is_not_handled_twice) {
  int handled = 0;
  Handlers handlers;
  handlers.on(Topic{"contact.created"}, [&](const Message&) { ++handled; });
  Dispatcher dispatcher{inbox(), std::move(handlers)};
  const HttpRequest request = a_webhook();
  EXPECT_EQ(intake().handle(request).status, 202);
  dispatcher.drain();
  const HttpResponse again = intake().handle(request);
  EXPECT_EQ(again.status, 200);
  EXPECT_EQ(again.body,
            R"({"state":"duplicate_done","source":"crm","id":"msg_1","conflict":false})");
  clock().advance(1min);
  EXPECT_EQ(intake().handle(a_webhook()).status, 200) << "sent again, signed again";
  dispatcher.drain();
  EXPECT_EQ(handled, 1);
}

TEST_P(WebhookReplay, the_first_content_of_an_id_stays) {
  EXPECT_EQ(intake().handle(a_webhook()).status, 202);
  HttpRequest other = a_webhook();
  other.body = R"({"type":"contact.removed"})";
  other.headers = WebhookSigner{{secret_}}.sign("msg_1", clock().now(), other.body);
  EXPECT_EQ(intake().handle(other).body,
            R"({"state":"duplicate_open","source":"crm","id":"msg_1","conflict":true})");
  const auto messages = inbox().claim(worker_a);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].topic, Topic{"contact.created"});
  EXPECT_EQ(messages[0].payload, a_webhook().body);
}

TEST_P(WebhookReplay, a_replay_past_the_tolerance_is_refused) {
  const HttpRequest request = a_webhook();
  clock().advance(5min + 1s);
  EXPECT_EQ(intake().handle(request).status, 401);
  EXPECT_EQ(count_messages(), "0");
}

TEST_P(WebhookReplay, a_captured_signature_vouches_for_no_other_id) {
  HttpRequest request = a_webhook();
  request.headers.set("webhook-id", "msg_2");
  EXPECT_EQ(intake().handle(request).status, 401);
  EXPECT_EQ(count_messages(), "0");
}

TWINBOX_ON_EVERY_BACKEND(WebhookReplay);

}  // namespace
}  // namespace twinbox::test
