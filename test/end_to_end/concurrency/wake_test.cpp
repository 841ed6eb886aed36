// A dispatcher that would not look for an hour is woken by another process.
#include <condition_variable>
#include <fcntl.h>
#include <filesystem>
#include <mutex>
#include <set>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "end_to_end/concurrency/role.hpp"
#include "end_to_end/concurrency/shared_store.hpp"
#include <twinbox/dispatcher.hpp>

namespace twinbox::test {
namespace {

/// The messages that a dispatcher has handled.
class Handled {
 public:
  void add(const Message& message) {
    {
      const std::scoped_lock lock{mutex_};
      ids_.insert(message.id.str());
    }
    changed_.notify_all();
  }
  [[nodiscard]] bool wait_for(std::size_t count) {
    std::unique_lock lock{mutex_};
    return changed_.wait_for(lock, 60s, [&] { return ids_.size() >= count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::string> ids_;
};

class WakeUp : public ::testing::TestWithParam<Backend> {
 protected:
  static void enqueue_elsewhere(const TestStore& test_store, std::uint64_t seed, int messages) {
    enqueue_elsewhere(test_store.address(), test_store.schema(), seed, messages);
  }

  /// Enqueues from a process of its own, and waits for its end.
  static void enqueue_elsewhere(const std::string& address, const std::string& schema,
                                std::uint64_t seed, int messages) {
    const auto log = std::filesystem::temp_directory_path() / ("wake_" + std::to_string(getpid()));
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    const pid_t process = start_role({.role = Role::enqueuer,
                                      .address = address,
                                      .schema = schema,
                                      .log = log.string(),
                                      .seed = seed,
                                      .messages = messages},
                                     nothing, nothing);
    int status = -1;
    EXPECT_EQ(waitpid(process, &status, 0), process);
    EXPECT_EQ(status, 0);
    close(nothing);
    std::filesystem::remove(log);
  }
};

TEST_P(WakeUp, PHD_28_reaches_a_dispatcher_in_another_process) {
  const TestStore test_store(GetParam());
  Database database(test_store.address());
  BoxOptions options;
  options.schema = test_store.schema();
  options.deploy_schema = true;
  Outbox outbox(database, options);
  Handled handled;
  Handlers handlers;
  handlers.on(Topic{"campaign"}, [&](const Message& message) { handled.add(message); });
  Dispatcher dispatcher(outbox, handlers, {.poll_interval = 1h});
  std::jthread running{[&](const std::stop_token& stop) { dispatcher.run(stop); }};
  outbox.enqueue({.topic = Topic{"campaign"}, .payload = "content"});
  ASSERT_TRUE(handled.wait_for(1)) << "it runs";
  std::size_t expected = 1;
  for (std::uint64_t round = 1; round <= 3; ++round) {
    enqueue_elsewhere(test_store, round, 1);
    ASSERT_TRUE(handled.wait_for(expected += 1)) << "a single one, round " << round;
    enqueue_elsewhere(test_store, 100 + round, 50);
    ASSERT_TRUE(handled.wait_for(expected += 50)) << "many, round " << round;
  }
}

// On SQL Server nobody is told what other processes commit.
TWINBOX_ON_BACKENDS(WakeUp, Backend::sqlite_file, Backend::postgres);

class ManyFiles : public WakeUp {};

/// Twelve files, and connections to watch two of them.
TEST_P(ManyFiles, PHD_28_reaches_the_dispatcher_from_every_file_of_a_set) {
  constexpr std::size_t count = 12;
  std::vector<std::unique_ptr<TestStore>> places;
  std::vector<StoreDefinition> stores;
  for (std::size_t i = 0; i < count; ++i) {
    places.push_back(std::make_unique<TestStore>(GetParam()));
    stores.push_back({.name = "store_" + std::to_string(i), .address = places.back()->address()});
    Database database(places.back()->address());
    Outbox(database, {.deploy_schema = true});
  }
  DatabaseSet set(stores, {.connections_to_files = 8});
  Handled handled;
  Handlers handlers;
  handlers.on(Topic{"campaign"}, [&](const Message& message) { handled.add(message); });
  Dispatcher dispatcher(set, BoxKind::outbox, handlers, {.poll_interval = 1h});
  std::jthread running{[&](const std::stop_token& stop) { dispatcher.run(stop); }};
  // Each look at an empty store is the last one for an hour.
  for (std::size_t round = 1; round <= count; ++round) {
    const TestStore& test_store = *places[round - 1];
    enqueue_elsewhere(test_store.address(), test_store.schema(), round, 1);
    ASSERT_TRUE(handled.wait_for(round)) << "store " << round;
  }
}

TWINBOX_ON_BACKENDS(ManyFiles, Backend::sqlite_file);

/// The stores that the dispatcher listens to, as the log names them.
class Listening {
 public:
  void write(const LogEvent& event) {
    if (event.name != "watch") return;
    const std::scoped_lock lock{mutex_};
    for (const auto& field : event.fields) {
      if (field.name == "store") last_ = std::get<std::string_view>(field.value);
    }
  }
  std::string last() {
    const std::scoped_lock lock{mutex_};
    return last_;
  }

 private:
  std::mutex mutex_;
  std::string last_;
};

class ManySchemas : public WakeUp {};

/// Four stores on one server, and one connection to listen with: a quarter of seven.
TEST_P(ManySchemas, hand_the_listening_connection_to_the_store_in_which_work_is_found) {
  constexpr std::size_t count = 4;
  std::vector<std::unique_ptr<TestStore>> places;
  std::vector<StoreDefinition> stores;
  for (std::size_t i = 0; i < count; ++i) {
    places.push_back(std::make_unique<TestStore>(GetParam()));
    BoxOptions options;
    options.schema = places.back()->schema();
    options.deploy_schema = true;
    stores.push_back({.name = "store_" + std::to_string(i),
                      .address = places.back()->address(),
                      .outbox = options,
                      .inbox = options});
  }
  Listening listening;
  DatabaseSet set(stores, {.connections_per_server = 7},
                  {.log = [&](const LogEvent& event) { listening.write(event); },
                   .log_level = LogLevel::debug});
  for (const StoreDefinition& store : stores) set.find(store.name)->outbox();
  Handled handled;
  Handlers handlers;
  handlers.on(Topic{"campaign"}, [&](const Message& message) { handled.add(message); });
  Dispatcher dispatcher(set, BoxKind::outbox, handlers,
                        {.poll_interval = 20ms, .housekeeping = std::nullopt});
  std::jthread running{[&](const std::stop_token& stop) { dispatcher.run(stop); }};
  std::uint64_t messages = 0;
  const auto end = std::chrono::steady_clock::now() + 120s;
  for (std::size_t round = 0; round < 2 * count; ++round) {
    const std::size_t store = round % count;
    while (listening.last() != stores[store].name) {
      ASSERT_LT(std::chrono::steady_clock::now(), end)
          << stores[store].name << " is polled, and " << listening.last() << " has the connection";
      ++messages;
      enqueue_elsewhere(places[store]->address(), places[store]->schema(), messages, 1);
      ASSERT_TRUE(handled.wait_for(messages)) << stores[store].name;
    }
  }
}

TWINBOX_ON_BACKENDS(ManySchemas, Backend::postgres);

}  // namespace
}  // namespace twinbox::test
