// On a server, what has finished is written down while more is claimed.
#include <atomic>
#include <latch>
#include <thread>

#include "support/backend.hpp"
#include <twinbox/dispatcher.hpp>
#include <twinbox/operations.hpp>
#include <twinbox/testing.hpp>

namespace twinbox::test {
namespace {

class ConcurrentSettle : public BoxTest {
 protected:
  static constexpr int batch = 10;
  static constexpr int count = 3 * batch;

  void fill() {
    for (int i = 0; i < count; ++i) outbox().enqueue(a_message());
  }
  /// The second claim, which would write down as well what the first one brought, takes until this.
  Environment claiming_until(std::function<bool()> happened) {
    Environment slow = environment();
    slow.timing = [this, happened = std::move(happened)](std::string_view statement,
                                                         std::chrono::nanoseconds, std::size_t) {
      if (statement != "claim" || ++claims_ != 2) return;
      const auto end = std::chrono::steady_clock::now() + 60s;
      while (!happened() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
      EXPECT_TRUE(happened());
    };
    return slow;
  }
  /// Until all messages are handled, or `enough` says so.
  void run(Outbox& box, DispatchObserver observer = {}, std::function<bool()> enough = {}) {
    std::atomic<int> handled = 0;
    Handlers handlers;
    handlers.on_batch(Topic{"order.placed"},
                      [&](std::span<const Message> messages, const std::stop_token&) {
                        handled += static_cast<int>(messages.size());
                        return std::vector<Outcome>(messages.size(), Outcome::done());
                      },
                      {.max_batch = batch});
    Dispatcher dispatcher{
        box, std::move(handlers), {.workers = 2, .batch = batch}, std::move(observer)};
    const std::jthread thread{[&](const std::stop_token& stop) { dispatcher.run(stop); }};
    while (handled < count && !(enough && enough())) std::this_thread::yield();
  }
  /// The write beside the claim fails once.
  void run_with(DatabaseError::Kind failure) {
    FaultPlan plan;
    Database faulty = open_faulty(test_store().address(), plan, {.retries = 0},
                                  claiming_until([&] { return plan.happened() == 1; }));
    Outbox box(faulty, options());
    fill();
    plan.fail_statement(failure, 1, "ack");
    run(box);
  }
  StateCounts totals() { return Admin{outbox()}.counts(true).all; }

 private:
  std::atomic<int> claims_ = 0;
};

TEST_P(ConcurrentSettle, what_has_finished_waits_for_no_claim) {
  std::atomic<std::size_t> settled = 0;
  DispatchObserver observer;
  observer.settled = [&](std::string_view, std::size_t some, Duration) { settled += some; };
  Database database(test_store().address(), {}, claiming_until([&] { return settled > 0; }));
  Outbox box(database, options());
  fill();
  run(box, observer);
  EXPECT_EQ(settled, std::size_t{count});
  EXPECT_EQ(totals().done, count);
}

TEST_P(ConcurrentSettle, what_could_not_be_written_down_is_by_the_next_visit) {
  run_with(DatabaseError::Kind::contention);
  EXPECT_EQ(totals().done, count);
}

TEST_P(ConcurrentSettle, a_commit_in_doubt_is_written_down_again_and_changes_nothing) {
  run_with(DatabaseError::Kind::commit_in_doubt);
  EXPECT_EQ(totals().done, count);
}

TEST_P(ConcurrentSettle, a_stop_meanwhile_leaves_nothing_leased) {
  std::atomic<bool> settled = false;
  DispatchObserver observer;
  observer.settled = [&](std::string_view, std::size_t, Duration) { settled = true; };
  Database database(test_store().address(), {}, claiming_until([&] { return settled.load(); }));
  Outbox box(database, options());
  fill();
  run(box, observer, [&] { return settled.load(); });
  EXPECT_EQ(totals().leased, 0);
  EXPECT_EQ(totals().done + totals().ready, count);
}

TEST_P(ConcurrentSettle, one_connection_is_enough) {
  Database database(test_store().address(), {.pool_size = 1}, environment());
  Outbox box(database, options());
  fill();
  run(box);
  EXPECT_EQ(totals().done, count);
}

TEST_P(ConcurrentSettle, the_next_of_a_key_is_claimed_after_it) {
  for (int i = 0; i < count; ++i) {
    NewMessage keyed = a_message();
    keyed.extras.partition_key = PartitionKey{"key " + std::to_string(i % batch)};
    outbox().enqueue(keyed);
  }
  std::atomic<bool> settled = false;
  DispatchObserver observer;
  observer.settled = [&](std::string_view, std::size_t, Duration) { settled = true; };
  Database database(test_store().address(), {}, claiming_until([&] { return settled.load(); }));
  Outbox box(database, options());
  run(box, observer);
  EXPECT_EQ(totals().done, count);
}

TWINBOX_ON_BACKENDS(ConcurrentSettle, Backend::postgres, Backend::sqlserver);

}  // namespace
}  // namespace twinbox::test
