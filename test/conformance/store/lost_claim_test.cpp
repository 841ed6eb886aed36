// A claim whose answer was lost: its living owner takes back what it leased, without waiting for
// the lease to end.
#include <atomic>
#include <future>
#include <latch>
#include <map>
#include <mutex>
#include <thread>

#include "support/backend.hpp"
#include <twinbox/dispatcher.hpp>
#include <twinbox/health.hpp>
#include <twinbox/operations.hpp>
#include <twinbox/testing.hpp>

namespace twinbox::test {
namespace {

class LostClaim : public BoxTest {
 protected:
  Outbox& box() { return box_; }
  /// Of the claims that find something, the `nth` from now loses its answer.
  void lose_claim(int nth = 1) { lose_claim_ = nth; }
  /// The next commit is not carried out, and nobody can tell.
  void lose_commit() { plan_.lose_commit_reply(1, false); }
  [[nodiscard]] std::size_t lost() const { return plan_.happened(); }

  /// Counts the calls for each message id.
  Handlers counting() {
    Handlers handlers;
    handlers.on(Topic{"order.placed"}, [this](const Message& message) { count(message); });
    return handlers;
  }
  void count(const Message& message) {
    const std::scoped_lock lock{mutex_};
    ++calls_[message.id.str()];
    EXPECT_EQ(message.expiries, 0);
    EXPECT_EQ(message.attempts, 0);
  }
  std::map<std::string, int> calls() {
    const std::scoped_lock lock{mutex_};
    return calls_;
  }

 private:
  Environment watched() {
    Environment watched = environment();
    watched.timing = [this](std::string_view statement, std::chrono::nanoseconds,
                            std::size_t count) {
      if (statement != "claim" || count == 0) return;
      if (lose_claim_.fetch_sub(1) == 1) plan_.lose_commit_reply(1, true);
    };
    return watched;
  }

  std::atomic<int> lose_claim_ = 0;
  FaultPlan plan_;
  Database database_ =
      open_faulty(test_store().address(), plan_, {.name = "faulty", .retries = 0}, watched());
  Outbox box_{database_, options()};
  std::mutex mutex_;
  std::map<std::string, int> calls_;
};

TEST_P(LostClaim, the_next_step_hands_out_what_it_leased) {
  Dispatcher dispatcher{box(), counting()};
  for (int i = 0; i < 3; ++i) box().enqueue(a_message());
  lose_claim();
  EXPECT_THROW(dispatcher.step(), DatabaseError);
  ASSERT_EQ(lost(), 1u);
  EXPECT_EQ(dispatcher.step(), 3u);
  EXPECT_EQ(calls().size(), 3u);
  EXPECT_EQ(Admin{box()}.counts(true).all.done, 3);
}

TEST_P(LostClaim, an_expired_lease_of_it_is_not_charged_to_a_worker_that_lives) {
  Dispatcher dispatcher{box(), counting(), {.lease = 10s}};
  box().enqueue(a_message());
  lose_claim();
  EXPECT_THROW(dispatcher.step(), DatabaseError);
  clock().advance(11s);
  EXPECT_EQ(dispatcher.step(), 1u);  // count() expects no expiry
}

TEST_P(LostClaim, leases_of_other_owners_stay) {
  Dispatcher dispatcher{box(), counting()};
  box().enqueue(a_message());
  const auto others = box().claim(worker_b, 30s, 10);
  ASSERT_EQ(others.size(), 1u);
  box().enqueue(a_message());
  lose_claim();
  EXPECT_THROW(dispatcher.step(), DatabaseError);
  EXPECT_EQ(dispatcher.drain(), 1u);
  EXPECT_FALSE(calls().contains(others[0].id.str()));
  EXPECT_EQ(box().ack(worker_b, others), 1u);
}

TEST_P(LostClaim, what_another_thread_has_in_its_hands_stays_with_it) {
  std::promise<void> started;
  std::latch on_progress{1};
  std::atomic<bool> first = true;
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message& message) {
    count(message);
    if (!first.exchange(false)) return;
    started.set_value();
    on_progress.wait();
  });
  Dispatcher dispatcher{box(), std::move(handlers)};
  box().enqueue(a_message());
  std::jthread other{[&] { EXPECT_EQ(dispatcher.step(), 1u); }};
  started.get_future().wait();
  box().enqueue(a_message());
  lose_claim();
  EXPECT_THROW(dispatcher.step(), DatabaseError);
  EXPECT_EQ(dispatcher.step(), 0u);  // nobody can tell yet whose they are
  on_progress.count_down();
  other.join();
  EXPECT_EQ(dispatcher.drain(), 1u);
  EXPECT_EQ(calls().size(), 2u);
  for (const auto& [id, count] : calls()) EXPECT_EQ(count, 1) << id;
  EXPECT_EQ(Admin{box()}.counts(true).all.done, 2);
}

TEST_P(LostClaim, what_a_running_dispatcher_holds_stays_with_it) {
  std::promise<void> started;
  std::latch on_progress{1};
  std::latch handled{2};
  std::atomic<bool> first = true;
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message& message) {
    count(message);
    if (first.exchange(false)) {
      started.set_value();
      on_progress.wait();
    } else {
      on_progress.count_down();
    }
    handled.count_down();
  });
  Dispatcher dispatcher{box(), std::move(handlers), {.workers = 2, .housekeeping = {}}};
  {
    box().enqueue(a_message());
    std::jthread thread{[&](std::stop_token stop) { dispatcher.run(stop); }};
    started.get_future().wait();
    lose_claim();
    box().enqueue(a_message());
    handled.wait();  // the clock stands still: no lease has ended
  }
  EXPECT_EQ(lost(), 1u);
  EXPECT_EQ(calls().size(), 2u);
  for (const auto& [id, count] : calls()) EXPECT_EQ(count, 1) << id;
  EXPECT_EQ(Admin{box()}.counts(true).all.done, 2);
}

TEST_P(LostClaim, nothing_is_called_twice_where_settlements_went_with_it) {
  constexpr int all = 6;
  std::latch handled{all};
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message& message) {
    count(message);
    handled.count_down();
  });
  Dispatcher dispatcher{box(), std::move(handlers), {.workers = 1, .batch = 2, .housekeeping = {}}};
  {
    for (int i = 0; i < all; ++i) box().enqueue(a_message());
    lose_claim(2);
    std::jthread thread{[&](std::stop_token stop) { dispatcher.run(stop); }};
    handled.wait();
  }
  EXPECT_EQ(lost(), 1u);
  EXPECT_EQ(calls().size(), std::size_t{all});
  for (const auto& [id, count] : calls()) EXPECT_EQ(count, 1) << id;
  EXPECT_EQ(Admin{box()}.counts(true).all.done, all);
}

TEST_P(LostClaim, a_dispatcher_that_ends_leaves_nothing_of_it_leased) {
  std::promise<void> failed;
  std::atomic<bool> first = true;
  DispatchObserver observer;
  Dispatcher* running = nullptr;
  observer.loop_error = [&](std::string_view, std::string_view) {
    running->pause();
    if (first.exchange(false)) failed.set_value();
  };
  Dispatcher dispatcher{box(), counting(), {.housekeeping = {}}, observer};
  running = &dispatcher;
  box().enqueue(a_message());
  lose_claim();
  {
    std::jthread thread{[&](std::stop_token stop) { dispatcher.run(stop); }};
    failed.get_future().wait();
  }
  EXPECT_EQ(box().claim(worker_b, 30s, 10).size(), 1u);
}

TEST_P(LostClaim, a_commit_that_is_lost_again_and_again_postpones_its_message_step_by_step) {
  int calls = 0;
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](Session&, const Message&) {
    if (++calls <= 4) lose_commit();
  });
  Dispatcher dispatcher{box(), std::move(handlers)};
  box().enqueue(a_message());
  EXPECT_EQ(dispatcher.step(), 1u);
  EXPECT_EQ(dispatcher.step(), 1u);  // after one loss it is called again at once
  for (const Duration pause : {1s, 2s, 4s}) {
    EXPECT_EQ(dispatcher.step(), 0u);
    clock().advance(pause);
    EXPECT_EQ(dispatcher.step(), 1u);
  }
  EXPECT_EQ(calls, 5);
  EXPECT_EQ(Admin{box()}.counts(true).all.done, 1);
}

TWINBOX_ON_EVERY_BACKEND(LostClaim);

}  // namespace
}  // namespace twinbox::test
