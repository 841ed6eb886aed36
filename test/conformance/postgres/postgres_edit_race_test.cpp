// An edit that meets whoever claims, requeues or discards the same message.
#include "support/backend.hpp"
#include "support/postgres.hpp"
#include "support/slow_reader.hpp"
#include <twinbox/operations.hpp>

namespace twinbox::test {
namespace {

class PostgresEditRace : public BoxTest {
 protected:
  PostgresEditRace() : first_(test_store().address()), watcher_(test_store().address()) { inbox(); }

  template <class Result>
  bool waits_for_first(const Call<Result>& call) {
    return waits_for(call, first_, watcher_);
  }
  DeliveryKey delivery_of(const std::string& id) {
    return Admin{inbox()}.list({.id = MessageId{id}}).entries.at(0).delivery.key;
  }
  Admin::Edited edit(const DeliveryKey& delivery) {
    return Admin{inbox()}.edit(delivery.number, {.payload = payload("new")});
  }

  PgClient first_;
  PgClient watcher_;
};

TEST_P(PostgresEditRace, a_claim_that_looked_before_an_edit_hands_out_no_old_content) {
  for (const char* id : {"evt_1", "evt_2"}) {
    inbox().accept(an_arrival(id));
    clock().advance(1s);
  }
  const DeliveryKey edited = delivery_of("evt_2");
  SlowReader slow(first_, Schema(database(), BoxKind::inbox, options()), test_store().schema(),
                  "inbox_work", "number <> " + std::to_string(edited.number));
  Database database(slow.address(test_store().address()), {}, environment());
  BoxOptions opened = options();
  opened.deploy_schema = false;
  Inbox claiming(database, opened);
  Call claim([&] { return claiming.claim(worker_a, 30s, 10); });
  ASSERT_TRUE(waits_for_first(claim));
  EXPECT_TRUE(edit(edited));
  slow.on_progress();
  std::vector<Message> claimed = claim.get();
  for (Message& message : inbox().claim(worker_b, 30s, 10)) claimed.push_back(std::move(message));
  ASSERT_EQ(claimed.size(), 2u);
  EXPECT_EQ(claimed[0].payload, payload());
  EXPECT_EQ(claimed[1].payload, payload("new"));
}

TEST_P(PostgresEditRace, an_edit_that_waited_for_a_requeue_passes_over_what_is_leased_by_then) {
  inbox().accept(an_arrival());
  inbox().fail(worker_a, inbox().claim(worker_a, 30s, 1), "boom");
  const DeliveryKey dead = delivery_of("evt_1");
  first_.begin();
  ASSERT_EQ(Admin{inbox()}.requeue(first_.session(), std::span{&dead, 1}), 1u);
  const auto leased = inbox().claim(first_.session(), worker_a, 30s, 1);
  ASSERT_EQ(leased.size(), 1u);
  Call edited([&] { return edit(dead); });
  EXPECT_TRUE(waits_for_first(edited));
  first_.commit();
  EXPECT_FALSE(edited.get());
  EXPECT_EQ(Admin{inbox()}.get(a_key()).value().payload, leased.front().payload);
}

TEST_P(PostgresEditRace, an_edit_beside_a_discard_meets_no_deadlock) {
  inbox().accept(an_arrival());
  const DeliveryKey delivery = delivery_of("evt_1");
  first_.begin();
  inbox().observe(first_.session(), a_key());
  Call discarded([&] {
    return Admin{inbox()}.discard(std::span{&delivery, 1}, {.reason = "not wanted"});
  });
  EXPECT_TRUE(waits_for_first(discarded));
  PgClient second(test_store().address());
  second.begin();
  Call edited([&] {
    return Admin{inbox()}.edit(second.session(), delivery.number, {.payload = payload("new")});
  });
  while (!edited.finished() && watcher_.value("select cardinality(pg_blocking_pids(" +
                                              std::to_string(second.pid()) + ")) > 0") != "t") {
  }
  first_.commit();
  EXPECT_EQ(discarded.get(), 1u);
  EXPECT_FALSE(edited.get()) << "it is discarded by then";
  second.commit();
  EXPECT_TRUE(log().events("retry").empty());
}

TEST_P(PostgresEditRace, an_edit_that_requeues_beside_an_accept_of_its_key_meets_no_deadlock) {
  const auto with_key = [](const char* id) {
    Arrival arrival = an_arrival(id);
    arrival.extras.partition_key = PartitionKey{"customer 1"};
    return arrival;
  };
  inbox().accept(with_key("evt_1"));
  inbox().fail(worker_a, inbox().claim(worker_a, 30s, 1), "boom");
  const DeliveryKey dead = delivery_of("evt_1");
  first_.begin();
  inbox().accept(first_.session(), with_key("evt_2"));
  Call edited([&] {
    return Admin{inbox()}.edit(dead.number, {.payload = payload("new"), .requeue = true});
  });
  EXPECT_TRUE(waits_for_first(edited));
  EXPECT_EQ(inbox().accept(first_.session(), with_key("evt_1")).state, Acceptance::duplicate_dead);
  first_.commit();
  EXPECT_TRUE(edited.get());
  EXPECT_TRUE(log().events("retry").empty());
}

TWINBOX_ON_BACKENDS(PostgresEditRace, Backend::postgres);

}  // namespace
}  // namespace twinbox::test
