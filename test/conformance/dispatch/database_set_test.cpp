#include <future>
#include <stdexcept>

#include "support/process.hpp"
#include "support/race.hpp"
#include "support/set_test.hpp"

namespace twinbox::test {
namespace {

using Names = std::vector<std::string>;

class DatabaseSetTest : public SetTest {
 protected:
  template <class F>
  static std::string refusal(F body) {
    try {
      body();
    } catch (const std::logic_error& error) {
      return error.what();
    }
    return "accepted";
  }

  /// What the next discovery answers.
  std::vector<StoreDefinition> found;
  int asked = 0;
  bool broken = false;

  DatabaseSet::Discover discover() {
    return [this] {
      ++asked;
      if (broken) throw std::runtime_error("the catalogue is down");
      return found;
    };
  }
};

TEST_P(DatabaseSetTest, OBX_066_IBX_085_keeps_a_store_of_its_own_for_each_database) {
  DatabaseSet set({define("north"), define("south")}, {}, environment());
  set.find("north")->outbox().enqueue(a_message("order.placed"));
  set.find("south")->inbox().accept(an_arrival("evt_1"));

  EXPECT_EQ(set.find("north")->outbox().claim(worker).size(), 1u);
  EXPECT_TRUE(set.find("south")->outbox().claim(worker).empty());
  EXPECT_TRUE(set.find("north")->inbox().claim(worker).empty());
  EXPECT_EQ(set.find("south")->inbox().claim(worker).size(), 1u);
}

TEST_P(DatabaseSetTest, OBX_070_IBX_089_names_each_store_the_same_for_ever) {
  found = {define("north"), define("south")};
  found[0].database.name = "something else";
  DatabaseSet set(discover(), {}, environment());
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(names_of(set.stores()), (Names{"north", "south"}));
    EXPECT_EQ(set.find("north")->name(), "north");
    EXPECT_EQ(set.find("north")->database().name(), "north");
    set.refresh();
  }
  set.find("north")->outbox().enqueue(a_message());
  EXPECT_EQ(log().events("enqueue").at(0).field("store"), "north");
}

TEST_P(DatabaseSetTest, OBX_102_IBX_123_opens_a_box_once_and_keeps_it) {
  DatabaseSet set({define("north")}, {}, environment());
  const auto store = set.find("north");
  EXPECT_TRUE(log().events("deploy").empty());
  std::vector<Outbox*> outboxes(8);
  std::vector<Inbox*> inboxes(8);
  race(8, [&](int i) {
    outboxes.at(static_cast<std::size_t>(i)) = &store->outbox();
    inboxes.at(static_cast<std::size_t>(i)) = &store->inbox();
  });
  EXPECT_EQ(outboxes, std::vector<Outbox*>(8, &store->outbox()));
  EXPECT_EQ(inboxes, std::vector<Inbox*>(8, &store->inbox()));
}

TEST_P(DatabaseSetTest, tries_again_to_open_a_box_that_could_not_be_opened) {
  const auto definition = define_without_tables("north");
  DatabaseSet set({definition}, {}, environment());
  const auto store = set.find("north");
  EXPECT_THROW(store->outbox(), SchemaError);
  EXPECT_THROW(store->outbox(), SchemaError);
  BoxOptions deployed = definition.outbox;
  deployed.deploy_schema = true;
  Outbox(store->database(), deployed);
  EXPECT_TRUE(store->outbox().claim(worker).empty());
}

TEST_P(DatabaseSetTest, refuses_a_list_that_cannot_be_right_and_names_the_store) {
  const auto north = define("north");
  auto south = define("south");
  EXPECT_EQ(refusal([&] {
              DatabaseSet({north, north});
            }),
            "store north: the name is there twice; give each store a name of its own");
  EXPECT_EQ(refusal([&] { DatabaseSet({define("")}); }).substr(0, 10), "store name");

  south.address = "mysql://me:hidden@there";
  const auto address = refusal([&] { DatabaseSet({north, south}); });
  EXPECT_TRUE(address.starts_with("store south: database address: ")) << address;
  EXPECT_EQ(address.find("hidden"), std::string::npos) << address;

  south = define("south");
  south.inbox.table = std::string(100, 'x');
  const auto table = refusal([&] { DatabaseSet({north, south}); });
  EXPECT_TRUE(table.starts_with("store south: table name: ")) << table;

  south = define("south");
  south.database.pool_size = 0;
  const auto pool = refusal([&] { DatabaseSet({north, south}); });
  EXPECT_TRUE(pool.starts_with("store south: database options: pool_size")) << pool;
}

TEST_P(DatabaseSetTest, OBX_075_IBX_093_asks_the_discovery_again_and_again) {
  found = {define("north")};
  DatabaseSet set(discover(), {.refresh_interval = 90s}, environment());
  EXPECT_EQ(asked, 1);
  clock().advance(89s);
  set.step();
  EXPECT_EQ(asked, 1);
  clock().advance(1s);
  set.step();
  EXPECT_EQ(asked, 2);
  set.step();
  EXPECT_EQ(asked, 2);
  clock().advance(90s);
  set.step();
  EXPECT_EQ(asked, 3);
}

TEST_P(DatabaseSetTest, OBX_075_IBX_093_asks_on_a_thread_of_its_own) {
  const auto north = define("north");
  std::promise<std::thread::id> third;
  std::atomic<int> calls = 0;
  DatabaseSet set(
      [&] {
        if (++calls == 3) third.set_value(std::this_thread::get_id());
        return std::vector{north};
      },
      {.refresh_interval = 1ms}, on_real_time());
  auto thread = third.get_future();
  ASSERT_EQ(thread.wait_for(60s), std::future_status::ready);
  EXPECT_NE(thread.get(), std::this_thread::get_id());
}

TEST_P(DatabaseSetTest, OBX_076_IBX_094_asks_every_five_minutes_by_default) {
  found = {define("north")};
  DatabaseSet set(discover(), {}, environment());
  clock().advance(5min - 1us);
  set.step();
  EXPECT_EQ(asked, 1);
  clock().advance(1us);
  set.step();
  EXPECT_EQ(asked, 2);
}

TEST_P(DatabaseSetTest, asks_only_when_told_to_with_an_interval_of_zero) {
  found = {define("north")};
  DatabaseSet set(discover(), {.refresh_interval = 0ms}, environment());
  clock().advance(24h);
  set.step();
  EXPECT_EQ(asked, 1);
  set.refresh();
  EXPECT_EQ(asked, 2);
}

TEST_P(DatabaseSetTest, OBX_077_IBX_095_makes_a_store_for_a_new_database) {
  found = {define("north")};
  DatabaseSet set(discover(), {}, environment());
  EXPECT_EQ(set.find("south"), nullptr);
  found.push_back(define("south"));
  set.refresh();
  EXPECT_EQ(names_of(set.stores()), (Names{"north", "south"}));
  set.find("south")->outbox().enqueue(a_message());
  set.find("south")->inbox().accept(an_arrival());
  EXPECT_EQ(set.find("south")->outbox().claim(worker).size(), 1u);
  EXPECT_EQ(set.find("south")->inbox().claim(worker).size(), 1u);
  EXPECT_EQ(log().events("add_store").at(1).field("store"), "south");
}

TEST_P(DatabaseSetTest, OBX_078_IBX_096_removes_the_store_of_a_database_that_is_gone) {
  found = {define("north"), define("south")};
  DatabaseSet set(discover(), {}, environment());
  const auto south = set.find("south");
  south->outbox().enqueue(a_message());
  found.pop_back();
  set.refresh();
  EXPECT_EQ(names_of(set.stores()), Names{"north"});
  EXPECT_EQ(set.find("south"), nullptr);
  EXPECT_EQ(log().events("remove_store").at(0).field("store"), "south");
  // Whoever still works on it can finish.
  EXPECT_EQ(south->outbox().claim(worker).size(), 1u);
  EXPECT_EQ(south.use_count(), 1);
}

TEST_P(DatabaseSetTest, OBX_079_IBX_097_leaves_unchanged_stores_alone) {
  found = {define("north"), define("south")};
  DatabaseSet set(discover(), {}, environment());
  const auto north = set.find("north");
  const auto south = set.find("south");
  Outbox* const outbox = &north->outbox();
  Inbox* const inbox = &north->inbox();
  log().clear();

  found = {found[1], define("west"), found[0]};
  set.refresh();
  EXPECT_EQ(names_of(set.stores()), (Names{"south", "west", "north"}));
  EXPECT_EQ(set.find("north"), north);
  EXPECT_EQ(set.find("south"), south);
  EXPECT_EQ(&set.find("north")->outbox(), outbox);
  EXPECT_EQ(&set.find("north")->inbox(), inbox);
  EXPECT_TRUE(log().events("deploy").empty());
  EXPECT_EQ(log().events("add_store").size(), 1u);
}

TEST_P(DatabaseSetTest, replaces_a_store_whose_definition_changed) {
  found = {define("north"), define("south")};
  found[0].outbox.retry.custom = [](int) { return 1ms; };
  DatabaseSet set(discover(), {}, environment());
  const auto north = set.find("north");
  const auto south = set.find("south");
  found[0].outbox.retry.custom = [](int) { return 2ms; };  // cannot be told from the first
  set.refresh();
  EXPECT_EQ(set.find("north"), north);
  found[0].outbox.retention = 24h;
  set.refresh();
  EXPECT_NE(set.find("north"), north);
  EXPECT_EQ(set.find("north")->outbox().options().retention, Duration{24h});
  EXPECT_EQ(set.find("south"), south);
}

TEST_P(DatabaseSetTest, keeps_its_stores_while_the_discovery_fails_and_asks_again_soon) {
  found = {define("north")};
  auto environment = this->environment();
  environment.random = [] { return std::uint64_t{0}; };
  DatabaseSet set(discover(), {.refresh_interval = 60s}, environment);
  const auto north = set.find("north");
  broken = true;
  EXPECT_THROW(set.refresh(), std::runtime_error);
  EXPECT_EQ(set.find("north"), north);
  const auto failed = log().events("refresh").at(0);
  EXPECT_EQ(failed.level, LogLevel::error);
  EXPECT_EQ(failed.field("error"), "the catalogue is down");
  EXPECT_EQ(failed.field("retry_ms"), "500");

  for (const auto delay : {500ms, 1000ms, 2000ms, 4000ms, 8000ms, 16000ms, 30000ms, 30000ms}) {
    const int before = asked;
    clock().advance(delay - 1ms);
    set.step();
    EXPECT_EQ(asked, before);
    clock().advance(1ms);
    set.step();
    EXPECT_EQ(asked, before + 1);
    EXPECT_EQ(set.find("north"), north);
  }
  broken = false;
  found.push_back(define("south"));
  clock().advance(30s);
  set.step();
  EXPECT_EQ(set.size(), 2u);
  clock().advance(59s);
  set.step();
  EXPECT_EQ(asked, 11);
}

TEST_P(DatabaseSetTest, begins_empty_when_the_first_discovery_fails) {
  broken = true;
  DatabaseSet set(discover(), {}, environment());
  EXPECT_EQ(set.size(), 0u);
  broken = false;
  found = {define("north")};
  clock().advance(1s);
  set.step();
  EXPECT_EQ(names_of(set.stores()), Names{"north"});
}

TEST_P(DatabaseSetTest, leaves_out_what_cannot_be_used_and_keeps_the_others) {
  found = {define("north"), define(""), define("south"), define("west"), define("north")};
  found[2].address = "nowhere";
  DatabaseSet set(discover(), {}, environment());
  EXPECT_EQ(names_of(set.stores()), (Names{"north", "west"}));
  const auto refused = log().events("refuse_store");
  ASSERT_EQ(refused.size(), 3u);
  EXPECT_EQ(refused[1].field("store"), "south");
  EXPECT_EQ(refused[1].level, LogLevel::error);
  EXPECT_EQ(refused[2].field("store"), "north");

  const auto north = set.find("north");
  found = {found[4], found[0]};
  set.refresh();
  EXPECT_EQ(set.find("north"), north) << "the one that was there stays, whatever the order";
}

TEST_P(DatabaseSetTest, tells_its_subscribers_what_changed) {
  found = {define("north"), define("south")};
  DatabaseSet set(discover(), {}, environment());
  std::vector<std::pair<Names, Names>> told;
  {
    const DatabaseSet::Subscription subscription{set, [&](const StoreChange& change) {
                                                   told.emplace_back(names_of(change.added),
                                                                     names_of(change.removed));
                                                 }};
    set.refresh();
    found[0].database.pool_size = 3;
    found[1] = define("west");
    set.refresh();
  }
  found.clear();
  set.refresh();
  EXPECT_EQ(told, (std::vector<std::pair<Names, Names>>{{{"north", "south"}, {}},
                                                        {{"north", "west"}, {"north", "south"}}}));
}

TEST_P(DatabaseSetTest, refuses_to_refresh_inside_a_refresh) {
  DatabaseSet* set = nullptr;
  std::string refused;
  DatabaseSet made(
      [&] {
        if (set != nullptr) refused = refusal([&] { set->refresh(); });
        return std::vector{define("north")};
      },
      {}, environment());
  set = &made;
  made.refresh();
  EXPECT_TRUE(refused.starts_with("database set: refresh() was called by the discovery"))
      << refused;
}

TEST_P(DatabaseSetTest, lets_a_store_live_as_long_as_somebody_uses_it) {
  std::shared_ptr<Store> store;
  {
    DatabaseSet set({define("north")}, {}, environment());
    store = set.find("north");
  }
  store->outbox().enqueue(a_message());
  EXPECT_EQ(store->outbox().claim(worker).size(), 1u);
}

TEST_P(DatabaseSetTest, names_the_option_that_is_out_of_range) {
  EXPECT_EQ(
      refusal([] { DatabaseSet(std::vector<StoreDefinition>{}, {.connections_per_server = 0}); }),
      "database set options: connections_per_server is 0, 1 to 100000 are allowed");
  EXPECT_EQ(refusal([] { DatabaseSet(DatabaseSet::Discover{}); }),
            "database set: the discovery is an empty function");
  EXPECT_THROW(DatabaseSet(std::vector<StoreDefinition>{}, {.connections_to_files = 0}),
               std::out_of_range);
  EXPECT_THROW(DatabaseSet(std::vector<StoreDefinition>{}, {.refresh_interval = -1ms}),
               std::out_of_range);
  EXPECT_THROW(DatabaseSet(std::vector<StoreDefinition>{}, {.idle_timeout = -1ms}),
               std::out_of_range);
}

TEST_P(DatabaseSetTest, never_closes_a_database_in_memory) {
  DatabaseSet set({define("north")}, {.connections_to_files = 1, .idle_timeout = 1s},
                  environment());
  set.find("north")->outbox().enqueue(a_message());
  clock().advance(24h);
  set.step();
  EXPECT_EQ(set.find("north")->outbox().claim(worker).size(), 1u);
}

TWINBOX_ON_EVERY_BACKEND(DatabaseSetTest);

/// Places that can be shared by name: a file, or a database on a server.
using SharedDatabaseTest = DatabaseSetTest;

TEST_P(SharedDatabaseTest, refuses_two_stores_on_the_same_tables) {
  const auto north = define("north");
  auto south = north;
  south.name = "south";
  const auto both = refusal([&] { DatabaseSet({north, south}); });
  EXPECT_TRUE(both.starts_with("store south: its outbox (" + north.outbox.schema +
                               ".outbox) is in the same tables as store north; give it"))
      << both;
  south.outbox.table = "south_outbox";
  const auto one = refusal([&] { DatabaseSet({north, south}); });
  EXPECT_TRUE(one.starts_with("store south: its inbox (")) << one;
  south.inbox.table = "south_outbox";
  const auto own = refusal([&] { DatabaseSet({north, south}); });
  EXPECT_NE(own.find("is in the same tables as its own inbox"), std::string::npos) << own;
  south.inbox.table = "south_inbox";
  EXPECT_EQ(DatabaseSet({north, south}).size(), 2u);
}

TEST_P(SharedDatabaseTest, EVB_25_keeps_tenants_apart_that_share_a_database) {
  const auto first = define("first");
  auto second = define("second");
  second.address = first.address;
  if (GetParam() == Backend::sqlite_file) {
    second.outbox.schema = second.inbox.schema = "tenant_two";
  }
  DatabaseSet set({first, second}, {}, environment());
  set.find("first")->outbox().enqueue(a_message());
  set.find("second")->inbox().accept(an_arrival());
  EXPECT_TRUE(set.find("second")->outbox().claim(worker).empty());
  EXPECT_TRUE(set.find("first")->inbox().claim(worker).empty());
  EXPECT_EQ(set.find("first")->outbox().claim(worker).size(), 1u);
  EXPECT_EQ(set.find("second")->inbox().claim(worker).size(), 1u);
}

/// Connections that lead to `store`.
std::size_t connections(const Store& store, Database& watcher) {
  const std::string& address = store.definition().address;
  if (address.starts_with("sqlite:")) {
    const std::string file = address.substr(7);
    return open_files(file) - open_files(file + "-");
  }
  std::size_t count = 0;
  watcher.in_transaction([&](Session& session) {
    session.execute(session.dialect() == Dialect::postgres
                        ? "select count(*) from pg_stat_activity where application_name = @name"
                        : "select count(*) from sys.dm_exec_sessions where program_name = @name",
                    {{"name", store.name()}},
                    [&](const Row& row) { count = static_cast<std::size_t>(row.integer(0)); });
  });
  return count;
}

TEST_P(SharedDatabaseTest, closes_connections_that_rest) {
  auto north = define("north_at_rest");
  auto south = define("south_at_rest");
  Database watcher(GetParam() == Backend::sqlite_file ? "sqlite::memory:" : north.address);
  for (StoreDefinition* store : {&north, &south}) {
    if (GetParam() == Backend::postgres) store->address += "?application_name=" + store->name;
    if (GetParam() == Backend::sqlserver) store->address += ";APP=" + store->name;
  }
  DatabaseSet set({north, south}, {.idle_timeout = 60s}, environment());
  const auto rests = set.find(north.name);
  const auto works = set.find(south.name);
  rests->outbox().enqueue(a_message());
  EXPECT_GT(connections(*rests, watcher), 0u);
  clock().advance(50s);
  works->outbox().enqueue(a_message());
  clock().advance(10s);
  set.step();
  // A server needs a moment to see that a connection was closed.
  for (int i = 0; i < 10'000 && connections(*rests, watcher) > 0; ++i) std::this_thread::yield();
  EXPECT_EQ(connections(*rests, watcher), 0u);
  EXPECT_GT(connections(*works, watcher), 0u);
  EXPECT_EQ(rests->outbox().claim(worker).size(), 1u) << "and opens them again";
}

TEST_P(SharedDatabaseTest, uses_a_second_store_inside_a_transaction_of_the_first) {
  if (GetParam() == Backend::sqlserver && is_stand_in())
    GTEST_SKIP() << "the stand-in lets calls on other tables wait for an open transaction";
  DatabaseSet set({define("north"), define("south")},
                  {.connections_per_server = 3, .connections_to_files = 3}, environment());
  const auto north = set.find("north");
  const auto south = set.find("south");
  north->outbox();
  south->outbox();
  // Each of them holds a connection and needs another one; three are all there are.
  race(6, [&](int) {
    for (int i = 0; i < 5; ++i) {
      north->database().in_transaction([&](Session& session) {
        north->outbox().enqueue(session, a_message());
        south->outbox().enqueue(a_message());
      });
    }
  });
  EXPECT_EQ(north->outbox().claim(worker, 30s, 100).size(), 30u);
  EXPECT_EQ(south->outbox().claim(worker, 30s, 100).size(), 30u);
}

TWINBOX_ON_BACKENDS(SharedDatabaseTest, Backend::sqlite_file, Backend::postgres,
                    Backend::sqlserver);

}  // namespace
}  // namespace twinbox::test
