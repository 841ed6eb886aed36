// A stop request ends the calls of the database that would begin something new, however long they
// would still wait; what has finished is written down first.
#include <csignal>
#include <future>
#include <latch>
#include <thread>

#include "support/backend.hpp"
#include "support/postgres.hpp"
#include <twinbox/dispatcher.hpp>
#include <twinbox/operations.hpp>

namespace twinbox::test {
namespace {

/// No call gives up by itself before a test is over that does what it should.
DatabaseOptions patient() { return {.wait_timeout = 30s}; }

DispatcherOptions without_chores() { return {.workers = 1, .housekeeping = std::nullopt}; }

class PostgresStop : public BoxTest {
 protected:
  PostgresStop() : holder_(test_store().address()), watcher_(test_store().address()) { outbox(); }

  /// From now on everybody who wants to claim or settle waits.
  void hold() {
    holder_.begin();
    holder_.run(in_schema("lock table {schema}outbox_work in access exclusive mode"));
  }
  template <class Result>
  bool waits(const Call<Result>& call) {
    return waits_for(call, holder_, watcher_);
  }
  Database database_{test_store().address(), patient(), environment()};
  Outbox box_{database_, options()};
  PgClient holder_;
  PgClient watcher_;
  std::stop_source stop_;
};

TEST_P(PostgresStop, a_claim_that_waits_for_a_lock_does_not_outlast_the_stop) {
  box_.enqueue(a_message());
  Dispatcher dispatcher{box_, Handlers{}, without_chores()};
  hold();
  Call run{[&] {
    dispatcher.run(stop_.get_token());
    return true;
  }};
  ASSERT_TRUE(waits(run));
  stop_.request_stop();
  run.get();
  EXPECT_TRUE(log().events("loop_error").empty());
  holder_.rollback();
  EXPECT_EQ(box_.claim(worker_a).size(), 1u) << "what was not claimed is there for others";
}

TEST_P(PostgresStop, what_has_finished_is_written_down_though_the_claim_beside_it_was_ended) {
  std::latch started{1};
  std::latch on_progress{1};
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message&) {
    started.count_down();
    on_progress.wait();
  });
  Dispatcher dispatcher{box_, std::move(handlers), without_chores()};
  box_.enqueue(a_message());
  Call run{[&] {
    dispatcher.run(stop_.get_token());
    return true;
  }};
  started.wait();
  hold();
  on_progress.count_down();
  ASSERT_TRUE(waits(run));
  stop_.request_stop();
  ASSERT_TRUE(waits(run)) << "the settling goes on waiting";
  holder_.rollback();
  run.get();
  EXPECT_TRUE(log().events("loop_error").empty());
  EXPECT_EQ(Admin{box_}.counts(true).all.done, 1);
}

TEST_P(PostgresStop, what_never_gets_an_answer_does_not_outlast_the_grace_period_for_ever) {
  Database endless{test_store().address(), {.wait_timeout = 1h}, environment()};
  Outbox box{endless, options()};
  std::latch started{1};
  std::latch on_progress{1};
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message&) {
    started.count_down();
    on_progress.wait();
  });
  DispatcherOptions chosen = without_chores();
  chosen.lease = 1s;
  chosen.grace = 0s;
  Dispatcher dispatcher{box, std::move(handlers), chosen};
  box.enqueue(a_message());
  Call run{[&] {
    dispatcher.run(stop_.get_token());
    return true;
  }};
  started.wait();
  hold();
  ASSERT_TRUE(waits(run)) << "the renewal; what has finished waits behind it";
  on_progress.count_down();
  stop_.request_stop();
  const auto end = std::chrono::steady_clock::now() + 60s;
  while (!run.finished() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_TRUE(run.finished());
  holder_.rollback();
  run.get();
  EXPECT_EQ(Admin{box_}.counts(true).all.leased, 1) << "it is left to the end of its lease";
}

TEST_P(PostgresStop, a_chore_that_waits_for_a_lock_does_not_outlast_the_stop) {
  Housekeeping housekeeping{box_};
  hold();
  Call run{[&] {
    housekeeping.run(stop_.get_token());
    return true;
  }};
  ASSERT_TRUE(waits(run));
  stop_.request_stop();
  run.get();
  holder_.rollback();
  EXPECT_EQ(housekeeping.stats(Chore::reap).failures, 0u);
  const auto first = Housekeeping{box_}.step().chores.at(0);
  EXPECT_EQ(first.end, ChoreReport::End::done) << "its lease was given back";
}

/// Nobody is let in, and nobody's request is heard, while it lives.
class Frozen {
 public:
  explicit Frozen(PgClient& client)
      : pid_(std::stoi(
            client.value("select split_part(pg_read_file('postmaster.pid'), E'\\n', 1)"))) {
    if (kill(pid_, SIGSTOP) != 0) throw std::runtime_error("the server cannot be frozen");
  }
  ~Frozen() { kill(pid_, SIGCONT); }
  Frozen(const Frozen&) = delete;
  Frozen& operator=(const Frozen&) = delete;

 private:
  pid_t pid_;
};

TEST_P(PostgresStop, a_claim_does_not_outlast_the_stop_though_the_server_is_frozen) {
  Dispatcher dispatcher{box_, Handlers{}, without_chores()};
  hold();
  std::future<void> run =
      std::async(std::launch::async, [&] { dispatcher.run(stop_.get_token()); });
  const std::string waiting = "select count(*) > 0 from pg_stat_activity where " +
                              std::to_string(holder_.pid()) + " = any(pg_blocking_pids(pid))";
  while (watcher_.value(waiting) != "t") std::this_thread::yield();
  {
    const Frozen frozen{watcher_};
    stop_.request_stop();
    EXPECT_EQ(run.wait_for(60s), std::future_status::ready);
  }
  run.get();
  holder_.rollback();
}

TWINBOX_ON_BACKENDS(PostgresStop, Backend::postgres);

}  // namespace
}  // namespace twinbox::test
