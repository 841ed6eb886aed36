// Messages as types of your own, described by Boost.Describe, written and read by Boost.JSON.
#include <boost/describe.hpp>
#include <iostream>
#include <string>

#include <twinbox/boost_json.hpp>
#include <twinbox/dispatcher.hpp>
#include <twinbox/outbox.hpp>
#include <twinbox/testing.hpp>

struct Order {
  static constexpr std::string_view topic = "order.placed";
  int number = 0;
  std::string customer;
};
BOOST_DESCRIBE_STRUCT(Order, (), (number, customer))

int main() {
  using namespace twinbox;

  Database database{"sqlite::memory:"};
  Outbox outbox{database, {.deploy_schema = true}};
  outbox.enqueue(Order{7, "Ann"}, {.partition_key = PartitionKey{"Ann"}});
  std::cout << enqueued(outbox, Topic{"order.placed"}).at(0).payload << "\n";

  Handlers handlers;
  handlers.on<Order>(Topic{"order.placed"}, [](const Order& order) {
    std::cout << "confirmed: order " << order.number << " of " << order.customer << "\n";
  });
  const std::size_t handled = Dispatcher{outbox, std::move(handlers)}.drain();
  return handled == 1 ? 0 : 1;
}
