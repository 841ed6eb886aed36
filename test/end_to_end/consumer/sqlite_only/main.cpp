#include <stdexcept>
#include <string_view>

#include <twinbox/outbox.hpp>

// Before main(): the driver is there however early a database is opened.
const twinbox::Database database{"sqlite::memory:"};

int main() {
  using namespace twinbox;
  Database shop{"sqlite::memory:"};
  Outbox outbox{shop, {.deploy_schema = true}};
  outbox.enqueue({.topic = Topic{"order.placed"}, .payload = "[42]"});
  try {
    Database{"postgresql://shop@localhost/shop"};
  } catch (const std::invalid_argument& error) {
    return std::string_view{error.what()}.find("link twinbox::twinbox or twinbox::postgres") ==
                   std::string_view::npos
               ? 1
               : 0;
  }
  return 2;
}
