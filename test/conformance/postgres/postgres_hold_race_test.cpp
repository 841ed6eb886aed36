// A key that a dead letter holds, and two transactions that meet there: each test keeps one of them
// open at the point where the other must wait and look again.
#include "support/backend.hpp"
#include "support/postgres.hpp"
#include <twinbox/operations.hpp>

namespace twinbox::test {
namespace {

class PostgresHoldRace : public BoxTest {
 protected:
  PostgresHoldRace() : first_(test_store().address()), watcher_(test_store().address()) {
    BoxOptions holding = options();
    holding.hold_keys = true;
    strict_ = std::make_unique<Outbox>(database(), holding);
    strict_->enqueue(keyed("head"));
    head_ = strict_->claim(worker_a, 30s, 1);
  }

  static NewMessage keyed(const std::string& id) {
    NewMessage message = a_message();
    message.id = MessageId{id};
    message.extras.partition_key = PartitionKey{"k"};
    return message;
  }
  void kill_head() { ASSERT_EQ(strict_->fail(worker_a, head_, "boom"), 1u); }
  DeliveryKey dead() {
    return Admin{*strict_}.list({.state = StateFilter::dead}).entries.at(0).delivery.key;
  }
  std::size_t requeue(auto&... session) {
    const DeliveryKey delivery = dead();
    return Admin{*strict_}.requeue(session..., std::span{&delivery, 1});
  }
  std::size_t discard(auto&... session) {
    const DeliveryKey delivery = dead();
    return Admin{*strict_}.discard(session..., std::span{&delivery, 1}, {.reason = "test"});
  }
  template <class Result>
  bool waits_for_first(const Call<Result>& call) {
    return waits_for(call, first_, watcher_);
  }
  /// Claims all that may go, and ends it.
  std::vector<std::string> go() {
    const auto messages = strict_->claim(worker_a, 30s, 10);
    strict_->ack(worker_a, messages);
    std::vector<std::string> ids;
    for (const Message& message : messages) ids.push_back(message.id.str());
    return ids;
  }
  using Ids = std::vector<std::string>;

  PgClient first_;
  PgClient watcher_;
  std::unique_ptr<Outbox> strict_;
  std::vector<Message> head_;
};

TEST_P(PostgresHoldRace, an_enqueue_beside_the_death_of_the_head_waits_behind_it) {
  first_.begin();
  ASSERT_EQ(strict_->fail(first_.session(), worker_a, head_, "boom"), 1u);
  Call next([&] { return strict_->enqueue(keyed("next")); });
  EXPECT_TRUE(waits_for_first(next));
  first_.commit();
  next.get();
  EXPECT_EQ(go(), Ids{});
  EXPECT_EQ(discard(), 1u);
  EXPECT_EQ(go(), Ids{"next"});
}

TEST_P(PostgresHoldRace, the_death_of_the_head_beside_an_enqueue_lets_nobody_go) {
  first_.begin();
  strict_->enqueue(first_.session(), keyed("next"));
  Call death([&] { return strict_->fail(worker_a, head_, "boom"); });
  EXPECT_TRUE(waits_for_first(death));
  first_.commit();
  EXPECT_EQ(death.get(), 1u);
  EXPECT_EQ(go(), Ids{});
  EXPECT_EQ(discard(), 1u);
  EXPECT_EQ(go(), Ids{"next"});
}

TEST_P(PostgresHoldRace, an_enqueue_beside_a_requeue_waits_behind_what_was_requeued) {
  kill_head();
  first_.begin();
  ASSERT_EQ(requeue(first_.session()), 1u);
  Call next([&] { return strict_->enqueue(keyed("next")); });
  EXPECT_TRUE(waits_for_first(next));
  first_.commit();
  next.get();
  EXPECT_EQ(go(), Ids{"head"});
  EXPECT_EQ(go(), Ids{"next"});
}

TEST_P(PostgresHoldRace, a_requeue_beside_an_enqueue_goes_first) {
  kill_head();
  first_.begin();
  strict_->enqueue(first_.session(), keyed("next"));
  Call again([&] { return requeue(); });
  EXPECT_TRUE(waits_for_first(again));
  first_.commit();
  EXPECT_EQ(again.get(), 1u);
  EXPECT_EQ(go(), Ids{"head"});
  EXPECT_EQ(go(), Ids{"next"});
}

TEST_P(PostgresHoldRace, an_enqueue_beside_a_discard_is_free) {
  kill_head();
  first_.begin();
  ASSERT_EQ(discard(first_.session()), 1u);
  Call next([&] { return strict_->enqueue(keyed("next")); });
  EXPECT_TRUE(waits_for_first(next));
  first_.commit();
  next.get();
  EXPECT_EQ(go(), Ids{"next"});
}

TEST_P(PostgresHoldRace, a_discard_beside_an_enqueue_lets_the_new_one_go) {
  kill_head();
  first_.begin();
  strict_->enqueue(first_.session(), keyed("next"));
  Call end([&] { return discard(); });
  EXPECT_TRUE(waits_for_first(end));
  first_.commit();
  EXPECT_EQ(end.get(), 1u);
  EXPECT_EQ(go(), Ids{"next"});
}

TEST_P(PostgresHoldRace, the_end_of_what_was_requeued_beside_an_enqueue_lets_the_new_one_go) {
  kill_head();
  ASSERT_EQ(requeue(), 1u);
  head_ = strict_->claim(worker_a, 30s, 1);
  first_.begin();
  strict_->enqueue(first_.session(), keyed("next"));
  Call end([&] { return strict_->ack(worker_a, head_); });
  EXPECT_TRUE(waits_for_first(end));
  first_.commit();
  EXPECT_EQ(end.get(), 1u);
  EXPECT_EQ(go(), Ids{"next"});
}

TWINBOX_ON_BACKENDS(PostgresHoldRace, Backend::postgres);

}  // namespace
}  // namespace twinbox::test
