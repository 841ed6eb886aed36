// Partition keys: one after the other inside a key, side by side across keys.
#include "support/outbox_test.hpp"
#include <twinbox/operations.hpp>

namespace twinbox::test {
namespace {

class PartitionKeys : public OutboxTest {
 protected:
  static NewMessage keyed(const std::string& topic, const std::string& key) {
    NewMessage message = a_message(topic);
    message.extras.partition_key = PartitionKey{key};
    return message;
  }
  void enqueue(const std::string& topic, const std::string& key) {
    outbox().enqueue(keyed(topic, key));
    clock().advance(1s);
  }
  std::vector<Message> claim() { return outbox().claim(worker_a, 30s, 100); }
  static std::vector<std::string> list(std::initializer_list<std::string> topics) { return topics; }
};

TEST_P(PartitionKeys, messages_of_a_key_go_one_after_the_other_in_their_order) {
  for (const char* topic : {"1", "2", "3"}) enqueue(topic, "k");
  for (const char* topic : {"1", "2", "3"}) {
    const auto messages = claim();
    ASSERT_EQ(topics_of(messages), list({topic}));
    EXPECT_TRUE(claim().empty());
    ASSERT_EQ(outbox().ack(worker_a, messages), 1u);
  }
  EXPECT_TRUE(claim().empty());
}

TEST_P(PartitionKeys, keys_go_side_by_side_and_messages_without_one_are_free) {
  enqueue("a1", "a");
  enqueue("a2", "a");
  enqueue("b1", "b");
  outbox().enqueue(a_message("free"));
  outbox().enqueue(a_message("free"));
  EXPECT_EQ(topics_of(claim()), list({"a1", "b1", "free", "free"}));
}

TEST_P(PartitionKeys, a_batch_keeps_its_order_whatever_the_ids_are) {
  std::vector<NewMessage> batch{keyed("1", "k"), keyed("2", "k"), keyed("3", "k")};
  batch[0].id = MessageId{"zz"};
  batch[1].id = MessageId{"mm"};
  batch[2].id = MessageId{"aa"};
  outbox().enqueue(batch);
  for (const char* topic : {"1", "2", "3"}) {
    const auto messages = claim();
    ASSERT_EQ(topics_of(messages), list({topic}));
    ASSERT_EQ(outbox().ack(worker_a, messages), 1u);
  }
}

TEST_P(PartitionKeys, a_head_in_backoff_holds_its_key) {
  enqueue("1", "k");
  enqueue("2", "k");
  ASSERT_EQ(outbox().abandon(worker_a, claim(), "error", 10s), 1u);
  EXPECT_TRUE(claim().empty());
  clock().advance(10s);
  EXPECT_EQ(topics_of(claim()), list({"1"}));
}

TEST_P(PartitionKeys, a_head_that_is_not_yet_due_holds_its_key) {
  NewMessage later = keyed("1", "k");
  later.extras.due_at = clock().now() + 1h;
  outbox().enqueue(later);
  enqueue("2", "k");
  EXPECT_TRUE(claim().empty());
  clock().advance(1h);
  EXPECT_EQ(topics_of(claim()), list({"1"}));
}

TEST_P(PartitionKeys, a_released_or_reaped_head_stays_the_head) {
  enqueue("1", "k");
  enqueue("2", "k");
  ASSERT_EQ(outbox().release(worker_a, claim()), 1u);
  EXPECT_EQ(topics_of(claim()), list({"1"}));
  clock().advance(31s);
  ASSERT_EQ(outbox().reap(), 1u);
  EXPECT_EQ(topics_of(claim()), list({"1"}));
}

TEST_P(PartitionKeys, an_operator_cannot_release_a_message_past_its_head) {
  enqueue("1", "k");
  enqueue("2", "k");
  const auto head = claim();
  std::vector<DeliveryId> all;
  for (std::int64_t id = 1; id <= 10; ++id) all.emplace_back(head.at(0).delivery_id.number() + id);
  outbox().release(all);
  outbox().postpone(all, clock().now());
  EXPECT_TRUE(claim().empty());
}

TEST_P(PartitionKeys, a_dead_head_lets_its_key_go_on) {
  enqueue("1", "k");
  enqueue("2", "k");
  ASSERT_EQ(outbox().fail(worker_a, claim(), "error"), 1u);
  EXPECT_EQ(topics_of(claim()), list({"2"}));
}

TEST_P(PartitionKeys, a_requeued_message_goes_to_the_end_of_its_key) {
  enqueue("1", "k");
  enqueue("2", "k");
  enqueue("3", "k");
  ASSERT_EQ(outbox().fail(worker_a, claim(), "error"), 1u);
  ASSERT_EQ(Admin(outbox()).requeue(Filter{.topic = Topic{"1"}}), 1u);
  for (const char* topic : {"2", "3", "1"}) {
    const auto messages = claim();
    ASSERT_EQ(topics_of(messages), list({topic}));
    ASSERT_EQ(outbox().ack(worker_a, messages), 1u);
  }
}

TEST_P(PartitionKeys, a_discarded_message_lets_the_next_one_go) {
  enqueue("1", "k");
  enqueue("2", "k");
  enqueue("3", "k");
  ASSERT_EQ(Admin(outbox()).discard(Filter{.state = StateFilter::open, .topic = Topic{"2"}},
                                    {.reason = "test"}),
            1u);
  const auto head = claim();
  ASSERT_EQ(topics_of(head), list({"1"}));
  EXPECT_TRUE(claim().empty());
  ASSERT_EQ(outbox().ack(worker_a, head), 1u);
  EXPECT_EQ(topics_of(claim()), list({"3"}));
}

TEST_P(PartitionKeys, many_heads_that_end_in_one_call_each_let_the_next_one_go) {
  for (int i = 0; i < 10; ++i) {
    enqueue("first", "k" + std::to_string(i));
    enqueue("second", "k" + std::to_string(i));
  }
  const auto heads = claim();
  ASSERT_EQ(topics_of(heads), std::vector<std::string>(10, "first"));
  ASSERT_EQ(outbox().ack(worker_a, heads), 10u);
  EXPECT_EQ(topics_of(claim()), std::vector<std::string>(10, "second"));
}

TEST_P(PartitionKeys, each_handler_has_its_own_order) {
  const std::vector<HandlerName> handlers{{HandlerKey{"mail"}}, {HandlerKey{"stock"}}};
  for (const char* id : {"1", "2"}) {
    Arrival arrival = an_arrival(id);
    arrival.extras.partition_key = PartitionKey{"k"};
    inbox().accept(arrival, handlers);
    clock().advance(1s);
  }
  const auto heads = inbox().claim(worker_a, 30s, 10);
  ASSERT_EQ(names_of(heads), list({"1", "1"}));
  ASSERT_NE(heads[0].handler, heads[1].handler);
  ASSERT_EQ(inbox().ack(worker_a, heads[0]), 1u);
  const auto next = inbox().claim(worker_a, 30s, 10);
  ASSERT_EQ(names_of(next), list({"2"}));
  EXPECT_EQ(next[0].handler, heads[0].handler);
}

TEST_P(PartitionKeys, a_repeated_enqueue_keeps_its_place_in_the_key) {
  NewMessage first = keyed("1", "k");
  first.id = MessageId{"first"};
  outbox().enqueue(first);
  clock().advance(1s);
  enqueue("2", "k");
  outbox().enqueue(first);
  EXPECT_EQ(topics_of(claim()), list({"1"}));
  EXPECT_TRUE(claim().empty());
}

TEST_P(PartitionKeys, keys_are_compared_byte_by_byte) {
  enqueue("1", "Key");
  enqueue("2", "key");
  enqueue("3", on_sqlserver() ? "kEy" : "key ");  // which takes no blank at the end
  EXPECT_EQ(topics_of(claim()), list({"1", "2", "3"}));
}

TWINBOX_ON_EVERY_BACKEND(PartitionKeys);

}  // namespace
}  // namespace twinbox::test
