// Per-handler deliveries as rows: their ids, who may write them, when they can be seen.
#include <atomic>
#include <future>
#include <latch>
#include <thread>

#include "support/inbox_test.hpp"
#include <twinbox/dispatcher.hpp>

namespace twinbox::test {
namespace {

class DeliveryRow : public InboxTest {
 protected:
  void accept(const std::string& id = "evt_1") { inbox().accept(an_arrival(id), handlers); }

  const std::vector<HandlerName> handlers{{HandlerKey{"mail"}}, {HandlerKey{"stock"}}};
};

TEST_P(DeliveryRow, PHD_16_a_stale_writer_changes_nothing) {
  accept();
  const auto stale = inbox().claim(worker_a, 30s, 2);
  ASSERT_EQ(stale.size(), 2u);
  clock().advance(31s);
  // Both are handed out alone now, since a worker died with them; the second claim is by the same
  // owner as the stale one.
  const auto first = inbox().claim(worker_b, 30s, 1);
  const auto second = inbox().claim(worker_a, 30s, 1);
  ASSERT_EQ(first.size() + second.size(), 2u);
  const auto before = detail().deliveries;
  EXPECT_EQ(inbox().ack(worker_a, stale), 0u);
  EXPECT_EQ(inbox().abandon(worker_a, stale, "late"), 0u);
  EXPECT_EQ(inbox().fail(worker_a, stale, "late"), 0u);
  EXPECT_EQ(inbox().release(worker_a, stale), 0u);
  EXPECT_EQ(inbox().postpone(worker_a, stale, clock().now() + 1h), 0u);
  EXPECT_TRUE(inbox().renew(worker_a, stale, 1h).empty());
  const auto after = detail().deliveries;
  ASSERT_EQ(after.size(), before.size());
  for (std::size_t i = 0; i < after.size(); ++i) {
    EXPECT_EQ(after[i].state, DeliveryState::leased);
    EXPECT_EQ(after[i].owner, before[i].owner);
    EXPECT_EQ(after[i].lease_until, before[i].lease_until);
    EXPECT_EQ(after[i].attempts, 0);
    EXPECT_EQ(after[i].last_error, "");
  }
  EXPECT_TRUE(detail().timeline.empty());
  EXPECT_EQ(inbox().ack(worker_b, first), 1u);
  EXPECT_EQ(inbox().ack(worker_a, second), 1u);
}

TEST_P(DeliveryRow, PHD_16_of_two_writers_at_once_one_changes_the_row) {
  for (std::size_t i = 0; i < 2; ++i) other_inbox(i);
  for (int round = 0; round < 20; ++round) {
    const std::string id = "evt_" + std::to_string(round);
    const auto held = inbox().accept_and_claim(an_arrival(id), worker_a, 30s).messages;
    ASSERT_EQ(held.size(), 1u);
    std::atomic<std::size_t> changed = 0;
    race(2, [&](int side) {
      Inbox& mine = other_inbox(static_cast<std::size_t>(side));
      changed += side == 0 ? mine.ack(worker_a, held) : mine.fail(worker_a, held, "no");
    });
    EXPECT_EQ(changed, 1u) << "round " << round;
  }
}

TEST_P(DeliveryRow, PHD_35_ids_ascend_and_are_never_used_twice) {
  DeliveryId last{0};
  for (int round = 0; round < 4; ++round) {
    SCOPED_TRACE(round);
    accept("evt_" + std::to_string(round));
    const auto held = inbox().claim(worker_a, 30s, 10);
    ASSERT_EQ(held.size(), 2u);
    for (const Message& message : held) {
      EXPECT_GT(message.delivery_id, last);
      last = message.delivery_id;
    }
    ASSERT_EQ(inbox().ack(worker_a, held[0]), 1u);
    ASSERT_EQ(inbox().fail(worker_a, held[1], "poisoned"), 1u);
    ASSERT_EQ(Admin{inbox()}.requeue(Filter{.state = StateFilter::dead}), 1u);
    const auto again = inbox().claim(worker_a, 30s, 10);
    ASSERT_EQ(again.size(), 1u);
    EXPECT_GT(again[0].delivery_id, last) << "a requeue is a new one";
    last = again[0].delivery_id;
    ASSERT_EQ(inbox().ack(worker_a, again), 1u);
    clock().advance(1s);
    ASSERT_EQ(inbox().prune({.older_than = 0s}), 1u);
    EXPECT_EQ(read("select count(*) from {schema}inbox_work"), "0") << "empty, and still no reuse";
  }
}

TEST_P(DeliveryRow, PHD_40_nothing_is_delivered_before_its_accept_has_committed) {
  int calls = 0;
  Handlers on;
  for (const char* key : {"mail", "stock"})
    on.on_key(HandlerKey{key}, [&](const Message&) { ++calls; });
  Dispatcher dispatcher(inbox(), on);
  Inbox& other = other_inbox(0);
  EXPECT_THROW(database().in_transaction([&](Session& session) {
    inbox().accept(session, an_arrival(), handlers);
    throw std::runtime_error("rolled back");
  }),
               std::runtime_error);
  EXPECT_EQ(dispatcher.drain(), 0u);
  std::atomic<bool> body_is_over = false;
  std::vector<Message> claimed;
  std::future<bool> claiming;
  database().in_transaction([&](Session& session) {
    inbox().accept(session, an_arrival(), handlers);
    if (GetParam() != Backend::sqlite_memory) {
      EXPECT_EQ(Admin{other}.counts().all.open(), 0);
      EXPECT_EQ(other.state(a_key()), std::nullopt);
    }
    if (on_sqlite()) {
      // A claim waits for the one writer to end; in memory there is but one connection.
      std::latch trying{1};
      claiming = std::async(std::launch::async, [&] {
        trying.count_down();
        claimed = other.claim(worker_b, 30s, 10);
        return body_is_over.load();
      });
      trying.wait();
      for (int i = 0; i < 1000; ++i) std::this_thread::yield();
    } else {
      EXPECT_TRUE(other.claim(worker_b, 30s, 10).empty());
    }
    body_is_over = true;
  });
  if (claiming.valid()) {
    EXPECT_TRUE(claiming.get()) << "claimed before the commit";
    EXPECT_EQ(claimed.size(), 2u);
    EXPECT_EQ(other.release(worker_b, claimed), 2u);
  }
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(dispatcher.drain(), 2u);
  EXPECT_EQ(calls, 2);
}

TWINBOX_ON_EVERY_BACKEND(DeliveryRow);

class EventBusStore : public BoxTest {};

TEST_P(EventBusStore, EVB_08_retries_after_one_two_four_minutes_and_gives_up_after_five_failures) {
  BoxOptions event_bus = options();
  event_bus.retry = RetryPolicy::event_bus();
  Outbox box(database(), event_bus);
  Handlers handlers;
  handlers.on(Topic{"order.placed"},
              [](const Message&) { throw std::runtime_error(std::string(5000, 'x')); });
  Dispatcher dispatcher(box, std::move(handlers));
  box.enqueue(a_message());
  const auto delivery = [&] { return Admin{box}.list({}).entries.at(0).delivery; };
  for (const Duration expected : {Duration{1min}, Duration{2min}, Duration{4min}, Duration{8min}}) {
    ASSERT_EQ(dispatcher.drain(), 1u);
    EXPECT_EQ(delivery().state, DeliveryState::scheduled);
    EXPECT_EQ(*delivery().visible_at - clock().now(), expected);
    EXPECT_GT(delivery().last_error.size(), 3900u);
    EXPECT_LE(delivery().last_error.size(), 4002u)
        << "4 000 characters, with a mark of three bytes";
    clock().set(*delivery().visible_at);
  }
  ASSERT_EQ(dispatcher.drain(), 1u);
  EXPECT_EQ(delivery().state, DeliveryState::dead);
  EXPECT_EQ(delivery().attempts, 5);
  EXPECT_EQ(delivery().reason, "max_attempts");
}

TEST_P(EventBusStore, EVB_25_tenants_of_one_database_have_a_schema_each) {
  const TestStore second(GetParam());
  BoxOptions of_a = options();
  BoxOptions of_b = options();
  of_b.schema = on_sqlite() ? "tenant_b" : second.schema();
  Inbox a(database(), of_a);
  Inbox b(database(), of_b);
  EXPECT_FALSE(a.accept(an_arrival()).duplicate());
  EXPECT_FALSE(b.accept(an_arrival()).duplicate()) << "the same id is another message there";
  const auto held = a.claim(worker_a, 30s, 10);
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(b.ack(worker_a, held), 0u);
  EXPECT_EQ(a.ack(worker_a, held), 1u);
  EXPECT_TRUE(a.has_processed(a_key()));
  EXPECT_FALSE(b.has_processed(a_key()));
  EXPECT_EQ(a.prune({.older_than = 0s}), 1u);
  EXPECT_EQ(b.claim(worker_b, 30s, 10).size(), 1u);
  EXPECT_EQ(Admin{a}.counts(true).all.open(), 0);
  EXPECT_EQ(Admin{b}.counts(true).all.leased, 1);
}

TWINBOX_ON_EVERY_BACKEND(EventBusStore);

}  // namespace
}  // namespace twinbox::test
