// An asynchronous standby is promoted that has not got the last claims: it gives the same epochs
// once more.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "support/backend.hpp"
#include "support/postgres_pair.hpp"
#include <twinbox/dispatcher.hpp>
#include <twinbox/operations.hpp>

namespace twinbox::test {
namespace {

class PostgresFailover : public ::testing::TestWithParam<Backend> {
 protected:
  /// What one claim leases is known to the primary alone, and is lost with it.
  template <class Claim>
  void lose_to_the_primary(const Claim& claim) {
    pair_.catch_up();
    pair_.cut_off_standby();
    claim();
    pair_.fail_over();
  }

  Lease only_lease(OwnerToken owner) {
    const std::vector<Message> claimed = outbox_.claim(owner, 1h);
    if (claimed.size() != 1) throw std::runtime_error("not one message was claimed");
    return claimed.front().lease();
  }

  const OwnerToken owner_{Uuid::parse("00000000-0000-4000-8000-00000000000a")};
  PostgresPair pair_;
  LogBook log_;
  Environment environment_ = {.log = [this](const LogEvent& event) { log_.write(event); }};
  Database database_{pair_.both(), {}, environment_};
  Outbox outbox_{database_, {.deploy_schema = true}};
};

/// Counts what happens in a dispatcher, and waits for it.
class Progress {
 public:
  int add(
      int& counter, const std::function<void()>& also = [] {}) {
    const std::scoped_lock lock{mutex_};
    also();
    changed_.notify_all();
    return ++counter;
  }
  template <class Condition>
  void wait(const Condition& condition) {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, condition);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

TEST_P(PostgresFailover, repeats_the_epoch_of_a_lost_claim_so_that_each_claim_needs_its_own_owner) {
  outbox_.enqueue(a_message());
  std::optional<Lease> lost;
  lose_to_the_primary([&] { lost = only_lease(owner_); });
  const OwnerToken next = OwnerToken::make(environment_);
  const Lease lease = only_lease(next);
  EXPECT_EQ(lease, *lost) << "the numbers tell them apart no more";
  EXPECT_EQ(outbox_.ack(owner_, *lost), 0u);
  EXPECT_EQ(outbox_.ack(next, lease), 1u);
}

TEST_P(PostgresFailover, leaves_a_late_ack_of_a_lost_claim_without_effect) {
  Progress progress;
  int calls = 0;
  int settled = 0;
  int lost = 0;
  int may_return = 0;
  std::vector<Lease> leases;
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message& message) {
    const int number = progress.add(calls, [&] { leases.push_back(message.lease()); });
    progress.wait([&] { return may_return >= number; });
    return number == 1 ? Outcome::done() : Outcome::dead("the second call decides");
  });
  DispatchObserver observer;
  observer.settled = [&](DispatchObserver::StoreName, std::size_t, Duration) {
    progress.add(settled);
  };
  observer.lease_lost = [&](DispatchObserver::StoreName, std::size_t) { progress.add(lost); };
  Dispatcher dispatcher{outbox_, std::move(handlers), {.lease = 1h}, observer};
  std::jthread runs;

  outbox_.enqueue(a_message());
  lose_to_the_primary([&] {
    runs = std::jthread{[&](const std::stop_token& stop) { dispatcher.run(stop); }};
    progress.wait([&] { return calls == 1; });
  });
  progress.wait([&] { return calls == 2; });
  EXPECT_EQ(leases.at(0), leases.at(1)) << "the numbers tell them apart no more";

  progress.add(may_return);  // the call of the lost claim says done
  progress.wait([&] { return settled == 1; });
  EXPECT_EQ(Admin{outbox_}.counts(true).all.done, 0) << "the second call is still under way";
  EXPECT_EQ(Admin{outbox_}.counts(true).all.leased, 1);
  EXPECT_EQ(lost, 1);

  progress.add(may_return);
  progress.wait([&] { return settled == 2; });
  EXPECT_EQ(Admin{outbox_}.counts(true).all.dead, 1);
  EXPECT_EQ(Admin{outbox_}.counts(true).all.leased, 0);
  EXPECT_EQ(lost, 1);
  runs.request_stop();
  runs.join();
}

TEST_P(PostgresFailover, keeps_the_ack_of_a_claim_that_the_standby_has) {
  Handlers handlers;
  int calls = 0;
  handlers.on(Topic{"order.placed"}, [&](const Message&) {
    if (++calls > 1) return;
    pair_.catch_up();
    pair_.fail_over();
  });
  Dispatcher dispatcher{outbox_, std::move(handlers), {.lease = 1h}};
  outbox_.enqueue(a_message());
  EXPECT_EQ(dispatcher.drain(), 1u);
  EXPECT_EQ(Admin{outbox_}.counts(true).all.done, 1);
  outbox_.enqueue(a_message());
  EXPECT_EQ(dispatcher.drain(), 1u) << "a step by hand goes on with a new owner";
  EXPECT_EQ(Admin{outbox_}.counts(true).all.done, 2);
  EXPECT_EQ(calls, 2);
}

TEST_P(PostgresFailover, fails_no_call_of_our_own_that_can_be_repeated) {
  std::atomic<int> enqueued = 0;
  std::chrono::steady_clock::duration longest{0};
  std::vector<std::string> refused;
  std::jthread enqueues{[&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const auto begin = std::chrono::steady_clock::now();
      try {
        outbox_.enqueue(a_message());
        ++enqueued;
        enqueued.notify_all();
      } catch (const DatabaseError& error) {
        // A commit in doubt is never repeated: the primary may have made it durable.
        if (error.kind() != DatabaseError::Kind::commit_in_doubt)
          refused.emplace_back(error.what());
      }
      longest = std::max(longest, std::chrono::steady_clock::now() - begin);
    }
  }};
  const auto some_more = [&] {
    for (int before = enqueued, now = before; now < before + 10; now = enqueued) enqueued.wait(now);
  };
  some_more();
  pair_.fail_over();
  some_more();
  enqueues.request_stop();
  enqueues.join();
  RecordProperty("longest_enqueue_ms", std::to_string(longest / 1ms));
  EXPECT_EQ(refused, std::vector<std::string>{});
}

TEST_P(PostgresFailover, is_not_noticed_by_a_role_that_may_not_ask_for_it) {
  PgClient admin{pair_.primary()};
  admin.run("create role plain login");
  admin.run("revoke execute on function pg_walfile_name(pg_lsn) from public");
  std::string address = pair_.primary();
  address.replace(address.find("twinbox@"), 7, "plain");
  Database database{address};
  database.in_transaction([&](Session& session) {
    std::string level;
    session.execute("show client_min_messages", {}, [&](const Row& row) { level = row.text(0); });
    EXPECT_EQ(level, "warning") << "the settings of our connections are there all the same";
  });
}

TWINBOX_ON_BACKENDS(PostgresFailover, Backend::postgres);

}  // namespace
}  // namespace twinbox::test
