// Behind PgBouncer in transaction mode: every transaction may meet another server connection.
#include <atomic>
#include <thread>

#include "support/backend.hpp"
#include "support/postgres.hpp"

namespace twinbox::test {
namespace {

class PostgresPgBouncer : public BoxTest {
 protected:
  PostgresPgBouncer()
      : database_(
            with_setting(test_setting("TWINBOX_TEST_PGBOUNCER"), "twinbox_pooler=transaction"),
            many(), environment()),
        outbox_(database_, options()),
        inbox_(database_, options()) {}

  static constexpr int threads = 32;  ///< more than PgBouncer has server connections

  template <class F>
  static void in_parallel(const F& body) {
    std::vector<std::thread> running;
    for (int i = 0; i < threads; ++i) running.emplace_back([&body, i] { body(i); });
    for (std::thread& thread : running) thread.join();
  }

  static DatabaseOptions many() {
    DatabaseOptions chosen;
    chosen.pool_size = threads;
    return chosen;
  }

  /// What somebody else finds of ours on the server connection that he gets.
  static std::string left_behind() {
    PgClient other(test_setting("TWINBOX_TEST_PGBOUNCER"));
    return other.value(
        "select coalesce(string_agg(what, ' '), 'nothing') from ("
        "select name as what from pg_prepared_statements union all "
        "select name from pg_settings where source = 'session' and name in ('enable_seqscan', "
        "'enable_bitmapscan', 'jit', 'plan_cache_mode', 'search_path') union all "
        "select 'a lock' from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()) l");
  }

  Database database_;
  Outbox outbox_;
  Inbox inbox_;
};

TEST_P(PostgresPgBouncer, the_life_of_a_message_works) {
  for (int i = 0; i < 5; ++i) outbox_.enqueue(a_message());
  const auto held = outbox_.claim(worker_a, 30s, 10);
  ASSERT_EQ(held.size(), 5u);
  EXPECT_EQ(outbox_.renew(worker_a, held, 60s).size(), 5u);
  EXPECT_EQ(outbox_.ack(worker_a, held[0]), 1u);
  EXPECT_EQ(outbox_.abandon(worker_a, held[1], "error", 1h), 1u);
  EXPECT_EQ(outbox_.fail(worker_a, held[2], "error"), 1u);
  EXPECT_EQ(outbox_.release(worker_a, held[3]), 1u);
  clock().advance(2min);
  EXPECT_EQ(outbox_.reap(), 1u);
  EXPECT_EQ(outbox_.claim(worker_b, 30s, 10).size(), 1u);
  clock().advance(48h);
  EXPECT_EQ(outbox_.prune({.older_than = 24h}), 1u);
}

TEST_P(PostgresPgBouncer, arrivals_and_the_gate_work) {
  EXPECT_EQ(inbox_.accept(an_arrival()).state, Acceptance::accepted);
  EXPECT_EQ(inbox_.accept(an_arrival()).state, Acceptance::duplicate_open);
  const auto claimed = inbox_.claim(worker_a, 30s, 10);
  EXPECT_EQ(inbox_.ack(worker_a, claimed), 1u);
  EXPECT_EQ(inbox_.accept(an_arrival()).state, Acceptance::duplicate_done);
  EXPECT_TRUE(inbox_.already_processed(a_key()));
  EXPECT_FALSE(inbox_.already_processed(a_key("other")));
  EXPECT_TRUE(inbox_.try_claim(a_key("gate"), Topic{"payment"}));
  EXPECT_FALSE(inbox_.try_claim(a_key("gate"), Topic{"payment"}));
  EXPECT_TRUE(inbox_.release_claim(a_key("gate")));
  EXPECT_TRUE(inbox_.mark_processed(a_key("other")));
}

TEST_P(PostgresPgBouncer, a_callers_transaction_is_one_transaction) {
  EXPECT_THROW(database_.in_transaction([&](Session& session) {
    outbox_.enqueue(session, a_message());
    throw std::runtime_error("the caller's own failure");
  }),
               std::runtime_error);
  EXPECT_TRUE(outbox_.claim(worker_a, 30s, 10).empty());
  database_.in_transaction([&](Session& session) {
    outbox_.enqueue(session, a_message());
    inbox_.accept(session, an_arrival());
  });
  EXPECT_EQ(outbox_.claim(worker_a, 30s, 10).size(), 1u);
}

TEST_P(PostgresPgBouncer, partition_keys_keep_their_order) {
  for (const char* id : {"one", "two", "three"}) {
    NewMessage message = a_message();
    message.id = MessageId{id};
    message.extras.partition_key = PartitionKey{"customer 1"};
    outbox_.enqueue(message);
  }
  for (const char* id : {"one", "two", "three"}) {
    const auto head = outbox_.claim(worker_a, 30s, 10);
    ASSERT_EQ(head.size(), 1u);
    EXPECT_EQ(head.front().id.str(), id);
    EXPECT_EQ(outbox_.ack(worker_a, head), 1u);
  }
}

TEST_P(PostgresPgBouncer, OBX_084_more_threads_than_server_connections_lose_and_double_nothing) {
  REQUIREMENT("OBX-083");
  constexpr int each = 8;
  in_parallel([&](int) {
    for (int i = 0; i < each; ++i) outbox_.enqueue(a_message());
  });
  std::atomic<std::size_t> settled = 0;
  in_parallel([&](int) {
    const auto me = OwnerToken::make(environment());
    for (;;) {
      const auto held = outbox_.claim(me, 30s, 5);
      if (held.empty()) return;
      settled += outbox_.ack(me, held);
    }
  });
  // A claim passes over what others have locked, so somebody may have left early.
  const auto rest = outbox_.claim(worker_a, 30s, 1000);
  EXPECT_EQ(settled + rest.size(), static_cast<std::size_t>(threads * each));
  EXPECT_EQ(outbox_.ack(worker_a, rest), rest.size());
  EXPECT_EQ(read("select count(*) from {schema}outbox_outcome where state = 1"),
            std::to_string(threads * each));
}

TEST_P(PostgresPgBouncer, nothing_of_ours_stays_on_the_server_connections) {
  outbox_.enqueue(a_message());
  ASSERT_EQ(outbox_.ack(worker_a, outbox_.claim(worker_a, 30s, 10)), 1u);
  EXPECT_EQ(left_behind(), "nothing");
}

TEST_P(PostgresPgBouncer, is_noticed_where_the_address_does_not_name_it) {
  Database unnamed(test_setting("TWINBOX_TEST_PGBOUNCER"), many(), environment());
  Outbox box(unnamed, options());
  in_parallel([&](int) {
    for (int i = 0; i < 8; ++i) box.enqueue(a_message());
  });
  const auto held = box.claim(worker_a, 30s, 1000);
  EXPECT_EQ(box.ack(worker_a, held), static_cast<std::size_t>(threads * 8));
  EXPECT_EQ(left_behind(), "nothing");
}

TWINBOX_ON_BACKENDS(PostgresPgBouncer, Backend::postgres);

}  // namespace
}  // namespace twinbox::test
