// Locks that keep two transactions apart: partition keys, pruning, the order of a batch.
#include <functional>

#include "support/backend.hpp"
#include "support/postgres.hpp"
#include "support/slow_reader.hpp"
#include <twinbox/operations.hpp>

namespace twinbox::test {
namespace {

class PostgresLock : public BoxTest {
 protected:
  PostgresLock()
      : first_(test_store().address()),
        second_(test_store().address()),
        watcher_(test_store().address()) {
    inbox();
    outbox();
  }

  bool is_blocked(const PgClient& client) {
    return watcher_.value("select cardinality(pg_blocking_pids(" + std::to_string(client.pid()) +
                          ")) > 0") == "t";
  }

  template <class Result>
  void wait_until_blocked_or_finished(const Call<Result>& call, const PgClient& client) {
    while (!call.finished() && !is_blocked(client)) {
    }
  }

  void expect_no_deadlock_of_batches(const std::vector<HandlerName>& handlers);
  void expect_no_deadlock_with_ack(const std::function<std::size_t()>& end);

  /// A leased head, one behind it that has expired, and another one.
  std::vector<Message> enqueue_expiring();

  std::size_t retries() { return log().events("retry").size(); }

  PgClient first_;
  PgClient second_;
  PgClient watcher_;
};

NewMessage with_key(std::string id, std::string key = "customer 1") {
  NewMessage message = a_message();
  message.id = MessageId{std::move(id)};
  message.extras.partition_key = PartitionKey{std::move(key)};
  return message;
}

std::vector<Message> PostgresLock::enqueue_expiring() {
  NewMessage next = with_key("next");
  next.extras.expires_at = clock().now() + 1h;
  outbox().enqueue(std::vector<NewMessage>{with_key("head"), next, with_key("last")});
  auto head = outbox().claim(worker_a, 48h, 1);
  clock().advance(2h);
  return head;
}

TEST_P(PostgresLock, an_enqueue_beside_the_ack_of_its_keys_head_is_not_left_waiting) {
  outbox().enqueue(with_key("head"));
  const auto head = outbox().claim(worker_a, 30s, 1);
  first_.begin();
  ASSERT_EQ(outbox().ack(first_.session(), worker_a, head), 1u);
  Call next([&] { return outbox().enqueue(with_key("next")); });
  EXPECT_TRUE(waits_for(next, first_, watcher_));
  first_.commit();
  next.get();
  EXPECT_EQ(outbox().claim(worker_a, 30s, 10).size(), 1u);
}

TEST_P(PostgresLock, an_ack_of_the_head_beside_an_enqueue_lets_the_new_one_go) {
  outbox().enqueue(with_key("head"));
  const auto head = outbox().claim(worker_a, 30s, 1);
  first_.begin();
  outbox().enqueue(first_.session(), with_key("next"));
  Call ack([&] { return outbox().ack(worker_a, head); });
  EXPECT_TRUE(waits_for(ack, first_, watcher_));
  first_.commit();
  EXPECT_EQ(ack.get(), 1u);
  EXPECT_EQ(outbox().claim(worker_a, 30s, 10).size(), 1u);
}

TEST_P(PostgresLock, two_first_messages_of_a_key_do_not_both_lead) {
  first_.begin();
  outbox().enqueue(first_.session(), with_key("one"));
  Call two([&] { return outbox().enqueue(with_key("two")); });
  EXPECT_TRUE(waits_for(two, first_, watcher_));
  first_.commit();
  two.get();
  const auto leading = outbox().claim(worker_a, 30s, 10);
  ASSERT_EQ(leading.size(), 1u);
  EXPECT_EQ(leading.front().id.str(), "one");
}

TEST_P(PostgresLock, messages_of_other_keys_do_not_wait) {
  first_.begin();
  outbox().enqueue(first_.session(), with_key("one"));
  Call two([&] { return outbox().enqueue(with_key("two", "customer 2")); });
  EXPECT_FALSE(waits_for(two, first_, watcher_));
  first_.commit();
  EXPECT_EQ(outbox().claim(worker_a, 30s, 10).size(), 2u);
}

TEST_P(PostgresLock, an_accept_beside_mark_processed_of_the_same_key_meets_no_deadlock) {
  Arrival arrival = an_arrival();
  arrival.extras.partition_key = PartitionKey{"customer 1"};
  inbox().accept(arrival);
  const auto held = inbox().claim(worker_a, 30s, 1);
  second_.begin();
  ASSERT_EQ(inbox().renew(second_.session(), worker_a, held, 60s).size(), 1u);
  Call mark([&] { return inbox().mark_processed(a_key()); });
  EXPECT_TRUE(waits_for(mark, second_, watcher_));
  first_.begin();
  Call again([&] {
    const auto accepted = inbox().accept(first_.session(), arrival);
    first_.commit();
    return accepted;
  });
  wait_until_blocked_or_finished(again, first_);
  second_.commit();
  EXPECT_TRUE(mark.get());
  EXPECT_EQ(again.get().state, Acceptance::duplicate_done);
  EXPECT_EQ(retries(), 0u);
}

/// Ends what waits behind the heads of two keys while the head of one is acked. The first key is
/// held, so that the ending stands in its middle.
void PostgresLock::expect_no_deadlock_with_ack(const std::function<std::size_t()>& end) {
  const auto hash = [&](const std::string& key) {
    return std::stoll(watcher_.value("select hashtextextended('" + key + "', '" +
                                     test_store().schema() +
                                     ".outbox_work'::regclass::oid::bigint)"));
  };
  std::string held = "customer 1";
  std::string acked = "customer 2";
  if (hash(acked) < hash(held)) std::swap(held, acked);
  const auto expiring = [&](const std::string& id, const std::string& key) {
    NewMessage message = with_key(id, key);
    message.extras.expires_at = clock().now() + 1h;
    return message;
  };
  outbox().enqueue(std::vector<NewMessage>{with_key("h1", held), with_key("h2", acked),
                                           expiring("n1", held), expiring("n2", acked),
                                           with_key("last", acked)});
  const auto heads = outbox().claim(worker_a, 48h, 10);
  ASSERT_EQ(heads.size(), 2u);
  clock().advance(2h);
  first_.begin();
  outbox().enqueue(first_.session(), with_key("more", held));
  Call ending(end);
  EXPECT_TRUE(waits_for(ending, first_, watcher_));
  second_.begin();
  const auto& head = heads.front().partition_key->str() == acked ? heads.front() : heads.back();
  Call ack([&] {
    const auto changed = outbox().ack(second_.session(), worker_a, head);
    second_.commit();
    return changed;
  });
  wait_until_blocked_or_finished(ack, second_);
  first_.commit();
  EXPECT_EQ(ack.get(), 1u);
  EXPECT_EQ(ending.get(), 2u);
  EXPECT_EQ(retries(), 0u);
  const auto next = outbox().claim(worker_a, 30s, 10);
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(next.front().id.str(), "last");
}

TEST_P(PostgresLock, an_ack_of_the_head_beside_an_expiry_of_what_waits_meets_no_deadlock) {
  const auto head = enqueue_expiring();
  first_.begin();
  ASSERT_EQ(outbox().expire(first_.session()), 1u);
  Call ack([&] { return outbox().ack(worker_a, head); });
  EXPECT_TRUE(waits_for(ack, first_, watcher_));
  first_.commit();
  EXPECT_EQ(ack.get(), 1u);
  EXPECT_EQ(retries(), 0u);
  EXPECT_EQ(outbox().claim(worker_a, 30s, 10).at(0).id.str(), "last");
}

TEST_P(PostgresLock, an_expiry_of_what_waits_beside_the_ack_of_its_head_leaves_it_for_later) {
  const auto head = enqueue_expiring();
  first_.begin();
  ASSERT_EQ(outbox().ack(first_.session(), worker_a, head), 1u);
  EXPECT_EQ(outbox().expire(), 0u);
  first_.commit();
  EXPECT_EQ(outbox().expire(), 1u);
  EXPECT_EQ(outbox().claim(worker_a, 30s, 10).at(0).id.str(), "last");
}

TEST_P(PostgresLock, a_discard_of_what_waits_beside_the_ack_of_its_head_meets_no_deadlock) {
  expect_no_deadlock_with_ack([&] {
    std::vector<DeliveryKey> waiting;
    for (const char* id : {"n1", "n2"}) {
      waiting.push_back({std::stoll(
          read("select number from {schema}outbox_message where id = '" + std::string{id} + "'"))});
    }
    return Admin(outbox()).discard(waiting, {.reason = "not wanted"});
  });
}

/// Two batches with the same messages in opposite order. Each is held in its middle until the other
/// stands in its way, if it can.
void PostgresLock::expect_no_deadlock_of_batches(const std::vector<HandlerName>& handlers) {
  const auto accept = [&](PgClient& client, const std::vector<const char*>& ids) {
    std::vector<Arrival> batch;
    for (const char* id : ids) batch.push_back(an_arrival(id));
    inbox().accept(client.session(), batch, handlers);
  };
  const auto accept_and_commit = [&](PgClient& client, const std::vector<const char*>& ids) {
    client.begin();
    accept(client, ids);
    client.commit();
    return true;
  };
  first_.begin();
  accept(first_, {"b"});
  second_.begin();
  accept(second_, {"c"});
  PgClient one(test_store().address());
  PgClient two(test_store().address());
  Call b_then_a([&] { return accept_and_commit(one, {"b", "a"}); });
  wait_until_blocked_or_finished(b_then_a, one);
  Call a_then_b([&] { return accept_and_commit(two, {"a", "c", "b"}); });
  wait_until_blocked_or_finished(a_then_b, two);
  first_.rollback();
  EXPECT_FALSE(waits_for(b_then_a, two, watcher_));
  second_.rollback();
  EXPECT_NO_THROW(b_then_a.get());
  EXPECT_NO_THROW(a_then_b.get());
}

TEST_P(PostgresLock, OBX_082_batches_in_opposite_order_meet_no_deadlock) {
  expect_no_deadlock_of_batches({});
  EXPECT_EQ(read("select count(*) from {schema}inbox_work"), "3");
}

TEST_P(PostgresLock, batches_for_handlers_in_opposite_order_meet_no_deadlock) {
  const std::vector<HandlerName> handlers{{HandlerKey{"mail"}}, {HandlerKey{"ledger"}}};
  for (const bool known : {false, true}) {
    SCOPED_TRACE(known);
    expect_no_deadlock_of_batches(handlers);
    EXPECT_EQ(read("select count(*) from {schema}inbox_work"), "6");
  }
}

TEST_P(PostgresLock, an_accept_that_waited_for_a_prune_is_a_new_message) {
  inbox().mark_processed(an_arrival());
  clock().advance(48h);
  first_.begin();
  ASSERT_EQ(inbox().prune(first_.session(), {.older_than = 24h}), 1u);
  Call again([&] { return inbox().accept(an_arrival()); });
  EXPECT_TRUE(waits_for(again, first_, watcher_));
  first_.commit();
  EXPECT_EQ(again.get().state, Acceptance::accepted);
  EXPECT_EQ(inbox().claim(worker_a, 30s, 10).size(), 1u);
}

TEST_P(PostgresLock, a_prune_passes_over_what_is_being_accepted) {
  const std::vector<HandlerName> mail{{HandlerKey{"mail"}}};
  const std::vector<HandlerName> ledger{{HandlerKey{"ledger"}}};
  inbox().accept(an_arrival(), mail);
  inbox().mark_processed(a_key());
  clock().advance(48h);
  first_.begin();
  inbox().accept(first_.session(), an_arrival(), ledger);
  Call prune([&] { return inbox().prune({.older_than = 24h}); });
  EXPECT_FALSE(waits_for(prune, first_, watcher_));
  first_.commit();
  EXPECT_EQ(prune.get(), 0u);
  EXPECT_EQ(inbox().claim(worker_a, 30s, 10).size(), 1u);
}

TEST_P(PostgresLock, a_prune_looks_again_at_what_an_accept_has_changed_since) {
  const std::vector<HandlerName> mail{{HandlerKey{"mail"}}};
  const std::vector<HandlerName> ledger{{HandlerKey{"ledger"}}};
  for (const char* id : {"evt_1", "evt_2"}) {
    inbox().accept(an_arrival(id), mail);
    inbox().mark_processed(a_key(id));
  }
  clock().advance(48h);
  SlowReader slow(first_, Schema(database(), BoxKind::inbox, options()), test_store().schema(),
                  "inbox_message", "id = 'evt_1'");
  Database database(slow.address(test_store().address()), {}, environment());
  BoxOptions opened = options();
  opened.deploy_schema = false;
  Inbox pruned(database, opened);
  Call prune([&] { return pruned.prune({.older_than = 24h}); });
  EXPECT_TRUE(waits_for(prune, first_, watcher_));
  EXPECT_EQ(inbox().accept(an_arrival("evt_2"), ledger).state, Acceptance::accepted);
  slow.on_progress();
  EXPECT_EQ(prune.get(), 1u);
  EXPECT_EQ(inbox().claim(worker_a, 30s, 10).size(), 1u);
}

TWINBOX_ON_BACKENDS(PostgresLock, Backend::postgres);

}  // namespace
}  // namespace twinbox::test
