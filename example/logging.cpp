// Log events in a logger of spdlog. Without Environment::log, warnings and errors go to stderr.
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <stdexcept>

#include <twinbox/dispatcher.hpp>
#include <twinbox/outbox.hpp>
#include <twinbox/spdlog.hpp>

int main() {
  using namespace twinbox;

  const auto logger = spdlog::stdout_logger_mt("twinbox");
  logger->set_pattern("[%l] %v");
  Database database{"sqlite::memory:", {}, {.log = log_to_spdlog(logger)}};
  Outbox outbox{database, {.deploy_schema = true}};

  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [](const Message&) { throw std::runtime_error("no stock"); });
  outbox.enqueue({.topic = Topic{"order.placed"}, .payload = R"({"order":7})"});
  Dispatcher{outbox, handlers}.step();  // [error] handler_error … error="no stock"
}
