// Two transactions that meet: each test holds one of them at the point where the other must wait or
// look again. None of them depends on luck.
#include "support/backend.hpp"
#include "support/postgres.hpp"

namespace twinbox::test {
namespace {

class PostgresRace : public BoxTest {
 protected:
  PostgresRace()
      : first_(test_store().address()),
        second_(test_store().address()),
        watcher_(test_store().address()) {
    inbox();
    outbox();
  }

  /// (open, finished) deliveries of the only message.
  std::string deliveries(const std::string& box = "inbox") {
    return read("select (select count(*) from {schema}" + box + "_work) || ' open, ' || " +
                "(select count(*) from {schema}" + box + "_outcome) || ' finished'");
  }

  template <class Result>
  bool waits_for_first(const Call<Result>& call) {
    return waits_for(call, first_, watcher_);
  }

  PgClient first_;
  PgClient second_;
  PgClient watcher_;
};

void accept_claim_and_ack(Inbox& inbox, Session& session, const OwnerToken& owner) {
  const auto claimed = inbox.accept_and_claim(session, an_arrival(), owner, 30s);
  ASSERT_EQ(claimed.messages.size(), 1u);
  ASSERT_EQ(inbox.ack(session, owner, claimed.messages), 1u);
}

TEST_P(PostgresRace, accept_beside_a_finishing_ack_finds_the_message_done) {
  first_.begin();
  accept_claim_and_ack(inbox(), first_.session(), worker_a);
  Call again([&] { return inbox().accept(an_arrival()); });
  EXPECT_TRUE(waits_for_first(again));
  first_.commit();
  EXPECT_EQ(again.get().state, Acceptance::duplicate_done);
  EXPECT_EQ(deliveries(), "0 open, 1 finished");
}

TEST_P(PostgresRace, accept_with_handlers_beside_a_finishing_ack_finds_the_message_done) {
  const std::vector<HandlerName> handlers{{HandlerKey{"mail"}, {HandlerKey{"post"}}}};
  first_.begin();
  const auto claimed =
      inbox().accept_and_claim(first_.session(), an_arrival(), worker_a, 30s, handlers);
  ASSERT_EQ(inbox().ack(first_.session(), worker_a, claimed.messages), 1u);
  Call again([&] { return inbox().accept(an_arrival(), handlers); });
  EXPECT_TRUE(waits_for_first(again));
  first_.commit();
  EXPECT_EQ(again.get().state, Acceptance::duplicate_done);
  EXPECT_EQ(deliveries(), "0 open, 1 finished");
}

TEST_P(PostgresRace, accept_in_a_callers_transaction_beside_a_finishing_ack_finds_it_done) {
  const std::vector<HandlerName> handlers{{HandlerKey{"mail"}, {HandlerKey{"post"}}}};
  first_.begin();
  const auto claimed =
      inbox().accept_and_claim(first_.session(), an_arrival(), worker_a, 30s, handlers);
  ASSERT_EQ(inbox().ack(first_.session(), worker_a, claimed.messages), 1u);
  second_.begin();
  Call again([&] { return inbox().accept(second_.session(), an_arrival(), handlers); });
  EXPECT_TRUE(waits_for_first(again));
  first_.commit();
  EXPECT_EQ(again.get().state, Acceptance::duplicate_done);
  second_.commit();
  EXPECT_EQ(deliveries(), "0 open, 1 finished");
}

TEST_P(PostgresRace, accept_does_not_wait_for_whoever_settles_the_message) {
  inbox().accept(an_arrival());
  const auto claimed = inbox().claim(worker_a, 30s, 1);
  clock().advance(31s);
  first_.begin();
  ASSERT_EQ(inbox().ack(first_.session(), worker_a, claimed), 1u);
  Call again([&] { return inbox().accept(an_arrival()); });
  EXPECT_FALSE(waits_for_first(again));
  first_.commit();
  EXPECT_EQ(again.get().state, Acceptance::duplicate_open);
  EXPECT_EQ(deliveries(), "0 open, 1 finished");
  EXPECT_EQ(inbox().accept(an_arrival()).state, Acceptance::duplicate_done);
}

TEST_P(PostgresRace, IBX_014_two_accepts_at_once_make_one_delivery) {
  first_.begin();
  EXPECT_EQ(inbox().accept(first_.session(), an_arrival()).state, Acceptance::accepted);
  Call again([&] { return inbox().accept(an_arrival()); });
  EXPECT_TRUE(waits_for_first(again));
  first_.commit();
  EXPECT_EQ(again.get().state, Acceptance::duplicate_open);
  EXPECT_EQ(deliveries(), "1 open, 0 finished");
}

TEST_P(PostgresRace, two_accepts_at_once_make_one_delivery_for_each_handler) {
  const std::vector<HandlerName> one{{HandlerKey{"mail"}}};
  const std::vector<HandlerName> both{{HandlerKey{"mail"}}, {HandlerKey{"ledger"}}};
  first_.begin();
  inbox().accept(first_.session(), an_arrival(), one);
  Call again([&] { return inbox().accept(an_arrival(), both); });
  EXPECT_TRUE(waits_for_first(again));
  first_.commit();
  EXPECT_EQ(again.get().state, Acceptance::accepted);
  EXPECT_EQ(read("select string_agg(handler, ' ' order by handler) from {schema}inbox_work"),
            "ledger mail");
}

/// The message was accepted under key a while this one, with key b, had locked the latter; it goes
/// on with the message's row, and stops at the next one's.
TEST_P(PostgresRace, an_accept_under_another_key_than_the_first_waits_behind_the_heads_of_that) {
  const auto keyed = [](const std::string& id, const std::string& key) {
    Arrival arrival = an_arrival(id);
    arrival.extras.partition_key = PartitionKey{key};
    return arrival;
  };
  const std::vector<HandlerName> mail{{HandlerKey{"mail"}}};
  const std::vector<HandlerName> ledger{{HandlerKey{"ledger"}}};
  PgClient third(test_store().address());
  first_.begin();
  inbox().accept(first_.session(), keyed("evt_1", "a"), mail);
  second_.begin();
  inbox().accept(second_.session(), an_arrival("evt_2"), mail);
  const std::vector<Arrival> batch{keyed("evt_1", "b"), keyed("evt_2", "b")};
  Call again([&] { return inbox().accept(batch, ledger); });
  ASSERT_TRUE(waits_for_first(again));
  first_.commit();
  ASSERT_TRUE(waits_for(again, second_, watcher_));
  third.begin();
  Call beside([&] { return inbox().accept(third.session(), keyed("evt_3", "a"), ledger); });
  while (!beside.finished() && watcher_.value("select cardinality(pg_blocking_pids(" +
                                              std::to_string(third.pid()) + "))") == "0") {
  }
  second_.commit();
  EXPECT_EQ(again.get().at(0).state, Acceptance::accepted);
  EXPECT_EQ(beside.get().state, Acceptance::accepted);
  third.commit();
  EXPECT_EQ(read("select string_agg(waiting::text, ' ' order by waiting) from {schema}inbox_work "
                 "where handler = 'ledger' and partition_key = 'a'"),
            "false true")
      << "both are heads of one key";
}

TEST_P(PostgresRace, IBX_006_two_already_processed_at_once_insert_once) {
  first_.begin();
  EXPECT_FALSE(inbox().already_processed(first_.session(), a_key()));
  Call again([&] { return inbox().already_processed(a_key()); });
  EXPECT_TRUE(waits_for_first(again));
  first_.commit();
  EXPECT_FALSE(again.get());
  EXPECT_EQ(read("select string_agg(seen_count::text, ' ') from {schema}inbox_message"), "2");
}

TEST_P(PostgresRace, an_accept_that_waited_for_a_rollback_is_the_first_one) {
  first_.begin();
  inbox().accept(first_.session(), an_arrival());
  Call again([&] { return inbox().accept(an_arrival()); });
  EXPECT_TRUE(waits_for_first(again));
  first_.rollback();
  EXPECT_EQ(again.get().state, Acceptance::accepted);
  EXPECT_EQ(deliveries(), "1 open, 0 finished");
}

TEST_P(PostgresRace, try_claim_beside_an_accept_finds_its_delivery) {
  const std::vector<HandlerName> handlers{{HandlerKey{"mail"}}};
  first_.begin();
  inbox().accept(first_.session(), an_arrival(), handlers);
  Call gate([&] { return inbox().try_claim(a_key(), Topic{"payment"}, HandlerKey{"mail"}); });
  EXPECT_TRUE(waits_for_first(gate));
  first_.commit();
  EXPECT_FALSE(gate.get());
  EXPECT_EQ(deliveries(), "1 open, 0 finished");
}

TEST_P(PostgresRace, try_claim_beside_another_lets_exactly_one_pass) {
  for (const bool commits : {true, false}) {
    const auto key = a_key(commits ? "evt_1" : "evt_2");
    first_.begin();
    EXPECT_TRUE(inbox().try_claim(first_.session(), key, Topic{"payment"}));
    Call gate([&] { return inbox().try_claim(key, Topic{"payment"}); });
    EXPECT_TRUE(waits_for_first(gate));
    commits ? first_.commit() : first_.rollback();
    EXPECT_EQ(gate.get(), !commits);
  }
}

TEST_P(PostgresRace, mark_processing_beside_an_accept_leaves_the_message_to_its_delivery) {
  inbox().observe(a_key());
  first_.begin();
  inbox().accept(first_.session(), an_arrival());
  Call mark([&] { return inbox().mark_processing(a_key()); });
  EXPECT_TRUE(waits_for_first(mark));
  first_.commit();
  EXPECT_FALSE(mark.get());
  EXPECT_EQ(deliveries(), "1 open, 0 finished");
}

TEST_P(PostgresRace, accept_beside_mark_processed_with_an_envelope_finds_it_done) {
  first_.begin();
  EXPECT_TRUE(inbox().mark_processed(first_.session(), an_arrival()));
  Call again([&] { return inbox().accept(an_arrival()); });
  EXPECT_TRUE(waits_for_first(again));
  first_.commit();
  EXPECT_EQ(again.get().state, Acceptance::duplicate_done);
  EXPECT_EQ(deliveries(), "0 open, 1 finished");
}

TEST_P(PostgresRace, OBX_019_two_claims_at_once_share_the_messages) {
  REQUIREMENT("OBX-081, OBX-084, IBX-103, IBX-106");
  for (int i = 0; i < 4; ++i) outbox().enqueue(a_message());
  first_.begin();
  const auto held = outbox().claim(first_.session(), worker_a, 30s, 2);
  Call claim([&] { return outbox().claim(worker_b, 30s, 10); });
  EXPECT_FALSE(waits_for_first(claim));
  first_.commit();
  const auto others = claim.get();
  ASSERT_EQ(held.size(), 2u);
  ASSERT_EQ(others.size(), 2u);
  EXPECT_EQ(outbox().ack(worker_a, held), 2u);
  EXPECT_EQ(outbox().ack(worker_b, others), 2u);
}

TEST_P(PostgresRace, a_settle_that_waited_for_another_changes_nothing) {
  outbox().enqueue(a_message());
  const auto held = outbox().claim(worker_a, 30s, 1);
  first_.begin();
  ASSERT_EQ(outbox().ack(first_.session(), worker_a, held), 1u);
  Call fail([&] { return outbox().fail(worker_a, held, "too late"); });
  EXPECT_TRUE(waits_for_first(fail));
  first_.commit();
  EXPECT_EQ(fail.get(), 0u);
  EXPECT_EQ(deliveries("outbox"), "0 open, 1 finished");
}

TEST_P(PostgresRace, a_settle_that_waited_for_a_renewal_still_finds_its_lease) {
  outbox().enqueue(a_message());
  const auto held = outbox().claim(worker_a, 30s, 1);
  first_.begin();
  ASSERT_EQ(outbox().renew(first_.session(), worker_a, held, 60s).size(), 1u);
  Call ack([&] { return outbox().ack(worker_a, held); });
  EXPECT_TRUE(waits_for_first(ack));
  first_.commit();
  EXPECT_EQ(ack.get(), 1u);
}

TWINBOX_ON_BACKENDS(PostgresRace, Backend::postgres);

}  // namespace
}  // namespace twinbox::test
