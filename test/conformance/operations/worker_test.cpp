// Who works on a box: what dispatchers tell of themselves, and what is left of those that died.
#include <future>
#include <latch>
#include <thread>
#include <unistd.h>

#include "support/backend.hpp"
#include <twinbox/dispatcher.hpp>
#include <twinbox/health.hpp>
#include <twinbox/operations.hpp>

namespace twinbox::test {
namespace {

class WorkersOf : public BoxTest {
 protected:
  Workers workers() { return Workers{outbox()}; }

  /// Runs a dispatcher until it has handled one message; `inside` is called while it does.
  void run_one(const std::function<void()>& inside) {
    std::latch handled{1};
    Handlers handlers;
    handlers.on(Topic{"order.placed"}, [&](const Message&) {
      inside();
      handled.count_down();
    });
    Dispatcher dispatcher{outbox(), std::move(handlers), {.housekeeping = {}}};
    outbox().enqueue(a_message());
    std::jthread thread{[&](std::stop_token stop) { dispatcher.run(stop); }};
    handled.wait();
  }
};

TEST_P(WorkersOf, a_dispatcher_tells_of_itself_while_it_runs) {
  const Instant begin = clock().now();
  run_one([&] {
    const std::vector<Worker> all = workers().list();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_NE(all[0].name.find(":" + std::to_string(getpid())), std::string::npos) << all[0].name;
    EXPECT_FALSE(all[0].version.empty());
    EXPECT_EQ(all[0].started_at, begin);
    EXPECT_EQ(all[0].seen_at, begin);
    const auto held = Admin{outbox()}.counts().by_owner;
    ASSERT_EQ(held.size(), 1u);
    EXPECT_EQ(held.begin()->first, all[0].owner.uuid());
    EXPECT_EQ(held.begin()->second, 1);
  });
  EXPECT_TRUE(workers().list().empty());
}

TEST_P(WorkersOf, telling_again_moves_only_when_it_was_seen) {
  const Instant begin = clock().now();
  workers().heartbeat(worker_a, "host:1", "1");
  clock().advance(15s);
  workers().heartbeat(worker_b, "host:2", "1");
  workers().heartbeat(worker_a, "host:1", "1");
  const std::vector<Worker> all = workers().list();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].owner, worker_a);
  EXPECT_EQ(all[0].started_at, begin);
  EXPECT_EQ(all[0].seen_at, begin + 15s);
  EXPECT_EQ(all[1].started_at, begin + 15s);
}

TEST_P(WorkersOf, what_one_has_done_is_what_it_told_last) {
  workers().heartbeat(worker_a, "host:1", "1");
  ASSERT_EQ(workers().list().size(), 1u);
  EXPECT_EQ(workers().list()[0].done, 0);
  workers().heartbeat(worker_a, "host:1", "1", 5'000'000'000, 7);
  ASSERT_EQ(workers().list().size(), 1u);
  EXPECT_EQ(workers().list()[0].done, 5'000'000'000);
  EXPECT_EQ(workers().list()[0].failed, 7);
}

TEST_P(WorkersOf, one_that_was_not_seen_for_a_day_is_forgotten_by_the_chore) {
  workers().heartbeat(worker_a, "host:1", "1");
  clock().advance(1h);
  workers().heartbeat(worker_b, "host:2", "1");
  Housekeeping chores{outbox()};
  clock().advance(23h);
  const HousekeepingReport report = chores.step();
  for (const ChoreReport& chore : report.chores) EXPECT_EQ(chore.error, "");
  const std::vector<Worker> all = workers().list();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].owner, worker_b);
  EXPECT_THROW(workers().forget(-1s), std::out_of_range);
}

TEST_P(WorkersOf, a_store_that_lets_nobody_tell_is_worked_on_all_the_same) {
  outbox();
  write("drop table {schema}outbox_worker");
  run_one([] {});
  const auto warned = log().events("heartbeat_error");
  ASSERT_EQ(warned.size(), 1u);
  EXPECT_EQ(warned[0].level, LogLevel::warning);
}

TEST_P(WorkersOf, named_leases_that_are_held_are_listed) {
  NamedLeases leases{outbox()};
  EXPECT_TRUE(leases.held().empty());
  const auto first = leases.try_acquire(LeaseName{"a"}, worker_a, 30s);
  ASSERT_TRUE(leases.try_acquire(LeaseName{"b"}, worker_b, 10s));
  ASSERT_EQ(leases.held().size(), 2u);
  EXPECT_EQ(leases.held()[0].lease, first);
  EXPECT_EQ(leases.held()[1].until, clock().now() + 10s);
  clock().advance(10s);
  ASSERT_EQ(leases.held().size(), 1u);
  leases.release(*first);
  EXPECT_TRUE(leases.held().empty());
}

TWINBOX_ON_EVERY_BACKEND(WorkersOf);

}  // namespace
}  // namespace twinbox::test
