// A thousand SQLite files and fifty PostgreSQL databases in one process, within its budgets.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <random>
#include <thread>

#include "support/backend.hpp"
#include "support/process.hpp"
#include "support/race.hpp"
#include <twinbox/dispatcher.hpp>
#include <twinbox/stores.hpp>
#if TWINBOX_POSTGRES
#include "support/postgres.hpp"
#endif

namespace twinbox::test {
namespace {

constexpr int file_count = 1000;
constexpr int database_count = 50;
constexpr std::size_t to_files = 64;
constexpr std::size_t per_server = 20;
constexpr int thread_count = 8;

std::string unique(const std::string& word) {
  static const auto run = std::to_string(std::random_device{}());
  return word + "_" + run;
}

void deploy(const std::string& address) {
  Database database(address);
  const BoxOptions deployed{.deploy_schema = true};
  Outbox(database, deployed);
  Inbox(database, deployed);
}

/// Stores that are copies of one another, and how many connections lead to them.
class Copies {
 public:
  virtual ~Copies() = default;
  virtual StoreDefinition make(const std::string& name) = 0;
  virtual StoreDefinition make_dead(const std::string& name) = 0;
  /// Never more than `most`, whatever is going on.
  virtual std::size_t open() = 0;
  std::size_t most = 0;
  std::string word = {};
};

#if TWINBOX_SQLITE
class Files final : public Copies {
 public:
  Files() : folder_(std::filesystem::temp_directory_path() / unique("twinbox_many")) {
    // Descriptors of the file, its log and the log's index. Their list is no snapshot: each thread
    // may close a connection that was seen and open one that comes behind it.
    most = 3 * (to_files + thread_count);
    std::filesystem::create_directory(folder_);
    deploy("sqlite:" + file("template"));
  }
  ~Files() override { std::filesystem::remove_all(folder_); }

  StoreDefinition make(const std::string& name) override {
    std::filesystem::copy_file(file("template"), file(name));
    return {.name = name, .address = "sqlite:" + file(name)};
  }
  StoreDefinition make_dead(const std::string& name) override {
    return {.name = name, .address = "sqlite:" + file("no folder/" + name)};
  }
  std::size_t open() override { return open_files(folder_.string() + "/"); }

 private:
  [[nodiscard]] std::string file(const std::string& name) const { return folder_ / name; }

  std::filesystem::path folder_;
};
#endif

#if TWINBOX_POSTGRES
class Databases final : public Copies {
 public:
  Databases() : server_(test_setting("TWINBOX_TEST_POSTGRES")), prefix_(unique("many")) {
    most = per_server + thread_count;  // a server sees a moment later that one was closed
    create("template0", "template");
    deploy(make_dead("template").address);
  }
  ~Databases() override {
    // Each waits for a checkpoint; those that wait at once share one.
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < thread_count; ++i) {
      threads.emplace_back([this, i] {
        PgClient client(test_setting("TWINBOX_TEST_POSTGRES"));
        for (std::size_t j = i; j < made_.size(); j += thread_count) {
          client.run("drop database if exists " + made_[j] + " with (force)");
        }
      });
    }
  }

  StoreDefinition make(const std::string& name) override {
    create(prefix_ + "_template", name);
    return make_dead(name);
  }
  StoreDefinition make_dead(const std::string& name) override {
    const std::string server = test_setting("TWINBOX_TEST_POSTGRES");
    const std::string database = prefix_ + "_" + name;
    return {.name = name,
            .address = with_setting(server.substr(0, server.rfind('/') + 1) + database,
                                    "application_name=" + prefix_)};
  }
  std::size_t open() override {
    const std::scoped_lock lock{mutex_};
    return std::stoul(server_.value(
        "select count(*) from pg_stat_activity where application_name = '" + prefix_ + "'"));
  }

 private:
  void create(const std::string& from, const std::string& name) {
    made_.push_back(prefix_ + "_" + name);
    server_.run("create database " + made_.back() + " template " + from);
  }

  std::mutex mutex_;
  PgClient server_;
  std::string prefix_;
  std::vector<std::string> made_;
};
#endif

class ManyDatabases : public ::testing::Test {
 protected:
  ManyDatabases() {
    const auto here = backends();
    const auto has = [&](Backend one) {
      return std::find(here.begin(), here.end(), one) != here.end();
    };
#if TWINBOX_SQLITE
    if (has(Backend::sqlite_file)) add(std::make_unique<Files>(), "file_", file_count);
#endif
#if TWINBOX_POSTGRES
    if (has(Backend::postgres)) add(std::make_unique<Databases>(), "database_", database_count);
#endif
  }

  void SetUp() override {
    if (places.empty()) GTEST_SKIP() << "neither SQLite files nor PostgreSQL are tested";
  }

  void add(std::unique_ptr<Copies> copies, const std::string& word, int count) {
    for (int i = 0; i < count; ++i) found.push_back(copies->make(word + std::to_string(i)));
    copies->word = word;
    places.push_back(std::move(copies));
  }

  /// One message through each store, on several threads.
  void use_all(const DatabaseSet& set) {
    const StoreRouter router(set);
    const auto stores = set.stores();
    race(thread_count, [&](int thread) {
      const auto worker = OwnerToken::make({});
      for (std::size_t i = static_cast<std::size_t>(thread); i < stores.size(); i += thread_count) {
        if (stores[i]->name().starts_with("dead")) {
          EXPECT_THROW(stores[i]->outbox(), DatabaseError);
          continue;
        }
        const auto outbox = router.outbox(stores[i]->name());
        outbox->enqueue(a_message());
        const auto claimed = outbox->claim(worker);
        EXPECT_EQ(claimed.size(), 1u) << stores[i]->name();
        EXPECT_EQ(outbox->ack(worker, claimed), 1u);
        if (i % 25 == 0) look();
      }
    });
  }

  void look(std::size_t left_open = 0) {
    for (const auto& place : places) EXPECT_LE(place->open(), place->most + left_open);
  }

  /// A step of the test and how long it took, for docs/reference/many_databases.md.
  template <class F>
  void step(const std::string& name, F body) {
    const auto begin = std::chrono::steady_clock::now();
    body();
    const auto took = std::chrono::steady_clock::now() - begin;
    RecordProperty(name + "_ms", static_cast<int>(took / 1ms));
    RecordProperty(name + "_rss_mb", static_cast<int>(process_status("VmRSS") / 1024));
  }

  std::vector<std::unique_ptr<Copies>> places;
  std::vector<StoreDefinition> found;
};

TEST_F(ManyDatabases, stay_within_their_budgets_of_connections_and_threads) {
  // A sanitizer starts a thread of its own with the first one of the program.
  std::jthread{[] {}}.join();
  const std::size_t threads = process_status("Threads");
  std::unique_ptr<DatabaseSet> set;
  step("start", [&] {
    set = std::make_unique<DatabaseSet>(
        [this] { return found; },
        DatabaseSetOptions{.connections_per_server = per_server, .connections_to_files = to_files});
  });
  EXPECT_EQ(set->size(), found.size());
  EXPECT_EQ(process_status("Threads"), threads + 1);
  step("first_use", [&] { use_all(*set); });
  EXPECT_EQ(process_status("Threads"), threads + 1);

  auto untouched = set->find(found.back().name);
  for (const auto& place : places) {
    found.push_back(place->make("added_" + std::to_string(found.size())));
    found.push_back(place->make_dead("dead_" + std::to_string(found.size())));
  }
  found.erase(found.begin(), found.begin() + 10);
  step("refresh", [&] { set->refresh(); });
  EXPECT_EQ(set->size(), found.size());
  EXPECT_EQ(set->find(untouched->name()), untouched);
  step("use", [&] { use_all(*set); });
  EXPECT_EQ(process_status("Threads"), threads + 1);

  found.clear();
  set->refresh();
  EXPECT_EQ(untouched.use_count(), 1) << "the set keeps nothing of a store that was removed";
  untouched.reset();
  for (const auto& place : places) {
    // A server needs a moment to see that a connection was closed.
    for (int i = 0; i < 10'000 && place->open() > 0; ++i) std::this_thread::yield();
    EXPECT_EQ(place->open(), 0u);
  }
}

TEST_F(ManyDatabases, a_running_dispatcher_serves_them_all_within_the_same_budgets) {
  for (const auto& place : places) found.push_back(place->make_dead("dead_" + place->word));
  std::jthread{[] {}}.join();
  const std::size_t threads = process_status("Threads");
  DatabaseSet set([this] { return found; },
                  {.connections_per_server = per_server, .connections_to_files = to_files});
  std::atomic<std::size_t> handled = 0;
  Handlers handlers;
  handlers.on(a_message().topic, [&](const Message&) {
    ++handled;
    handled.notify_all();
  });
  Dispatcher dispatcher{set, BoxKind::outbox, std::move(handlers)};
  const std::size_t living = found.size() - places.size();
  const auto until = [&](std::size_t count) {
    for (std::size_t now = handled; now < count; now = handled) handled.wait(now);
  };
  const auto enqueue_everywhere = [&] {
    const StoreRouter router(set);
    race(thread_count, [&](int thread) {
      for (auto i = static_cast<std::size_t>(thread); i < found.size(); i += thread_count) {
        if (found[i].name.starts_with("dead")) continue;
        router.outbox(found[i].name)->enqueue(a_message());
      }
    });
  };
  enqueue_everywhere();
  std::jthread thread{[&](const std::stop_token& stop) { dispatcher.run(stop); }};
  step("dispatch_first", [&] { until(living); });
  // SQLite leaves a descriptor open while another connection to the same file, here the one that
  // watches it, holds a lock.
  look(to_files);
  step("dispatch_again", [&] {
    enqueue_everywhere();
    until(2 * living);
  });
  look(to_files);
  // The set, run() with its 4 pollers, 4 workers, one that writes down beside them, one that keeps
  // the time, and 64 for visits that last longer than a tenth of a second; 8 for chores; the one
  // that watches and its 4 openers.
  EXPECT_LE(process_status("Threads"), threads + 90);
  RecordProperty("dispatch_threads", static_cast<int>(process_status("Threads") - threads));
  step("dispatch_stop", [&] {
    thread.request_stop();
    thread.join();
  });
}

}  // namespace
}  // namespace twinbox::test
