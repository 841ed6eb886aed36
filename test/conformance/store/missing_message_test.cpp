// A delivery whose message row is gone can never succeed: the claim that meets it makes it dead.
#include <latch>
#include <thread>

#include "support/backend.hpp"
#include "support/postgres.hpp"
#include <twinbox/dispatcher.hpp>

namespace twinbox::test {
namespace {

class MissingMessage : public BoxTest {
 protected:
  void enqueue(const std::string& id, const std::string& key = {}) {
    NewMessage message = a_message();
    message.id = MessageId{id};
    if (!key.empty()) message.extras.partition_key = PartitionKey{key};
    outbox().enqueue(message);
  }
  void lose(const std::string& id, const std::string& box = "outbox") {
    write("delete from {schema}" + box + "_message where id = '" + id + "'");
  }
  std::string open(const std::string& box = "outbox") {
    return read("select count(*) from {schema}" + box + "_work");
  }
  /// How many outcomes say what has become of a lost message.
  std::string dead(const std::string& box = "outbox") {
    return read("select count(*) from {schema}" + box +
                "_outcome where state = 2 and reason = 'message_missing'");
  }
  static std::vector<std::string> ids(const std::vector<Message>& messages) {
    std::vector<std::string> found;
    for (const Message& message : messages) found.push_back(message.id.str());
    return found;
  }
  using Ids = std::vector<std::string>;
};

TEST_P(MissingMessage, PHD_09_is_dead_at_the_next_claim_which_answers_the_others) {
  for (const char* id : {"a", "lost", "b"}) enqueue(id);
  lose("lost");
  EXPECT_EQ(ids(outbox().claim(worker_a, 30s, 10)), (Ids{"a", "b"}));
  EXPECT_EQ(dead(), "1");
  EXPECT_EQ(open(), "2");
  EXPECT_EQ(read("select last_error from {schema}outbox_outcome"), "the message row is gone");
  ASSERT_EQ(log().events("dead").size(), 1u);
  EXPECT_EQ(log().events("dead")[0].level, LogLevel::error);
  EXPECT_EQ(log().events("dead")[0].field("reason"), "message_missing");
}

TEST_P(MissingMessage, PHD_09_an_inbox_delivery_of_each_handler_is_dead) {
  const std::vector<HandlerName> handlers{{HandlerKey{"mail"}}, {HandlerKey{"ledger"}}};
  inbox().accept(an_arrival("lost"), handlers);
  lose("lost", "inbox");
  EXPECT_TRUE(inbox().claim(worker_a, 30s, 10).empty());
  EXPECT_EQ(dead("inbox"), "2");
  EXPECT_EQ(open("inbox"), "0");
}

TEST_P(MissingMessage, PHD_09_a_claim_goes_on_behind_those_that_fill_it) {
  for (const char* id : {"lost 1", "lost 2", "lost 3", "found"}) enqueue(id);
  for (const char* id : {"lost 1", "lost 2", "lost 3"}) lose(id);
  EXPECT_EQ(ids(outbox().claim(worker_a, 30s, 1)), Ids{"found"});
  EXPECT_EQ(dead(), "3");
}

TEST_P(MissingMessage, PHD_09_is_dead_after_a_worker_that_held_it_has_died) {
  enqueue("lost");
  ASSERT_EQ(outbox().claim(worker_a, 30s, 1).size(), 1u);
  lose("lost");
  clock().advance(31s);
  enqueue("found");
  EXPECT_EQ(ids(outbox().claim(worker_b, 30s, 1)), Ids{"found"});
  EXPECT_EQ(dead(), "1");
}

TEST_P(MissingMessage, PHD_09_is_dead_in_a_callers_transaction_and_not_when_that_is_rolled_back) {
  enqueue("lost");
  lose("lost");
  EXPECT_THROW(database().in_transaction([&](Session& session) {
    EXPECT_TRUE(outbox().claim(session, worker_a, 30s, 1).empty());
    throw std::runtime_error("rolled back");
  }),
               std::runtime_error);
  EXPECT_EQ(dead(), "0");
  EXPECT_EQ(open(), "1");
  database().in_transaction(
      [&](Session& session) { EXPECT_TRUE(outbox().claim(session, worker_a, 30s, 1).empty()); });
  EXPECT_EQ(dead(), "1");
  EXPECT_EQ(open(), "0");
}

TEST_P(MissingMessage, lets_the_next_of_its_partition_key_go_also_where_the_dead_hold_theirs) {
  BoxOptions holding = options();
  holding.hold_keys = true;
  Outbox box{database(), holding};
  outbox();
  enqueue("lost", "order 7");
  enqueue("found", "order 7");
  lose("lost");
  EXPECT_EQ(ids(box.claim(worker_a, 30s, 10)), Ids{"found"});
  EXPECT_EQ(dead(), "1");
}

TEST_P(MissingMessage, expires_like_any_other) {
  NewMessage message = a_message();
  message.id = MessageId{"lost"};
  message.extras.expires_at = clock().now() + 10s;
  outbox().enqueue(message);
  lose("lost");
  clock().advance(11s);
  outbox().expire();
  EXPECT_EQ(open(), "0");
  EXPECT_EQ(read("select reason from {schema}outbox_outcome"), "expired");
}

TEST_P(MissingMessage, PHD_37_a_dispatcher_tells_of_it_and_handles_the_others) {
  for (const char* id : {"lost", "found"}) enqueue(id);
  lose("lost");
  std::vector<std::string> told;
  DispatchObserver observer;
  observer.dead = [&](std::string_view, const Message& message, std::string_view reason,
                      std::string_view error) {
    told.push_back(message.id.str() + ": " + std::string{reason} + ": " + std::string{error});
  };
  std::vector<std::string> handled;
  Handlers handlers;
  handlers.on(Topic{"order.placed"},
              [&](const Message& message) { handled.push_back(message.id.str()); });
  DispatchStats stats;
  EXPECT_EQ(Dispatcher(outbox(), std::move(handlers), {}, stats.observer(observer)).drain(), 1u);
  EXPECT_EQ(handled, Ids{"found"});
  EXPECT_EQ(told, Ids{": message_missing: the message row is gone"});
  EXPECT_EQ(stats.snapshot().all.dead, 1u);
}

TEST_P(MissingMessage, PHD_09_a_running_dispatcher_makes_it_dead) {
  for (const char* id : {"lost", "found"}) enqueue(id);
  lose("lost");
  std::latch handled{1};
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message&) { handled.count_down(); });
  Dispatcher dispatcher{outbox(), std::move(handlers), {.poll_interval = 1h}};
  std::jthread thread{[&](const std::stop_token& stop) { dispatcher.run(stop); }};
  handled.wait();
  thread.request_stop();
  thread.join();
  EXPECT_EQ(dead(), "1");
  EXPECT_EQ(open(), "0");
}

TWINBOX_ON_EVERY_BACKEND(MissingMessage);

/// By the functions, which a program in any language calls.
using MissingMessageByFunction = MissingMessage;

TEST_P(MissingMessageByFunction, PHD_09_is_dead_at_the_next_claim) {
  for (const char* id : {"lost 1", "lost 2", "found"}) enqueue(id);
  lose("lost 1");
  lose("lost 2");
  PgClient client{test_store().address()};
  const auto claim = [&](int limit) {
    return client.value(
        in_schema("select string_agg(id, ',') from {schema}outbox_claim("
                  "'00000000-0000-4000-8000-00000000000a', interval '30 seconds', " +
                  std::to_string(limit) + ", at => '2100-01-01Z')"));
  };
  EXPECT_EQ(claim(1), "found");
  EXPECT_EQ(dead(), "2");
  EXPECT_EQ(open(), "1");
  EXPECT_EQ(claim(10), "null");
}

TWINBOX_ON_BACKENDS(MissingMessageByFunction, Backend::postgres);

}  // namespace
}  // namespace twinbox::test
