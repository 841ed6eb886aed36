// Runs a real dispatcher whose handlers write down each call, before and after.
#include <iostream>
#include <mutex>
#include <sstream>
#include <thread>
#include <unistd.h>
#include <vector>

#include "end_to_end/chaos/ledger.hpp"
#include "end_to_end/chaos/role.hpp"
#include <twinbox/dispatcher.hpp>

namespace twinbox::chaos {
namespace {

using namespace std::chrono_literals;

/// Warnings and errors, for whoever looks for the reason of a failure.
void log_to_stderr(const LogEvent& event) {
  std::ostringstream line;
  line << now() << ' ' << event.name;
  for (const LogField& field : event.fields) {
    line << ' ' << field.name << '=';
    std::visit([&](const auto& value) { line << value; }, field.value);
  }
  line << '\n';
  std::cerr << line.str();
}

class Bookkeeper {
 public:
  Bookkeeper(const Ledger& ledger, const Store& store)
      : ledger_(ledger),
        effect_("insert into " + store.table("chaos_effect") +
                " (id, epoch) values (@id, @epoch)") {}

  [[nodiscard]] Handlers handlers() const {
    Handlers handlers;
    handlers.on(Topic{"plain"}, [this](const Message& message) { return handle(message); });
    handlers.on(Topic{"once"}, [this](const Message& message) { return handle(message); },
                {.at_most_once = true});
    handlers.on(Topic{"transactional"}, [this](Session& session, const Message& message) {
      begin(message);
      session.execute(
          effect_, {{"id", message.id.str()}, {"epoch", static_cast<std::int64_t>(message.epoch)}});
      return end(message);
    });
    handlers.on_batch(Topic{"batch"},
                      [this](std::span<const Message> messages, const std::stop_token&) {
                        std::vector<Outcome> outcomes;
                        for (const Message& message : messages) begin(message);
                        for (const Message& message : messages) outcomes.push_back(end(message));
                        return outcomes;
                      },
                      {.max_batch = 5});
    return handlers;
  }

 private:
  Outcome handle(const Message& message) const {
    begin(message);
    return end(message);
  }

  void begin(const Message& message) const {
    std::ostringstream line;
    line << "begin " << message.id.str() << ' ' << message.delivery_id.number() << ' '
         << message.epoch << ' ' << micros(message.lease_until) << ' ' << now();
    ledger_.write(line.str());
  }

  Outcome end(const Message& message) const {
    std::this_thread::sleep_for(std::chrono::milliseconds{std::stoi(message.payload)});
    Plan::End answer = plan_of(message.id.str()).end;
    if (answer == Plan::End::retry && message.attempts > 0) answer = Plan::End::done;
    std::ostringstream line;
    line << "end " << message.id.str() << ' ' << message.epoch << ' ' << static_cast<int>(answer)
         << ' ' << now();
    ledger_.write(line.str());
    switch (answer) {
      case Plan::End::retry: return Outcome::retry("as planned");
      case Plan::End::dead: return Outcome::dead("as planned");
      case Plan::End::done: break;
    }
    return Outcome::done();
  }

  const Ledger& ledger_;
  std::string effect_;
};

/// Takes every connection of the pool and keeps it for a while.
void exhaust(Database& database, int pool_size) {
  // On SQLite they follow each other, and must not add up.
  const auto end = std::chrono::steady_clock::now() + exhaustion;
  std::vector<std::jthread> holders;
  for (int i = 0; i < pool_size; ++i) {
    holders.emplace_back([&] {
      try {
        database.in_transaction([&](Session&) { std::this_thread::sleep_until(end); });
      } catch (const DatabaseError&) {
        // Then somebody else has it, which is just as good.
      }
    });
  }
}

std::unique_ptr<Outbox> open(Database& database, const Store& store) {
  for (;;) {
    try {
      return std::make_unique<Outbox>(database, store.box());
    } catch (const DatabaseError&) {
      std::this_thread::sleep_for(50ms);
    }
  }
}

}  // namespace

void work(const RoleOptions& options) {
  const Ledger ledger(options.ledger);
  DatabaseOptions pool;
  pool.pool_size = static_cast<std::size_t>(options.pool_size);
  Environment environment;
  environment.log = log_to_stderr;
  environment.log_level = LogLevel::warning;
  Database database(options.store.address, pool, environment);
  const std::unique_ptr<Outbox> outbox = open(database, options.store);
  const Bookkeeper books(ledger, options.store);
  DispatchObserver observer;
  observer.lease_lost = [&](std::string_view, std::size_t count) {
    ledger.write("refused " + std::to_string(count));
  };
  observer.loop_error = [&](std::string_view, std::string_view) { ledger.write("loop_error"); };
  Dispatcher dispatcher(*outbox, books.handlers(), {.workers = options.threads, .lease = lease},
                        observer);
  ledger.write("owner " + dispatcher.owner().str());
  std::jthread running([&](const std::stop_token& stop) { dispatcher.run(stop); });
  char order = 0;
  while (read(STDIN_FILENO, &order, 1) > 0) {
    if (order == 'x') exhaust(database, options.pool_size);
  }
}

}  // namespace twinbox::chaos
