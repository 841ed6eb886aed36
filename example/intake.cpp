// HTTP requests into an inbox, without a server: a built-in intake, an event that is handled within
// its request, and an endpoint of your own.
#include <iostream>

#include <twinbox/event_bus.hpp>
#include <twinbox/intake.hpp>

int main() {
  using namespace twinbox;

  Database database{"sqlite::memory:"};
  Inbox inbox{database, {.deploy_schema = true}};
  bool stored = true;
  const auto show = [&](const HttpResponse& answer) {
    std::cout << answer.status << " " << answer.body << "\n";
    stored = stored && answer.status < 300;
  };

  HttpRequest request{.target = "/v1/inbox/shop/order.placed", .body = R"({"order":7})"};
  request.headers.add("Idempotency-Key", "order-7");
  InboxIntake intake{accept_into(inbox)};
  HttpResponse answer = intake.handle(request);  // POST /v1/inbox/shop/order.placed
  show(answer);

  EventHandlers handlers;
  handlers.on(EventName{"order.placed", 2},
              [](const CloudEvent& event) { std::cout << "handled " << event.id << "\n"; });
  NamedEventIntake events{handlers.names(), inline_mode(inbox, handlers.handlers())};
  HttpRequest event{.target = "/events/order.placed/v2", .body = R"({"order":8})"};
  event.headers.add("ce-specversion", "1.0");
  event.headers.add("ce-id", "order-8");
  event.headers.add("ce-source", "/shop");
  event.headers.add("ce-type", "order.placed.v2");
  event.headers.add("Content-Type", "application/json");
  show(events.handle(event));

  const AcceptCall accept = accept_into(inbox);
  const IntakeOptions options;
  const auto orders = [&](const HttpRequest& post) {
    return response_or_problem(options, "accept", [&] {
      const auto pieces = path_segments(post, "/shop/orders", 1);  // 404, 400
      require_post(post, options);                                 // 405, 413, 415
      return accept_and_respond(accept, {.source = Source{"shop"},
                                         .id = MessageId{pieces[0]},
                                         .topic = Topic{"order.placed"},
                                         .payload = post.body,
                                         .extras = extras_of(post, options)});
    });
  };
  show(orders({.target = "/shop/orders/9", .body = R"({"order":9})"}));
  return stored ? 0 : 1;
}
