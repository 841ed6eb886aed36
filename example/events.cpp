// An order is written and told about in one transaction; the trace goes on in the handler.
#include <charconv>
#include <iostream>
#include <stdexcept>
#include <string>

#include <twinbox/event_bus.hpp>

/// A real program lets its JSON library do this.
struct OrderPlaced {
  int number = 0;

  static twinbox::EventName event_name() { return {"order.placed", 1}; }
  [[nodiscard]] std::string to_payload() const {
    return "{\"order\":" + std::to_string(number) + "}";
  }
  static OrderPlaced from_payload(std::string_view payload) {
    constexpr std::string_view begin = "{\"order\":";
    OrderPlaced order;
    if (!payload.starts_with(begin)) throw std::invalid_argument("no order");
    const char* digits = payload.data() + begin.size();
    if (std::from_chars(digits, payload.data() + payload.size(), order.number).ec != std::errc{}) {
      throw std::invalid_argument("an order without a number");
    }
    return order;
  }
};

int main() {
  using namespace twinbox;

  Database database{"sqlite::memory:"};
  Outbox outbox{database, {.deploy_schema = true}};
  database.in_transaction(
      [](Session& session) { session.execute("create table purchase (amount integer)"); });

  EventHandlerOptions handling;
  handling.tracing.observer = [](const HandlerSpan& span) {
    std::cout << "span of " << span.message.topic.str() << ", "
              << (span.parent ? "child of the publisher's" : "first of its trace") << "\n";
  };
  EventHandlers handlers{handling};
  handlers.on<OrderPlaced>({"order.placed", 1},
                           [](const OrderPlaced& order, const Message& message) {
                             std::cout << "order " << order.number << " of tenant "
                                       << property_of(message, "tenant").value_or("?") << "\n";
                           });

  EventBus bus{outbox, {.source = "/shop"}};
  try {
    bus.in_transaction([](UnitOfWork& unit) {
      unit.session().execute("insert into purchase values (1)");
      unit.publish(OrderPlaced{1});
      throw std::runtime_error("the card was declined");
    });
  } catch (const std::runtime_error& error) {
    std::cout << "order 1: " << error.what() << ", nothing is written\n";
  }

  const TraceScope request{TraceContext::start({})};  // a web server has it from its request
  bus.in_transaction([](UnitOfWork& unit) {
    unit.session().execute("insert into purchase values (42)");
    unit.publish(OrderPlaced{2}, {.properties = R"({"tenant":"north"})"});
  });

  const std::size_t handled = Dispatcher{outbox, handlers.handlers()}.drain();
  std::cout << handled << " event handled\n";
  return handled == 1 ? 0 : 1;
}
