// Stores on servers that do not answer hold up no other store of the dispatcher.
#include <deque>
#include <latch>
#include <vector>

#include "support/hanging_stores.hpp"
#include "support/postgres.hpp"
#include "support/postgres_silence.hpp"
#include "support/write_lock.hpp"

#if TWINBOX_SQLITE
namespace twinbox::test {
namespace {

class PostgresHangingStores : public HangingStores {
 protected:
  /// Stores that wait for their server as long as it takes, at an address of their own.
  void add_patient(const std::string& prefix, const std::string& address, int count = store_count) {
    for (int i = 0; i < count; ++i) {
      StoreDefinition& store = add(define(name_of(prefix, i)));
      store.address = with_setting(address, "connect_timeout=3600");
      store.database.answer_timeout = 1h;
      store.database.wait_timeout = 1h;
    }
  }
  static constexpr int rounds = 3;

  void healthy_ones_are_handled(int first_round = 1) {
    for (int round = first_round; round < first_round + 3; ++round) {
      enqueue("healthy");
      ASSERT_TRUE(all_handled("healthy", round)) << "round " << round;
    }
  }
  /// A quarter of `count` stores of each kind hang while messages come for the others.
  void all_kinds_hold_up_no_other(int count) {
    const int each = count / 4;
    FreezingProxy proxy{server_};
    const SilentPort silent;
    const DroppingPort dropping;
    add_working("healthy");
    start();
    const auto with_none = median_latency("healthy", 0, rounds);
    forget_set();
    add_patient("frozen", proxy.address(), each);
    add_patient("silent", with_port(server_, silent.port()), each);
    add_patient("dropped", with_port(server_, dropping.port()), each);
    std::deque<std::string> files;
    for (int i = 0; i < each; ++i) {
      StoreDefinition& store = add(define(name_of("locked", i), Backend::sqlite_file));
      store.database.wait_timeout = 1h;
      files.push_back(store.address);
    }
    for (const char* prefix : {"frozen", "locked"}) enqueue(prefix, each);
    start();
    healthy_ones_are_handled(1 + rounds);
    ASSERT_TRUE(all_handled("frozen", 1, each) && all_handled("locked", 1, each));
    dispatcher().pause();
    for (const char* prefix : {"frozen", "locked"}) enqueue(prefix, each);
    proxy.freeze();
    std::deque<WriteLock> locks;
    for (const std::string& file : files) locks.emplace_back(file);
    dispatcher().resume();
    expect_no_delay(with_none, median_latency("healthy", 3 + rounds, rounds));
    EXPECT_EQ(handled("frozen") + handled("locked"), 2 * each) << "they hang all the time";
    proxy.thaw();
    locks.clear();
    EXPECT_TRUE(all_handled("frozen", 2, each) && all_handled("locked", 2, each))
        << "they are worked on once they answer";
    stop();
  }
  const std::string server_ = test_setting("TWINBOX_TEST_POSTGRES");
};

TEST_P(PostgresHangingStores, on_a_server_that_is_silent_hold_up_no_other) {
  const SilentPort silent;
  add_patient("silent", with_port(server_, silent.port()));
  add_working("healthy");
  start();
  healthy_ones_are_handled();
  stop();
}

TEST_P(PostgresHangingStores, on_a_server_that_drops_connections_hold_up_no_other) {
  const DroppingPort dropping;
  add_patient("dropped", with_port(server_, dropping.port()));
  add_working("healthy");
  start();
  healthy_ones_are_handled();
  stop();
}

TEST_P(PostgresHangingStores, on_a_server_that_freezes_hold_up_no_other) {
  FreezingProxy proxy{server_};
  add_patient("frozen", proxy.address());
  add_working("healthy");
  enqueue("frozen");
  enqueue("healthy");
  start();
  ASSERT_TRUE(all_handled("frozen", 1) && all_handled("healthy", 1));
  proxy.freeze();
  healthy_ones_are_handled(2);
  EXPECT_EQ(handled("frozen"), store_count);
  proxy.thaw();
  enqueue("frozen");
  EXPECT_TRUE(all_handled("frozen", 2)) << "they are worked on once they answer";
  stop();
}

TEST_P(PostgresHangingStores, fifty_of_all_kinds_hold_up_no_other) {
  all_kinds_hold_up_no_other(48);
}
TEST_P(PostgresHangingStores, a_hundred_and_fifty_of_all_kinds_hold_up_no_other) {
  all_kinds_hold_up_no_other(152);
}

TEST_P(PostgresHangingStores, on_the_same_server_hold_up_no_other_within_the_default_budget) {
  constexpr int locked = 30;
  constexpr int healthy = 8;
  allow_connections(DatabaseSetOptions{}.connections_per_server);
  std::vector<std::string> schemas;
  for (int i = 0; i < locked; ++i) {
    StoreDefinition& store = add(define(name_of("locked", i)));
    store.database.wait_timeout = 5s;
    schemas.push_back(store.outbox.schema);
  }
  for (int i = 0; i < healthy; ++i) {
    // Until their first calls have ended, the stores that lock up at once have all connections.
    add(define(name_of("healthy", i))).database.wait_timeout = 1min;
  }
  enqueue("locked", locked);
  enqueue("healthy", healthy);
  start();
  ASSERT_TRUE(all_handled("locked", 1, locked) && all_handled("healthy", 1, healthy));
  dispatcher().pause();
  enqueue("locked", locked);
  PgClient lock{server_};
  lock.begin();
  for (const std::string& schema : schemas)
    lock.run("lock table " + schema + ".outbox_work in access exclusive mode");
  dispatcher().resume();
  for (int round = 2; round <= 4; ++round) {
    enqueue("healthy", healthy);
    ASSERT_TRUE(all_handled("healthy", round, healthy)) << "round " << round;
  }
  EXPECT_EQ(handled("locked"), locked) << "they are locked all the time";
  lock.rollback();
  EXPECT_TRUE(all_handled("locked", 2, locked)) << "they are worked on once they answer";
  stop();
}

TEST_P(PostgresHangingStores, that_are_silent_at_the_start_cost_no_other_its_lease) {
  const SilentPort silent;
  add_patient("silent", with_port(server_, silent.port()), 16);
  add_working("healthy", 1);
  enqueue("healthy", 1);
  std::latch finish{1};
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message&) { finish.wait(); });
  DispatcherOptions options = without_chores();
  options.lease = 3s;
  start(std::move(handlers), options);
  const bool renewed = reached([&] { return statements_["renew"] >= 5; });
  finish.count_down();
  ASSERT_TRUE(renewed);
  ASSERT_TRUE(all_handled("healthy", 1, 1));
  EXPECT_EQ(handled("healthy"), 1);
  EXPECT_EQ(lost("healthy"), 0);
  stop();
}

TWINBOX_ON_BACKENDS(PostgresHangingStores, Backend::postgres);

}  // namespace
}  // namespace twinbox::test
#endif
