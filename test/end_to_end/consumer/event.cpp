#include <twinbox/event_bus.hpp>

int main() {
  using namespace twinbox;
  Database database{"sqlite::memory:"};
  Outbox outbox{database, {.deploy_schema = true}};
  int handled = 0;
  EventHandlers handlers;
  handlers.on({"order.placed", 1},
              [&](const CloudEvent& event) { handled += event.data == "[42]"; });
  CloudEvent event{.id = "1", .source = "/shop", .type = "order.placed.v1"};
  event.set_data("[42]");
  EventBus{outbox}.publish(event);
  Dispatcher{outbox, handlers.handlers()}.drain();
  return handled == 1 ? 0 : 1;
}
