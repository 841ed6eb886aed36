// A requeue that meets whoever deletes, claims or marks the same message.
#include "support/backend.hpp"
#include "support/postgres.hpp"
#include <twinbox/event_bus.hpp>
#include <twinbox/operations.hpp>

namespace twinbox::test {
namespace {

class PostgresRequeueRace : public BoxTest {
 protected:
  PostgresRequeueRace() : first_(test_store().address()), watcher_(test_store().address()) {
    inbox().accept(an_arrival());
    inbox().fail(worker_a, inbox().claim(worker_a, 30s, 1), "boom");
    dead_ = Admin{inbox()}.list({.state = StateFilter::dead}).entries.at(0).delivery.key;
  }

  /// Begins a transaction that requeues the dead delivery, and leaves it open.
  void requeue_in_first() {
    first_.begin();
    ASSERT_EQ(Admin{inbox()}.requeue(first_.session(), std::span{&dead_, 1}), 1u);
  }
  template <class Result>
  bool waits_for_first(const Call<Result>& call) {
    return waits_for(call, first_, watcher_);
  }
  std::string rows() {
    return read(
        "select (select count(*) from {schema}inbox_message) || ' message, ' || "
        "(select count(*) from {schema}inbox_work) || ' open, ' || "
        "(select count(*) from {schema}inbox_outcome) || ' finished'");
  }

  PgClient first_;
  PgClient watcher_;
  DeliveryKey dead_{0};
};

TEST_P(PostgresRequeueRace, prune_passes_over_a_dead_message_that_is_being_requeued) {
  requeue_in_first();
  Call pruned([&] { return inbox().prune({.older_than = 0s, .include_dead = true}); });
  EXPECT_FALSE(waits_for_first(pruned));
  first_.commit();
  EXPECT_EQ(pruned.get(), 0u);
  EXPECT_EQ(rows(), "1 message, 1 open, 0 finished");
  EXPECT_EQ(inbox().claim(worker_b, 30s, 1).size(), 1u);
}

TEST_P(PostgresRequeueRace, the_gate_waits_for_a_requeue_and_stays_shut) {
  requeue_in_first();
  Call claimed([&] { return inbox().try_claim(a_key(), Topic{"payment.received"}); });
  EXPECT_TRUE(waits_for_first(claimed));
  first_.commit();
  EXPECT_FALSE(claimed.get());
  EXPECT_EQ(rows(), "1 message, 1 open, 0 finished");
}

TEST_P(PostgresRequeueRace, mark_processed_waits_for_a_requeue_and_ends_what_it_brought) {
  requeue_in_first();
  Call marked([&] { return inbox().mark_processed(a_key()); });
  EXPECT_TRUE(waits_for_first(marked));
  first_.commit();
  EXPECT_TRUE(marked.get());
  EXPECT_EQ(rows(), "1 message, 0 open, 1 finished");
}

TEST_P(PostgresRequeueRace, removal_of_a_finished_event_waits_for_an_accept_that_adds_work) {
  EventInboxStore store{inbox(), worker_a};
  const Arrival again{Source::none(), MessageId{"e1"}, Topic{"t"}, payload()};
  const HandlerName late{HandlerKey{"late"}};
  const HandlerName handlers[] = {{HandlerKey{"a"}}};
  inbox().accept(std::span{&again, 1}, handlers);
  inbox().ack(worker_a, inbox().claim(worker_a, 30s, 10));
  const auto finished = store.for_cleanup(clock().now(), 10);
  ASSERT_EQ(finished.size(), 1u);
  first_.begin();
  inbox().accept(first_.session(), again, std::span{&late, 1});
  Call beside([&] { return store.remove(finished); });
  EXPECT_TRUE(waits_for_first(beside));
  first_.commit();
  EXPECT_EQ(beside.get(), 0u);
  EXPECT_EQ(inbox().claim(worker_b, 30s, 10).size(), 1u);
}

TWINBOX_ON_BACKENDS(PostgresRequeueRace, Backend::postgres);

}  // namespace
}  // namespace twinbox::test
