// Many writers, several dispatchers: what has the same key is handled in the order of its commits.
#include <condition_variable>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "end_to_end/concurrency/shared_store.hpp"
#include "support/race.hpp"
#include <twinbox/dispatcher.hpp>

namespace twinbox::test {
namespace {

constexpr int writers = 8;
constexpr int keys = 1000;
constexpr int messages_per_commit = 10;

int messages_in_all() {
  return std::getenv("TWINBOX_CAMPAIGN_SECONDS") == nullptr ? 10'000 : 100'000;
}

/// What each key's messages are in the order of their commits, and in which order they are handled.
class Orders {
 public:
  void committed(const std::string& key, std::int64_t test_store, const std::string& id) {
    const std::lock_guard lock(mutex_);
    committed_[key][test_store] = id;
  }
  void begins(const Message& message) {
    const std::lock_guard lock(mutex_);
    if (!running_.insert(message.partition_key->str()).second) ++overlaps_;
  }
  /// Ends the call that began last for the key.
  void ends(const Message& message, bool done) {
    const std::lock_guard lock(mutex_);
    running_.erase(message.partition_key->str());
    if (!done) return;
    handled_[message.partition_key->str()].push_back(message.id.str());
    ++count_;
    changed_.notify_all();
  }

  /// How many are handled once there are `expected`; a store that loses one ends by the limit.
  int wait_for(int expected) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, 10min, [&] { return count_ >= expected; });
    return count_;
  }
  [[nodiscard]] int overlaps() const { return overlaps_; }
  /// Messages that came at another place than that of their commit.
  [[nodiscard]] int inversions() const {
    int found = 0;
    for (const auto& [key, by_place] : committed_) {
      const auto handled = handled_.find(key);
      std::size_t i = 0;
      for (const auto& [test_store, id] : by_place) {
        const bool same =
            handled != handled_.end() && i < handled->second.size() && handled->second[i] == id;
        found += same ? 0 : 1;
        ++i;
      }
    }
    return found;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::map<std::int64_t, std::string>> committed_;
  std::map<std::string, std::vector<std::string>> handled_;
  std::set<std::string> running_;
  int overlaps_ = 0;
  int count_ = 0;
};

class Ordering : public ::testing::TestWithParam<Backend> {
 protected:
  Ordering() : database_(test_store_.address(), pool()), outbox_(database_, options()) {
    execute("create table " + table() + " (name text primary key, last bigint not null)");
  }

  BoxOptions options() {
    BoxOptions box;
    box.schema = test_store_.schema();
    box.deploy_schema = true;
    return box;
  }

  static DatabaseOptions pool() {
    DatabaseOptions options;
    options.pool_size = writers + 2;
    options.wait_timeout = 60s;
    return options;
  }

  /// Commits messages of several keys; their places in their keys are counted in the same
  /// transaction, once the messages are written: only the order of the commits makes them fit.
  void commit(std::mt19937_64& chance, const std::string& writer, int number) {
    std::set<std::string> chosen;
    while (chosen.size() < messages_per_commit)
      chosen.insert("k" + std::to_string(chance() % keys));
    std::vector<NewMessage> messages;
    for (const std::string& key : chosen) {
      NewMessage message = a_message();
      message.id = MessageId{writer + "_" + std::to_string(number) + "_" + key};
      message.extras.partition_key = PartitionKey{key};
      messages.push_back(message);
    }
    std::shuffle(messages.begin(), messages.end(), chance);
    const std::chrono::microseconds delay{chance() % 10 == 0 ? chance() % 5000 : 0};
    for (bool committed = false; !committed;) {
      std::map<std::string, std::int64_t> places;
      try {
        database_.in_transaction([&](Session& session) {
          outbox_.enqueue(session, messages);
          for (const std::string& key : chosen) places[key] = next_place(session, key);
          std::this_thread::sleep_for(delay);
        });
        committed = true;
      } catch (const DatabaseError& error) {
        if (!error.retryable()) throw;
      }
      if (!committed) continue;
      for (const NewMessage& message : messages) {
        const std::string& key = message.extras.partition_key->str();
        orders_.committed(key, places[key], message.id->str());
      }
    }
  }

  std::int64_t next_place(Session& session, const std::string& key) {
    std::int64_t test_store = 0;
    session.execute("insert into " + table() +
                        " as t (name, last) values (@name, 1) on conflict (name) do update set "
                        "last = t.last + 1 returning last",
                    {{"name", key}}, [&](const Row& row) { test_store = row.integer(0); });
    return test_store;
  }

  void execute(const std::string& sql) {
    database_.in_transaction([&](Session& session) { session.execute(sql); });
  }

  [[nodiscard]] std::string table() const {
    return (GetParam() == Backend::postgres ? "\"" + test_store_.schema() + "\"." : "") + "places";
  }

  /// Every twentieth message fails at first, and holds up its key until it succeeds.
  Handlers handlers() {
    Handlers handlers;
    handlers.on(a_message().topic, [this](const Message& message) {
      orders_.begins(message);
      const bool fails =
          message.attempts == 0 && std::hash<std::string>{}(message.id.str()) % 20 == 0;
      orders_.ends(message, !fails);
      return fails ? Outcome::retry("at first", 1ms) : Outcome::done();
    });
    return handlers;
  }

  TestStore test_store_{GetParam()};
  Database database_;
  Outbox outbox_;
  Orders orders_;
};

TEST_P(Ordering, messages_of_a_key_are_handled_in_the_order_of_their_commits) {
  const int expected = messages_in_all();
  Database second(test_store_.address(), pool());
  Outbox same(second, options());
  {
    std::vector<std::jthread> dispatchers;
    for (Outbox* outbox : {&outbox_, &outbox_, &same}) {
      dispatchers.emplace_back([this, outbox](const std::stop_token& stop) {
        Dispatcher(*outbox, handlers(), {.workers = 4, .lease = 300s}).run(stop);
      });
    }
    race(writers, [&](int writer) {
      std::mt19937_64 chance(std::random_device{}());
      for (int i = 0; i < expected / writers / messages_per_commit; ++i)
        commit(chance, "w" + std::to_string(writer), i);
    });
    EXPECT_EQ(orders_.wait_for(expected), expected);
  }
  EXPECT_EQ(orders_.inversions(), 0);
  EXPECT_EQ(orders_.overlaps(), 0) << "calls for the same key at the same time";
}

// SQL Server's stand-in would not let the writers of different keys go on beside each other.
TWINBOX_ON_BACKENDS(Ordering, Backend::sqlite_file, Backend::postgres);

}  // namespace
}  // namespace twinbox::test
