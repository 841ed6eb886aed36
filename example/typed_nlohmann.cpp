// Messages as types of your own, written and read by nlohmann::json.
#include <iostream>
#include <string>

#include <twinbox/dispatcher.hpp>
#include <twinbox/nlohmann_json.hpp>
#include <twinbox/outbox.hpp>

struct Order {
  static constexpr std::string_view topic = "order.placed";
  int number = 0;
  std::string customer;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Order, number, customer)
};

int main() {
  using namespace twinbox;

  Database database{"sqlite::memory:"};
  Outbox outbox{database, {.deploy_schema = true}};
  database.in_transaction([&](Session& session) {
    session.execute("create table confirmed (number integer)");
    outbox.enqueue(session, Order{7, "Ann"});
  });

  Handlers handlers;
  handlers.on<Order>(Topic{"order.placed"}, [](Session& session, const Order& order) {
    session.execute("insert into confirmed values (@number)", {{"number", order.number}});
    std::cout << "confirmed: order " << order.number << " of " << order.customer << "\n";
  });
  const std::size_t handled = Dispatcher{outbox, std::move(handlers)}.drain();
  return handled == 1 ? 0 : 1;
}
