// Replicas of two versions work on one box: the old one leaves to the new one what it does not
// know.
#include <atomic>
#include <optional>
#include <thread>

#include "support/backend.hpp"
#include <twinbox/dispatcher.hpp>
#include <twinbox/health.hpp>
#include <twinbox/operations.hpp>

namespace twinbox::test {
namespace {

class RollingDeployment : public BoxTest {
 protected:
  /// A replica that has announced what it handles and claims nothing until it is resumed.
  class Replica {
   public:
    Replica(WorkQueue& queue, Handlers handlers)
        : queue_(queue), dispatcher_(queue, std::move(handlers), {.housekeeping = {}}) {
      dispatcher_.pause();
      thread_ = std::jthread{[this](std::stop_token stop) { dispatcher_.run(stop); }};
      while (Workers{queue_}.list().empty()) std::this_thread::yield();
    }
    void resume() { dispatcher_.resume(); }
    void stop() {
      thread_.request_stop();
      thread_.join();
    }

   private:
    WorkQueue& queue_;
    Dispatcher dispatcher_;
    std::jthread thread_;
  };

  Handlers knows_key(const std::string& key) {
    Handlers handlers;
    handlers.on_key(HandlerKey{key}, [this](const Message&) { handled(); });
    return handlers;
  }
  Handlers knows_topic(const std::string& topic) {
    Handlers handlers;
    handlers.on(Topic{topic}, [this](const Message&) { handled(); });
    return handlers;
  }
  void handled() {
    ++calls_;
    calls_.notify_all();
  }
  void wait_for_call() { calls_.wait(0); }
  [[nodiscard]] int calls() const { return calls_; }

  void accept_for(const std::string& key) {
    inbox().accept(an_arrival(), std::vector{HandlerName{HandlerKey{key}}});
  }
  /// Nothing has ended, and no attempt was counted.
  void expect_open(WorkQueue& queue) {
    const Counts counts = Admin{queue}.counts(true);
    EXPECT_EQ(counts.all.dead + counts.all.discarded, 0);
    const Page page = Admin{queue}.list({.state = StateFilter::open});
    ASSERT_EQ(page.entries.size(), 1u);
    EXPECT_EQ(page.entries[0].delivery.attempts, 0);
  }

 private:
  std::atomic<int> calls_ = 0;
};

TEST_P(RollingDeployment, PHD_09_a_key_that_only_the_new_replica_knows_is_left_to_it) {
  Dispatcher old{inbox(), knows_key("old")};
  Replica replica{inbox(), knows_key("new")};
  accept_for("new");
  EXPECT_EQ(old.step(), 1u);
  expect_open(inbox());
  EXPECT_EQ(old.step(), 0u);  // it does not spin
  EXPECT_EQ(log().events("left_to_other_worker").size(), 1u);
  clock().advance(1s);
  replica.resume();
  inbox().wake();
  wait_for_call();
  replica.stop();
  EXPECT_EQ(Admin{inbox()}.counts(true).all.done, 1);
}

TEST_P(RollingDeployment, PHD_36_a_renamed_key_waits_for_a_replica_that_still_has_its_old_name) {
  Handlers handlers;
  handlers.on_key(HandlerKey{"mail"}, [](const Message&) {}, {.legacy_keys = {HandlerKey{"post"}}});
  const Replica replica{inbox(), std::move(handlers)};
  Dispatcher old{inbox(), knows_key("mail")};
  accept_for("post");
  EXPECT_EQ(old.step(), 1u);
  expect_open(inbox());
}

TEST_P(RollingDeployment, PHD_09_a_key_is_dead_at_once_where_no_other_replica_knows_it) {
  const Replica replica{inbox(), knows_key("other")};
  Dispatcher old{inbox(), knows_key("old")};
  accept_for("new");
  EXPECT_EQ(old.step(), 1u);
  EXPECT_EQ(Admin{inbox()}.counts(true).all.dead, 1);
}

TEST_P(RollingDeployment,
       PHD_09_a_key_waits_for_its_replica_to_restart_until_the_announcement_ends) {
  Dispatcher old{inbox(), knows_key("old")};
  Replica replica{inbox(), knows_key("new")};
  replica.stop();
  EXPECT_TRUE(Workers{inbox()}.list().empty());
  accept_for("new");
  EXPECT_EQ(old.step(), 1u);
  expect_open(inbox());
  clock().advance(59s);
  EXPECT_EQ(old.step(), 1u);
  expect_open(inbox());
  clock().advance(1s);
  EXPECT_EQ(old.step(), 1u);
  EXPECT_EQ(Admin{inbox()}.counts(true).all.dead, 1);
}

TEST_P(RollingDeployment, the_row_of_a_replica_that_has_stopped_goes_when_its_announcement_ends) {
  Replica replica{inbox(), knows_key("new")};
  EXPECT_EQ(Workers{inbox()}.forget(24h), 0u);
  replica.stop();
  EXPECT_EQ(Workers{inbox()}.forget(24h), 0u);
  clock().advance(1min);
  EXPECT_EQ(Workers{inbox()}.forget(24h), 1u);
  EXPECT_EQ(Workers{inbox()}.forget(24h), 0u);
}

TEST_P(RollingDeployment, a_worker_that_tells_of_itself_after_it_has_left_is_listed_again) {
  Workers workers{inbox()};
  workers.heartbeat(worker_a, "host:1", "1");
  workers.leave(worker_a);
  EXPECT_TRUE(workers.list().empty());
  workers.heartbeat(worker_a, "host:1", "1");
  ASSERT_EQ(workers.list().size(), 1u);
  EXPECT_EQ(workers.list()[0].name, "host:1");
}

TEST_P(RollingDeployment, PHD_09_a_key_is_dead_once_the_heartbeat_of_its_replica_has_expired) {
  Dispatcher old{inbox(), knows_key("old")};
  std::optional<Replica> replica;
  replica.emplace(inbox(), knows_key("new"));
  rename_table("inbox_worker", "hidden");  // it dies: nobody takes back what it has announced
  replica.reset();
  rename_table("hidden", "inbox_worker");
  accept_for("new");
  EXPECT_EQ(old.step(), 1u);
  expect_open(inbox());
  clock().advance(1min);
  EXPECT_EQ(old.step(), 1u);
  EXPECT_EQ(Admin{inbox()}.counts(true).all.dead, 1);
}

TEST_P(RollingDeployment, a_topic_that_only_the_new_replica_knows_is_left_to_it) {
  for (const NoHandler policy :
       {NoHandler::retry, NoHandler::dead, NoHandler::discard, NoHandler::complete}) {
    Dispatcher old{outbox(), knows_topic("old"), {.no_handler = policy}};
    Replica replica{outbox(), knows_topic("new")};
    outbox().enqueue(a_message("new"));
    EXPECT_EQ(old.step(), 1u);
    expect_open(outbox());
    replica.stop();
    Dispatcher next{outbox(), knows_topic("new")};
    clock().advance(1s);
    EXPECT_EQ(next.drain(), 1u);
  }
  EXPECT_EQ(calls(), 4);
}

TEST_P(RollingDeployment, a_topic_that_a_pattern_of_the_new_replica_takes_is_left_to_it) {
  Handlers handlers;
  handlers.on(TopicPattern{"order.#"}, [](const Message&) {});
  const Replica replica{outbox(), std::move(handlers)};
  Dispatcher old{outbox(), knows_topic("old"), {.no_handler = NoHandler::discard}};
  outbox().enqueue(a_message("order.placed"));
  EXPECT_EQ(old.step(), 1u);
  expect_open(outbox());
  outbox().enqueue(a_message("payment.received"));
  EXPECT_EQ(old.step(), 1u);
  EXPECT_EQ(Admin{outbox()}.counts(true).all.open(), 1);
}

TEST_P(RollingDeployment, an_announcement_is_bounded_and_says_what_it_leaves_out) {
  Handlers handlers = knows_key("new");
  const std::string tail(200, 'x');
  for (int i = 0; i < 1000; ++i)
    handlers.on(Topic{std::to_string(i) + tail}, [](const Message&) {});
  Replica replica{inbox(), std::move(handlers)};
  const auto cut = log().events("announcement_cut");
  ASSERT_EQ(cut.size(), 1u);
  EXPECT_EQ(cut[0].level, LogLevel::warning);
  EXPECT_EQ(cut[0].field("limit"), "65536");
  Dispatcher old{inbox(), knows_key("old")};
  accept_for("new");  // keys come first
  EXPECT_EQ(old.step(), 1u);
  expect_open(inbox());
}

TEST_P(RollingDeployment, where_nobody_can_announce_a_key_that_is_unknown_is_dead_as_ever) {
  inbox();
  write("drop table {schema}inbox_worker");
  Dispatcher old{inbox(), knows_key("old")};
  accept_for("new");
  EXPECT_EQ(old.step(), 1u);
  EXPECT_EQ(Admin{inbox()}.counts(true).all.dead, 1);
}

TWINBOX_ON_EVERY_BACKEND(RollingDeployment);

}  // namespace
}  // namespace twinbox::test
