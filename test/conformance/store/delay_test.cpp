// When a message is due: at a time of the caller's, or so long from now by the database's clock.
#include <chrono>

#include "support/inbox_test.hpp"
#include <twinbox/operations.hpp>
#include <twinbox/testing.hpp>

namespace twinbox::test {
namespace {

class Delay : public InboxTest {
 protected:
  static NewMessage delayed(Duration delay) {
    NewMessage message = a_message();
    message.extras.delay = delay;
    return message;
  }
};

TEST_P(Delay, a_due_time_comes_from_any_clock_of_the_system) {
  using std::chrono::system_clock;
  const system_clock::time_point at{std::chrono::seconds{1'900'000'000}};
  outbox().enqueue(
      {.topic = Topic{"a"},
       .payload = "",
       .extras = {.due_at = system_clock::now() + 1h,
                  .expires_at = std::chrono::sys_days{std::chrono::January / 1 / 2040}}});
  inbox().accept({Source{"s"}, MessageId{"1"}, Topic{"a"}, "", {.due_at = at + 999ns}});
  EXPECT_EQ(detail({Source{"s"}, MessageId{"1"}}).message.due_at, Instant{1'900'000'000s})
      << "parts of a microsecond are cut off";
}

TEST_P(Delay, counts_from_the_clock_of_the_database) {
  const Instant due = clock().now() + 90min;
  outbox().enqueue(delayed(90min));
  outbox().enqueue(std::vector{delayed(90min), a_message("now")});
  database().in_transaction([&](Session& session) { outbox().enqueue(session, delayed(90min)); });
  const auto messages = enqueued(outbox(), Topic{"order.placed"});
  ASSERT_EQ(messages.size(), 3u);
  for (const NewMessage& message : messages) EXPECT_EQ(message.extras.due_at, due);
  const auto due_now = outbox().claim(worker_a);
  EXPECT_EQ(outbox().ack(worker_a, due_now), 1u) << "the one without a delay";
  clock().advance(90min);
  EXPECT_EQ(outbox().claim(worker_a).size(), 3u);
}

TEST_P(Delay, counts_for_arrivals_on_every_way_in) {
  const auto arrival = [](const char* id) {
    Arrival made = an_arrival(id);
    made.extras.delay = 90min;
    return made;
  };
  const HandlerName handler{HandlerKey{"mail"}};
  inbox().accept(arrival("1"));
  inbox().accept(arrival("2"), std::span{&handler, 1});
  database().in_transaction([&](Session& session) { inbox().accept(session, arrival("3")); });
  EXPECT_TRUE(inbox().accept_and_claim(arrival("4"), worker_a, 30s).messages.empty());
  for (const char* id : {"1", "2", "3", "4"}) {
    EXPECT_EQ(detail(a_key(id)).message.due_at, clock().now() + 90min) << id;
  }
}

TEST_P(Delay, without_a_clock_of_the_tests_own_the_database_is_asked) {
  if (GetParam() == Backend::sqlite_memory) GTEST_SKIP() << "memory has one pool";
  outbox();
  Database real{test_store().address()};
  Outbox box{real, options()};
  const NewMessage message = delayed(90min);
  const auto before = std::chrono::floor<Duration>(std::chrono::system_clock::now());
  box.enqueue(message);
  real.in_transaction([&](Session& session) { box.enqueue(session, message); });
  const auto messages = enqueued(box);
  ASSERT_EQ(messages.size(), 2u);
  // The server of the tests runs on this machine; a SQL Server may be elsewhere.
  if (on_sqlserver()) return;
  for (const NewMessage& found : messages) EXPECT_GE(found.extras.due_at.value(), before + 90min);
}

TEST_P(Delay, with_a_due_time_or_out_of_bounds_is_refused) {
  NewMessage both = delayed(1s);
  both.extras.due_at = clock().now();
  EXPECT_THROW(outbox().enqueue(both), std::invalid_argument);
  EXPECT_THROW(outbox().enqueue(delayed(-1us)), std::out_of_range);
  EXPECT_THROW(outbox().enqueue(delayed(Duration::max())), std::out_of_range);
  EXPECT_TRUE(enqueued(outbox()).empty());
}

TWINBOX_ON_EVERY_BACKEND(Delay);

}  // namespace
}  // namespace twinbox::test
