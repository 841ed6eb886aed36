// Messages go to receivers by their topic: routes and sinks.
#include <iostream>

#include <twinbox/dispatcher.hpp>
#include <twinbox/outbox.hpp>
#include <twinbox/sink.hpp>
#include <twinbox/webhook.hpp>

int main() {
  using namespace twinbox;

  Environment environment;
  environment.log = [](const LogEvent& event) { std::cout << "log: " << event.name << "\n"; };
  Database database{"sqlite::memory:"};
  Outbox outbox{database, {.deploy_schema = true}};
  const std::string secret = make_webhook_secret();

  auto client = std::make_shared<HttpClient>();
  Routes routes{{
      {.name = "billing",
       .pattern = TopicPattern{"order.*"},
       .sink = http_sink(client, {.url = "https://billing.example.com/hooks", .secrets = {secret}}),
       .options = {.retry = RetryPolicy::event_bus()}},
      {.name = "rest", .pattern = TopicPattern{"#"}, .sink = log_sink(environment)},
  }};
  Dispatcher dispatcher{outbox, routes.handlers()};

  outbox.enqueue({.topic = Topic{"mail.sent"}, .payload = "{}"});
  dispatcher.drain();
  for (const RouteStatus& route : routes.status()) {
    std::cout << route.name << ": " << route.done << " delivered\n";
  }
}
