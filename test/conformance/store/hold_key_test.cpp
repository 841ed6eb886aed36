// BoxOptions::hold_keys: a dead letter holds its partition key until a person has decided.
#include "support/outbox_test.hpp"
#include <twinbox/dispatcher.hpp>
#include <twinbox/health.hpp>
#include <twinbox/operations.hpp>

namespace twinbox::test {
namespace {

using Names = std::vector<std::string>;

class HoldKeys : public OutboxTest {
 protected:
  BoxOptions holding() {
    BoxOptions result = options();
    result.hold_keys = true;
    return result;
  }
  Outbox& strict() {
    if (!strict_) strict_ = std::make_unique<Outbox>(database(), holding());
    return *strict_;
  }
  Admin admin() { return Admin{strict()}; }

  void enqueue(const std::string& topic, const std::string& key = "k") {
    NewMessage message = a_message(topic);
    message.id = MessageId{topic};
    message.extras.partition_key = PartitionKey{key};
    strict().enqueue(message);
    clock().advance(1s);
  }
  std::vector<Message> claim() { return strict().claim(worker_a, 30s, 100); }
  /// Claims one, which must be `topic`, and lets it die.
  void kill(const std::string& topic) {
    const auto messages = claim();
    ASSERT_EQ(topics_of(messages), Names{topic});
    ASSERT_EQ(strict().fail(worker_a, messages, "boom"), 1u);
  }
  void finish(const std::string& topic) {
    const auto messages = claim();
    ASSERT_EQ(topics_of(messages), Names{topic});
    ASSERT_EQ(strict().ack(worker_a, messages), 1u);
  }
  static Filter dead(const std::string& topic) {
    return {.state = StateFilter::dead, .topic = Topic{topic}};
  }
  /// What holds which key: "1 holds k, 2 wait".
  Names held() {
    Names result;
    for (const HeldKey& one : admin().held_keys()) {
      result.push_back(one.id.str() + " holds " + one.key.str() + ", " +
                       std::to_string(one.waiting) + " wait" + (one.requeued ? ", requeued" : ""));
    }
    return result;
  }

 private:
  std::unique_ptr<Outbox> strict_;
};

TEST_P(HoldKeys, those_behind_a_dead_message_wait_until_it_was_requeued_and_is_done) {
  for (const char* topic : {"1", "2", "3"}) enqueue(topic);
  kill("1");
  EXPECT_TRUE(claim().empty());
  enqueue("other", "another key");
  finish("other");
  EXPECT_EQ(held(), Names{"1 holds k, 2 wait"});
  ASSERT_EQ(admin().requeue(dead("1")), 1u);
  EXPECT_EQ(held(), Names{"1 holds k, 2 wait, requeued"});
  for (const char* topic : {"1", "2", "3"}) finish(topic);
  EXPECT_EQ(held(), Names{});
}

TEST_P(HoldKeys, discard_of_the_dead_message_lets_the_next_one_go) {
  for (const char* topic : {"1", "2", "3"}) enqueue(topic);
  kill("1");
  ASSERT_EQ(admin().discard(dead("1"), {.reason = "paid by hand"}), 1u);
  EXPECT_EQ(held(), Names{});
  for (const char* topic : {"2", "3"}) finish(topic);
}

TEST_P(HoldKeys, discard_of_the_requeued_message_lets_the_next_one_go) {
  for (const char* topic : {"1", "2"}) enqueue(topic);
  kill("1");
  ASSERT_EQ(admin().requeue(dead("1"), 1h), 1u);
  EXPECT_TRUE(claim().empty());
  ASSERT_EQ(admin().discard({.state = StateFilter::open, .topic = Topic{"1"}}, {.reason = "test"}),
            1u);
  finish("2");
}

TEST_P(HoldKeys, a_message_that_dies_again_holds_on) {
  for (const char* topic : {"1", "2"}) enqueue(topic);
  for (int i = 0; i < 3; ++i) {
    kill("1");
    EXPECT_TRUE(claim().empty());
    EXPECT_EQ(held(), Names{"1 holds k, 1 wait"});
    ASSERT_EQ(admin().requeue(dead("1")), 1u);
  }
  finish("1");
  finish("2");
}

TEST_P(HoldKeys, what_comes_while_the_key_is_held_waits) {
  enqueue("1");
  kill("1");
  enqueue("2");
  EXPECT_TRUE(claim().empty());
  EXPECT_EQ(held(), Names{"1 holds k, 1 wait"});
  ASSERT_EQ(admin().discard(dead("1"), {.reason = "test"}), 1u);
  finish("2");
}

TEST_P(HoldKeys, what_comes_while_the_requeued_message_is_on_its_way_waits) {
  enqueue("1");
  kill("1");
  ASSERT_EQ(admin().requeue(dead("1")), 1u);
  enqueue("2");
  finish("1");
  finish("2");
}

TEST_P(HoldKeys, the_end_of_one_that_waits_lets_nobody_pass) {
  for (const char* topic : {"1", "2", "3"}) enqueue(topic);
  kill("1");
  const auto end = [&](const char* topic) {
    return admin().discard({.state = StateFilter::open, .topic = Topic{topic}}, {.reason = "test"});
  };
  ASSERT_EQ(end("2"), 1u);
  EXPECT_TRUE(claim().empty());
  ASSERT_EQ(admin().requeue(dead("1"), 1h), 1u);
  ASSERT_EQ(end("3"), 1u);
  enqueue("4");
  EXPECT_TRUE(claim().empty());
  clock().advance(1h);
  finish("1");
  finish("4");
}

TEST_P(HoldKeys, other_dead_letters_of_the_key_are_requeued_behind_the_one_that_holds_it) {
  enqueue("1");
  const auto first = outbox().claim(worker_a, 30s, 1);
  ASSERT_EQ(outbox().fail(worker_a, first, "boom"), 1u);  // without the option: it holds nothing
  EXPECT_EQ(held(), Names{});
  enqueue("2");
  enqueue("3");
  kill("2");
  ASSERT_EQ(admin().requeue(Filter{.state = StateFilter::dead}), 2u);
  for (const char* topic : {"2", "3", "1"}) finish(topic);
}

TEST_P(HoldKeys, keys_and_handlers_are_held_one_by_one) {
  BoxOptions strict_inbox = holding();
  Inbox box(database(), strict_inbox);
  const std::vector<HandlerName> handlers{{HandlerKey{"mail"}}, {HandlerKey{"stock"}}};
  for (const char* id : {"1", "2"}) {
    Arrival arrival = an_arrival(id);
    arrival.extras.partition_key = PartitionKey{"k"};
    box.accept(arrival, handlers);
    clock().advance(1s);
  }
  const auto heads = box.claim(worker_a, 30s, 10);
  ASSERT_EQ(heads.size(), 2u);
  for (const Message& head : heads) {
    if (head.handler == HandlerKey{"mail"}) {
      ASSERT_EQ(box.fail(worker_a, head, "boom"), 1u);
    } else {
      ASSERT_EQ(box.ack(worker_a, head), 1u);
    }
  }
  const auto next = box.claim(worker_a, 30s, 10);
  ASSERT_EQ(names_of(next), Names{"2"});
  EXPECT_EQ(next.at(0).handler, HandlerKey{"stock"});
  ASSERT_TRUE(box.mark_processed(MessageKey{heads[0].source, MessageId{"1"}}));
  const auto freed = box.claim(worker_a, 30s, 10);
  ASSERT_EQ(names_of(freed), Names{"2"});
  EXPECT_EQ(freed.at(0).handler, HandlerKey{"mail"});
}

TEST_P(HoldKeys, a_crash_loop_holds_the_key_and_an_expiry_does_not) {
  BoxOptions few = holding();
  few.max_expiries = 1;
  Outbox box(database(), few);
  enqueue("1");
  enqueue("2");
  ASSERT_EQ(box.claim(worker_a, 30s, 1).size(), 1u);
  clock().advance(31s);
  EXPECT_TRUE(box.claim(worker_a, 30s, 10).empty()) << "the first one is dead, and holds";
  EXPECT_EQ(held(), Names{"1 holds k, 1 wait"});
  NewMessage expiring = a_message("e1");
  expiring.extras.partition_key = PartitionKey{"e"};
  expiring.extras.expires_at = clock().now() + 5s;
  box.enqueue(expiring);
  enqueue("e2", "e");
  clock().advance(5s);
  ASSERT_EQ(box.expire(), 1u);
  EXPECT_EQ(topics_of(box.claim(worker_a, 30s, 10)), Names{"e2"});
}

TEST_P(HoldKeys, a_requeued_message_that_expires_or_dies_without_the_option_lets_its_key_go) {
  NewMessage first = a_message("1");
  first.extras.partition_key = PartitionKey{"k"};
  first.extras.expires_at = clock().now() + 1h;
  strict().enqueue(first);
  enqueue("2");
  enqueue("3");
  kill("1");
  ASSERT_EQ(admin().requeue(dead("1")), 1u);
  clock().advance(1h);
  ASSERT_EQ(strict().expire(), 1u);
  kill("2");
  ASSERT_EQ(admin().requeue(dead("2")), 1u);
  ASSERT_EQ(outbox().fail(worker_a, claim(), "boom"), 1u);
  finish("3");
}

TEST_P(HoldKeys, prune_leaves_a_message_that_holds_its_key) {
  for (const char* topic : {"1", "2"}) enqueue(topic);
  kill("1");
  strict().enqueue(a_message("free"));
  kill("free");
  clock().advance(24h);
  const PruneOptions all{.older_than = 1h, .include_dead = true};
  EXPECT_EQ(strict().prune(all), 1u) << "the one without a key";
  EXPECT_EQ(held(), Names{"1 holds k, 1 wait"});
  ASSERT_EQ(admin().discard(dead("1"), {.reason = "test"}), 1u);
  clock().advance(2h);
  EXPECT_EQ(strict().prune(all), 1u);
  finish("2");
}

TEST_P(HoldKeys, an_at_most_once_delivery_has_left_its_key_when_it_dies) {
  enqueue("1");
  enqueue("2");
  Handlers handlers;
  Names called;
  const HandlerOptions once{.at_most_once = true};
  handlers.on(
      Topic{"1"},
      [&](const Message&) {
        called.push_back("1");
        return Outcome::dead("boom");
      },
      once);
  handlers.on(Topic{"2"}, [&](const Message&) { called.push_back("2"); });
  Dispatcher dispatcher(strict(), handlers);
  dispatcher.drain();
  EXPECT_EQ(called, (Names{"1", "2"}));
  EXPECT_EQ(held(), Names{});
}

TEST_P(HoldKeys, every_end_by_a_dispatcher_ends_the_hold) {
  Handlers failing;
  failing.on(TopicPattern{"#"}, [](const Message&) { return Outcome::dead("boom"); });
  Handlers working;
  Names called;
  const auto note = [&](const Message& message) { called.push_back(message.topic.str()); };
  working.on(Topic{"plain"}, note);
  working.on(Topic{"transactional"}, [&](Session&, const Message& message) { note(message); });
  working.on(Topic{"once"}, note, {.at_most_once = true});
  for (const std::string topic : {"plain", "transactional", "once", "nobody"}) {
    for (const char* id : {"1", "2"}) {
      NewMessage message = a_message(topic);
      message.extras.partition_key = PartitionKey{topic};
      message.extras.correlation_id = CorrelationId{id};
      strict().enqueue(message);
      clock().advance(1s);
    }
  }
  Dispatcher(strict(), failing).drain();
  EXPECT_EQ(admin().held_keys().size(), 4u);
  EXPECT_EQ(admin().counts().all.waiting, 4);
  ASSERT_EQ(admin().requeue(Filter{.state = StateFilter::dead}), 4u);
  DispatcherOptions options;
  options.no_handler = NoHandler::complete;
  Dispatcher(strict(), working, options).drain();
  EXPECT_EQ(held(), Names{});
  EXPECT_EQ(admin().counts().all.open(), 0);
  EXPECT_EQ(called.size(), 6u);
}

TEST_P(HoldKeys, a_released_delivery_waits_behind_a_held_key) {
  enqueue("1");
  const auto marked = claim();
  Handlers handlers;
  handlers.on(Topic{"1"},
              [&](const Message&) {
                enqueue("2");
                kill("2");
                throw std::runtime_error("boom");
              },
              {.at_most_once = true, .release_claim_on_error = true});
  ASSERT_EQ(strict().release(worker_a, marked), 1u);
  Dispatcher(strict(), handlers).step();
  EXPECT_EQ(held(), Names{"2 holds k, 1 wait"});
  clock().advance(1h);
  EXPECT_TRUE(claim().empty());
  ASSERT_EQ(admin().discard(dead("2"), {.reason = "test"}), 1u);
  finish("1");
}

TEST_P(HoldKeys, in_a_transaction_that_is_rolled_back_nothing_is_held) {
  for (const char* topic : {"1", "2"}) enqueue(topic);
  const auto head = claim();
  struct Undo {};
  try {
    database().in_transaction([&](Session& session) {
      ASSERT_EQ(strict().fail(session, worker_a, head, "boom"), 1u);
      throw Undo{};
    });
  } catch (const Undo&) {
  }
  EXPECT_EQ(held(), Names{});
  ASSERT_EQ(strict().ack(worker_a, head), 1u);
  finish("2");
}

TEST_P(HoldKeys, people_see_which_dead_letter_holds_which_key) {
  for (const char* topic : {"1", "2", "3"}) enqueue(topic);
  EXPECT_EQ(check_health(strict()).state, HealthState::healthy);
  EXPECT_TRUE(admin().get(MessageId{"1"})->held_keys.empty());
  kill("1");
  const auto detail = admin().get(MessageId{"1"});
  ASSERT_EQ(detail->held_keys.size(), 1u);
  EXPECT_EQ(detail->held_keys[0].key, PartitionKey{"k"});
  EXPECT_EQ(detail->held_keys[0].waiting, 2);
  EXPECT_TRUE(admin().get(MessageId{"2"})->held_keys.empty());
  ASSERT_EQ(admin().counts_snapshot().held_keys.size(), 1u);
  const Health health = check_health(strict());
  EXPECT_EQ(health.state, HealthState::degraded);
  EXPECT_EQ(health.held, 1);
  EXPECT_EQ(
      health.reasons.back(),
      "1 partition key is blocked by dead letters; requeue or discard them (twinbox doctor lists "
      "them)");
  const auto findings = examine_box(database(), BoxKind::outbox, holding());
  EXPECT_EQ(findings.back().check, "order");
  EXPECT_EQ(findings.back().found, "dead letter 1 blocks partition key k, 2 messages wait");
  ASSERT_EQ(admin().requeue(dead("1")), 1u);
  EXPECT_EQ(check_health(strict()).state, HealthState::healthy);
  EXPECT_NE(examine_box(database(), BoxKind::outbox, holding()).back().check, "order");
}

TWINBOX_ON_EVERY_BACKEND(HoldKeys);

}  // namespace
}  // namespace twinbox::test
