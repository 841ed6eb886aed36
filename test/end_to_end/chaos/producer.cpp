// Commits messages, and writes down which: intended before, committed once the commit has returned.
#include <array>
#include <atomic>
#include <exception>
#include <mutex>
#include <random>
#include <thread>
#include <unistd.h>
#include <vector>

#include "end_to_end/chaos/ledger.hpp"
#include "end_to_end/chaos/role.hpp"

namespace twinbox::chaos {
namespace {

using namespace std::chrono_literals;

/// The caller's own reason to roll back.
struct ChangedMind {};

class ProducerThread {
 public:
  ProducerThread(const RoleOptions& options, int index, Database& database, Outbox& outbox,
                 const Ledger& ledger)
      : name_(options.name + "." + std::to_string(index)),
        order_("insert into " + options.store.table("chaos_order") +
               " (id) values (@id) on conflict do nothing"),
        chance_(options.seed * 1000 + static_cast<std::uint64_t>(index)),
        database_(database),
        outbox_(outbox),
        ledger_(ledger) {}

  void act() {
    const auto way = chance_() % 10;
    if (way < 5) return commit({next(true)});
    if (way < 6) return commit({next(true), next(true), next(true)});
    const NewMessage message = next(false);
    way < 9 ? commit_beside_an_order(message) : roll_back(message);
  }

  std::mt19937_64& chance() { return chance_; }

 private:
  NewMessage next(bool ordinary) {
    constexpr std::array<Plan::Topic, 8> mix{Plan::Topic::plain,         Plan::Topic::plain,
                                             Plan::Topic::plain,         Plan::Topic::batch,
                                             Plan::Topic::transactional, Plan::Topic::transactional,
                                             Plan::Topic::once,          Plan::Topic::plain};
    Plan plan{.topic = mix[chance_() % mix.size()], .ordinary = ordinary};
    const auto end = chance_() % 40;
    if (end < 4 && plan.topic != Plan::Topic::once) plan.end = Plan::End::retry;
    if (end == 4) plan.end = Plan::End::dead;
    plan.ordered = plan.topic != Plan::Topic::once && chance_() % 4 == 0;
    const std::string id = plan.id(name_, ++last_);
    NewMessage message{.topic = Topic{std::string{topics[static_cast<std::size_t>(plan.topic)]}},
                       .payload = work_time(plan.topic),
                       .id = MessageId{id}};
    if (plan.ordered) message.extras.partition_key = PartitionKey{name_};
    ledger_.write("intend " + id);
    return message;
  }

  /// How long the handler works: mostly short, now and then a good part of a lease. In a
  /// transaction it keeps the others from a SQLite file.
  std::string work_time(Plan::Topic topic) {
    const auto kind = chance_() % 50;
    if (topic == Plan::Topic::transactional) return std::to_string(chance_() % (kind < 5 ? 50 : 5));
    if (kind == 0) return std::to_string(300 + chance_() % 700);
    return std::to_string(kind < 15 ? 20 + chance_() % 200 : chance_() % 5);
  }

  void commit(const std::vector<NewMessage>& messages) {
    until_settled([&] {
      if (messages.size() == 1) {
        outbox_.enqueue(messages[0]);
      } else {
        outbox_.enqueue(messages);
      }
    });
    for (const NewMessage& message : messages) ledger_.write("commit " + message.id->str());
  }

  void commit_beside_an_order(const NewMessage& message) {
    until_settled([&] {
      database_.in_transaction([&](Session& session) {
        session.execute(order_, {{"id", message.id->str()}});
        outbox_.enqueue(session, message);
      });
    });
    ledger_.write("commit " + message.id->str());
  }

  void roll_back(const NewMessage& message) {
    try {
      database_.in_transaction([&](Session& session) {
        session.execute(order_, {{"id", message.id->str()}});
        outbox_.enqueue(session, message);
        throw ChangedMind{};
      });
    } catch (const ChangedMind&) {
    } catch (const DatabaseError& error) {
      note(error);
    }
    ledger_.write("roll_back " + message.id->str());
  }

  /// The same ids again are harmless: that is how a commit in doubt is settled.
  template <class F>
  void until_settled(const F& call) {
    for (;;) {
      try {
        return call();
      } catch (const DatabaseError& error) {
        note(error);
        std::this_thread::sleep_for(20ms);
      }
    }
  }

  void note(const DatabaseError& error) {
    ledger_.write("error " + std::string{to_string(error.kind())});
  }

  std::string name_;
  std::string order_;
  std::mt19937_64 chance_;
  Database& database_;
  Outbox& outbox_;
  const Ledger& ledger_;
  int last_ = 0;
};

}  // namespace

void produce(const RoleOptions& options) {
  const Ledger ledger(options.ledger);
  DatabaseOptions pool;
  pool.pool_size = static_cast<std::size_t>(options.pool_size);
  Database database(options.store.address, pool);
  std::unique_ptr<Outbox> outbox;
  while (!outbox) {
    try {
      outbox = std::make_unique<Outbox>(database, options.store.box());
    } catch (const DatabaseError&) {
      std::this_thread::sleep_for(50ms);
    }
  }
  std::atomic<bool> ending = false;
  std::exception_ptr trouble;
  std::mutex mutex;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < options.threads; ++i) {
      threads.emplace_back([&, i] {
        ProducerThread thread(options, i, database, *outbox, ledger);
        try {
          while (!ending) {
            thread.act();
            std::this_thread::sleep_for(std::chrono::milliseconds{10 + thread.chance()() % 40});
          }
        } catch (...) {
          const std::lock_guard lock(mutex);
          trouble = std::current_exception();
        }
      });
    }
    char byte = 0;
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
    ending = true;
  }
  if (trouble) std::rethrow_exception(trouble);
}

}  // namespace twinbox::chaos
