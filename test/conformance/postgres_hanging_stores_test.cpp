// Stores on servers that do not answer hold up no other store of the dispatcher.
#include "support/hanging_stores.hpp"
#include "support/postgres.hpp"
#include "support/postgres_silence.hpp"

#if TWINBOX_SQLITE
namespace twinbox::test {
namespace {

class PostgresHangingStores : public HangingStores {
 protected:
  /// Stores that wait for their server as long as it takes, at an address of their own.
  void add_patient(const std::string& prefix, const std::string& address) {
    for (int i = 0; i < store_count; ++i) {
      StoreDefinition& store = add(define(name_of(prefix, i)));
      store.address = with_setting(address, "connect_timeout=3600");
      store.database.answer_limit = 1h;
      store.database.wait_limit = 1h;
    }
  }
  void healthy_ones_are_handled(int first_round = 1) {
    for (int round = first_round; round < first_round + 3; ++round) {
      enqueue("healthy");
      ASSERT_TRUE(all_handled("healthy", round)) << "round " << round;
    }
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

TWINBOX_ON_BACKENDS(PostgresHangingStores, Backend::postgres);

}  // namespace
}  // namespace twinbox::test
#endif
