// BoxOptions::max_age: a delivery that is postponed or retried for ever ends as a dead letter.
#include "support/housekeeping_test.hpp"
#include "support/outbox_test.hpp"
#include <twinbox/operations.hpp>

namespace twinbox::test {
namespace {

class MaxAge : public OutboxTest {
 protected:
  MaxAge() {
    BoxOptions mortal = options();
    mortal.max_age = 1h;
    box_ = std::make_unique<Outbox>(database(), mortal);
    outbox();
  }

  MessageId enqueue(const std::string& id, const std::string& key = {}) {
    NewMessage message = a_message(id);
    message.id = MessageId{id};
    if (!key.empty()) message.extras.partition_key = PartitionKey{key};
    return box_->enqueue(message).id;
  }
  void postpone_all(Duration delay) {
    const auto messages = box_->claim(worker_a, 30s, 10);
    ASSERT_FALSE(messages.empty());
    ASSERT_EQ(box_->postpone(worker_a, messages, clock().now() + delay), messages.size());
    clock().advance(delay);
  }
  std::vector<std::string> open() { return topics_of(box_->claim(worker_b, 30s, 100)); }
  using Topics = std::vector<std::string>;

  static HousekeepingOptions expiring(std::int64_t batch = 1000) {
    HousekeepingOptions options;
    options.reap.enabled = options.prune.enabled = false;
    options.expire.batch = batch;
    return options;
  }
  /// What a chore ended.
  std::size_t swept(std::int64_t batch = 1000) {
    clock().advance(30s);
    const HousekeepingReport report = Housekeeping(*box_, expiring(batch)).step();
    EXPECT_EQ(report.chores.at(0).end, ChoreReport::End::done);
    return report.chores.at(0).count;
  }

  std::unique_ptr<Outbox> box_;
};

TEST_P(MaxAge, ends_what_is_postponed_again_and_again) {
  enqueue("old");
  for (int i = 0; i < 5; ++i) {
    postpone_all(10min);
    EXPECT_EQ(swept(), 0u);
  }
  postpone_all(10min);
  enqueue("young");
  EXPECT_EQ(swept(), 1u);
  EXPECT_EQ(shown("Status", "old"), "3");
  EXPECT_EQ(read("select reason from {schema}outbox_outcome"), "max_age");
  EXPECT_EQ(log().events("dead").at(0).field("reason"), "max_age");
  EXPECT_EQ(open(), Topics{"young"});
}

TEST_P(MaxAge, counts_from_the_creation_to_the_microsecond) {
  enqueue("a");
  clock().advance(1h - 1us);
  EXPECT_EQ(box_->expire(), 0u);
  clock().advance(1us);
  EXPECT_EQ(box_->expire(), 1u);
}

TEST_P(MaxAge, ends_what_is_retried_and_keeps_its_last_error) {
  enqueue("a");
  ASSERT_EQ(box_->abandon(worker_a, box_->claim(worker_a, 30s, 1), "timeout", 2h), 1u);
  clock().advance(1h);
  EXPECT_EQ(box_->expire(), 1u);
  EXPECT_EQ(shown("LastError"), "timeout");
  EXPECT_EQ(shown("RetryCount"), "1");
}

TEST_P(MaxAge, leaves_alone_what_is_leased_until_the_lease_has_run_out) {
  enqueue("a");
  const auto held = box_->claim(worker_a, 2h, 1);
  clock().advance(90min);
  EXPECT_EQ(swept(), 0u);
  EXPECT_EQ(box_->ack(worker_a, held), 1u);
  enqueue("b");
  const auto lost = box_->claim(worker_a, 30s, 1);
  clock().advance(1h);
  EXPECT_EQ(swept(), 1u);
  EXPECT_EQ(box_->ack(worker_a, lost), 0u);
}

TEST_P(MaxAge, lets_the_next_of_a_partition_key_go) {
  enqueue("head", "k");
  clock().advance(30min);
  enqueue("next", "k");
  postpone_all(30min);
  EXPECT_EQ(swept(), 1u);
  EXPECT_EQ(open(), Topics{"next"});
}

TEST_P(MaxAge, leaves_alone_what_an_operator_has_requeued) {
  enqueue("a");
  clock().advance(1h);
  ASSERT_EQ(swept(), 1u);
  Admin admin{*box_};
  const DeliveryKey dead = admin.list({.state = StateFilter::dead}).entries.at(0).delivery.key;
  ASSERT_EQ(admin.requeue(std::span{&dead, 1}), 1u);
  EXPECT_EQ(swept(), 0u);
  EXPECT_EQ(open(), Topics{"a"});
}

TEST_P(MaxAge, works_in_batches_behind_what_it_leaves_alone) {
  for (int i = 0; i < 10; ++i) enqueue("m" + std::to_string(i));
  ASSERT_EQ(box_->claim(worker_a, 24h, 2).size(), 2u);
  clock().advance(1h);
  for (int i = 0; i < 3; ++i) enqueue("young" + std::to_string(i));
  EXPECT_EQ(swept(3), 8u);
  EXPECT_EQ(rows("work"), 5);
}

TEST_P(MaxAge, a_message_from_the_future_hides_nothing) {
  clock().advance(24h);
  enqueue("future");
  clock().advance(-24h);
  enqueue("old");
  clock().advance(1h);
  enqueue("young");
  EXPECT_EQ(swept(), 1u);
  EXPECT_EQ(shown("Status", "old"), "3");
  EXPECT_EQ(rows("work"), 2);
}

TEST_P(MaxAge, ends_every_open_delivery_of_a_message_and_no_other) {
  BoxOptions mortal = options();
  mortal.max_age = 1h;
  Inbox box(database(), mortal);
  const std::vector<HandlerName> handlers{{HandlerKey{"ledger"}}, {HandlerKey{"mail"}}};
  box.accept(an_arrival(), handlers);
  const auto claimed = box.claim(worker_a, 30s, 10);
  ASSERT_EQ(claimed.size(), 2u);
  ASSERT_EQ(box.ack(worker_a, claimed[0]), 1u);
  ASSERT_EQ(box.postpone(worker_a, claimed[1], clock().now() + 10h), 1u);
  clock().advance(1h);
  EXPECT_EQ(box.expire(), 1u);
  EXPECT_EQ(read("select count(*) from {schema}inbox_outcome where state = 1"), "1");
  EXPECT_EQ(read("select count(*) from {schema}inbox_outcome where state = 2"), "1");
}

TEST_P(MaxAge, without_it_nothing_ends) {
  outbox().enqueue(a_message());
  clock().advance(24h * 3650);
  EXPECT_EQ(outbox().expire(), 0u);
}

TEST_P(MaxAge, the_observer_of_a_dispatcher_is_told_the_reason) {
  enqueue("a");
  clock().advance(1h);
  std::vector<std::string> told;
  Housekeeping house(*box_, expiring(), {},
                     [&](std::span<const Message> dead, std::string_view reason) {
                       for (const Message& message : dead)
                         told.push_back(message.id.str() + " " + std::string{reason});
                     });
  house.step();
  EXPECT_EQ(told, std::vector<std::string>{"a max_age"});
}

TEST_P(MaxAge, is_refused_unless_it_is_longer_than_zero) {
  for (const Duration wrong : {Duration{0}, Duration{-1h}}) {
    BoxOptions options = this->options();
    options.max_age = wrong;
    try {
      Outbox box(database(), options);
      FAIL() << "taken";
    } catch (const std::out_of_range& error) {
      EXPECT_NE(std::string{error.what()}.find("max_age: must be longer than zero"),
                std::string::npos)
          << error.what();
    }
  }
}

TWINBOX_ON_EVERY_BACKEND(MaxAge);

}  // namespace
}  // namespace twinbox::test
