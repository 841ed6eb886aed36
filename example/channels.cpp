// One message, several handlers: each has its own delivery, its own retries and its own end.
#include <charconv>
#include <iostream>
#include <stdexcept>
#include <string>

#include <twinbox/channel.hpp>

/// What the payload `{"order":7}` says. A real program lets its JSON library do this.
struct Order {
  int number = 0;

  static Order from_payload(std::string_view payload) {
    constexpr std::string_view begin = "{\"order\":";
    Order order;
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

  Environment environment;
  environment.log_level = LogLevel::warning;
  environment.log = [](const LogEvent& event) { std::cout << "log: " << event.name << "\n"; };
  Database database{"sqlite::memory:", {}, environment};
  Inbox inbox{database, per_handler_box({.deploy_schema = true})};

  int stock = 0;
  Channels channels{{.without_inbox = WithoutInbox::warn}, environment};
  channels.add("orders.events")
      .from(Source{"shop"})
      .uses(inbox)
      .on(Topic{"order.placed"}, HandlerKey{"stock"}, typed<Order>([&](const Order& order) {
            if (++stock == 1) throw std::runtime_error("the warehouse is closed");
            std::cout << "stock: order " << order.number << " reserved\n";
          }))
      .on(Topic{"order.placed"}, HandlerKey{"mail"}, typed<Order>([](const Order& order) {
            std::cout << "mail: order " << order.number << " confirmed\n";
          }),
          {.legacy_keys = {HandlerKey{"confirmation"}}});
  channels.add("screens").allow_without_inbox().on(
      Topic{"order.placed"}, [](const Message&) { std::cout << "screen: a new order\n"; });
  channels.check();  // at start-up: every problem in one error

  const Arrival arrival{Source{"shop"}, MessageId{"evt_1"}, Topic{"order.placed"},
                        R"({"order":7})"};
  channels.accept(arrival);  // committed: now the sender may forget it

  Dispatcher dispatcher{inbox, channels.handlers_of(inbox), per_handler_dispatcher()};
  dispatcher.drain();  // the warehouse fails and waits for its retry; the mail is out
  std::cout << "the message is " << to_string(*inbox.state(arrival.key())) << "\n";
}
