#include <twinbox/sink.hpp>

int main() {
  using namespace twinbox;
  using namespace std::chrono_literals;
  Database database{"sqlite::memory:"};
  Outbox outbox{database, {.deploy_schema = true}};
  outbox.enqueue({.topic = Topic{"order.placed"}, .payload = "[42]"});
  const auto client = std::make_shared<HttpClient>();
  Handlers handlers;
  // Not allowed: the address is private, and no network is needed to find that out.
  handlers.add(Topic{"order.placed"}, {http_sink(client, {.url = "http://127.0.0.1:1/"}), {}});
  Dispatcher{outbox, handlers}.step();
  return outbox.claim(OwnerToken::make({}), 1s, 1).empty() ? 0 : 1;
}
