// Webhooks in, without a server: a request is verified, accepted once, and handled once.
#include <iostream>

#include <twinbox/dispatcher.hpp>
#include <twinbox/webhook.hpp>

int main() {
  using namespace twinbox;

  Environment environment;
  environment.log_level = LogLevel::warning;
  environment.log = [](const LogEvent& event) {
    std::cout << "log: " << event.name;
    for (const LogField& field : event.fields) {
      if (const auto* text = std::get_if<std::string_view>(&field.value)) {
        std::cout << " " << field.name << "=" << *text;
      }
    }
    std::cout << "\n";
  };
  Database database{"sqlite::memory:", {}, environment};
  Inbox inbox{database, {.deploy_schema = true}};

  // Both secrets are good while the sender changes from one to the other.
  const std::string old_secret = make_webhook_secret();
  const std::string new_secret = make_webhook_secret();
  const WebhookIntake intake{{{.name = "crm",
                               .scheme = StandardWebhooks{},
                               .secrets = {new_secret, old_secret},
                               .accept = accept_into(inbox)}},
                             {.environment = environment}};

  // What your HTTP server hands over, and what it sends back.
  const auto post = [&](const HttpRequest& request) {
    const HttpResponse answer = intake.handle(request);
    std::cout << answer.status << " " << answer.body << "\n";
  };

  HttpRequest request{.target = "/webhooks/crm", .body = R"({"type":"contact.created"})"};
  const auto now = std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
  request.headers = WebhookSigner{{old_secret}}.sign("msg_1", now, request.body);
  post(request);  // 202: accepted, durable
  post(request);  // 200: known already

  Handlers handlers;
  handlers.on(Topic{"contact.created"},
              [](const Message& message) { std::cout << "handled " << message.id.view() << "\n"; });
  Dispatcher{inbox, std::move(handlers)}.drain();

  request.body += " ";
  post(request);  // 401: somebody touched it
}
