// Calls inside a scope that is told to stop end as cancelled; calls outside of it are not affected.
#include <latch>
#include <thread>

#include "support/inbox_test.hpp"
#include "support/postgres.hpp"
#include "support/write_lock.hpp"
#include <twinbox/database.hpp>

namespace twinbox::test {
namespace {

using Kind = DatabaseError::Kind;

/// How a call ended; empty: without an error.
std::optional<Kind> kind_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const DatabaseError& error) {
    return error.kind();
  }
  return {};
}

/// The call in a scope, on a thread of its own.
auto in_scope(std::stop_token token, std::function<void()> call) {
  return Call{[token = std::move(token), call = std::move(call)] {
    const StopScope scope{token};
    return kind_of(call);
  }};
}

/// No call gives up by itself before a test is over that does what it should.
DatabaseOptions patient() { return {.wait_timeout = 60s}; }

/// A call of each kind that can wait.
struct Waiting {
  std::string name;
  std::function<void(Database&, Outbox&, Inbox&)> call;
};
std::vector<Waiting> calls() {
  return {
      {"enqueue", [](Database&, Outbox& outbox, Inbox&) { outbox.enqueue(a_message()); }},
      {"claim",
       [](Database&, Outbox& outbox, Inbox&) {
         std::ignore =
             outbox.claim(OwnerToken{Uuid::parse("00000000-0000-4000-8000-00000000000a")});
       }},
      {"accept", [](Database&, Outbox&, Inbox& inbox) { inbox.accept(an_arrival()); }},
      {"in_transaction", [](Database& database, Outbox& outbox, Inbox&) {
         database.in_transaction([&](Session& session) { outbox.enqueue(session, a_message()); });
       }}};
}

class StopScopeOf : public InboxTest {
 protected:
  StopScopeOf() {
    outbox().enqueue(a_message());
    inbox();
  }
  std::stop_source stop_;
};

class SqliteStopScope : public StopScopeOf {
 protected:
  /// Signals `waiting_` at the next wait for a busy file, which is a throw of dice.
  Environment listening() {
    Environment environment = this->environment();
    environment.random = [this]() -> std::uint64_t {
      if (held_.exchange(false)) waiting_->count_down();
      return ++dice_;
    };
    return environment;
  }
  void hold() {
    waiting_.emplace(1);
    lock_.emplace(test_store().address());
    held_ = true;
  }
  std::optional<std::latch> waiting_;
  std::optional<WriteLock> lock_;
  std::atomic<bool> held_ = false;
  std::atomic<std::uint64_t> dice_ = 4;
};

TEST_P(SqliteStopScope, ends_a_call_that_waits_for_a_busy_file) {
  Database database{test_store().address(), patient(), listening()};
  Outbox outbox{database, options()};
  Inbox inbox{database, options()};
  for (const Waiting& one : calls()) {
    std::stop_source stop;
    hold();
    auto call = in_scope(stop.get_token(), [&] { one.call(database, outbox, inbox); });
    waiting_->wait();
    EXPECT_FALSE(call.finished()) << one.name;
    stop.request_stop();
    EXPECT_EQ(call.get(), Kind::cancelled) << one.name;
    lock_.reset();
    EXPECT_EQ(read("select count(*) from outbox_message"), "1") << one.name;
    EXPECT_EQ(read("select count(*) from inbox_message"), "0") << one.name;
    EXPECT_EQ(read("select count(*) from outbox_work where owner is not null"), "0") << one.name;
  }
}

TEST_P(SqliteStopScope, ends_a_call_that_would_share_the_commit_of_another) {
  Database database{test_store().address(), patient(), listening()};
  Outbox outbox{database, options()};
  hold();
  Call other{[&] { return kind_of([&] { outbox.enqueue(a_message()); }); }};
  waiting_->wait();
  stop_.request_stop();
  EXPECT_EQ(in_scope(stop_.get_token(), [&] { outbox.enqueue(a_message()); }).get(),
            Kind::cancelled);
  EXPECT_FALSE(other.finished()) << "it waits on";
  lock_.reset();
  EXPECT_EQ(other.get(), std::nullopt);
  EXPECT_EQ(read("select count(*) from outbox_message"), "2");
}

TEST_P(SqliteStopScope, ends_no_call_of_another_thread) {
  Database database{test_store().address(), patient(), listening()};
  Outbox outbox{database, options()};
  const auto enqueue = [&] { outbox.enqueue(a_message()); };
  hold();
  Call first{[&] { return kind_of(enqueue); }};
  waiting_->wait();
  auto scoped = in_scope(stop_.get_token(), enqueue);
  Call last{[&] { return kind_of(enqueue); }};
  stop_.request_stop();
  EXPECT_EQ(scoped.get(), Kind::cancelled);
  lock_.reset();
  EXPECT_EQ(first.get(), std::nullopt);
  EXPECT_EQ(last.get(), std::nullopt);
  EXPECT_EQ(read("select count(*) from outbox_message"), "3");
}

TWINBOX_ON_BACKENDS(SqliteStopScope, Backend::sqlite_file);

class PostgresStopScope : public StopScopeOf {
 protected:
  PostgresStopScope() : holder_(test_store().address()), watcher_(test_store().address()) {}
  PgClient holder_;
  PgClient watcher_;
};

TEST_P(PostgresStopScope, ends_a_call_that_waits_for_a_lock) {
  Database database{test_store().address(), patient(), environment()};
  Outbox outbox{database, options()};
  Inbox inbox{database, options()};
  for (const Waiting& one : calls()) {
    std::stop_source stop;
    holder_.begin();
    holder_.run(
        in_schema("lock table {schema}outbox_work, {schema}inbox_work in access exclusive mode"));
    auto call = in_scope(stop.get_token(), [&] { one.call(database, outbox, inbox); });
    EXPECT_TRUE(waits_for(call, holder_, watcher_)) << one.name;
    stop.request_stop();
    EXPECT_EQ(call.get(), Kind::cancelled) << one.name;
    holder_.rollback();
    EXPECT_EQ(read("select count(*) from {schema}outbox_message"), "1") << one.name;
    EXPECT_EQ(read("select count(*) from {schema}inbox_message"), "0") << one.name;
  }
}

TEST_P(PostgresStopScope, ends_a_call_that_waits_for_a_row) {
  Database database{test_store().address(), patient(), environment()};
  Inbox inbox{database, options()};
  const Arrival known = an_arrival();
  inbox.accept(known);
  holder_.begin();
  holder_.run(in_schema("select 1 from {schema}inbox_message for update"));
  auto call = in_scope(stop_.get_token(), [&] { inbox.accept(known); });
  EXPECT_TRUE(waits_for(call, holder_, watcher_));
  stop_.request_stop();
  EXPECT_EQ(call.get(), Kind::cancelled);
  holder_.rollback();
  EXPECT_EQ(inbox.accept(known).state, Acceptance::duplicate_open);
}

TWINBOX_ON_BACKENDS(PostgresStopScope, Backend::postgres);

TEST_P(StopScopeOf, ends_a_call_that_waits_for_a_connection) {
  if (GetParam() == Backend::sqlite_memory) GTEST_SKIP() << "its tables belong to one Database";
  Database database{test_store().address(), {.pool_size = 1, .wait_timeout = 60s}, environment()};
  Outbox outbox{database, options()};
  Inbox inbox{database, options()};
  for (const Waiting& one : calls()) {
    std::stop_source stop;
    std::latch begins{1};
    // It waits, or has not begun to: both end alike.
    database.in_transaction([&](Session&) {
      auto call = in_scope(stop.get_token(), [&] {
        begins.count_down();
        one.call(database, outbox, inbox);
      });
      begins.wait();
      EXPECT_FALSE(call.finished()) << one.name;
      stop.request_stop();
      EXPECT_EQ(call.get(), Kind::cancelled) << one.name;
    });
  }
}

TEST_P(StopScopeOf, ends_with_its_block) {
  stop_.request_stop();
  const auto enqueue = [&] { outbox().enqueue(a_message()); };
  {
    const StopScope scope{stop_.get_token()};
    EXPECT_EQ(kind_of(enqueue), Kind::cancelled);
    const StopScope never{{}};
    EXPECT_EQ(kind_of(enqueue), std::nullopt) << "the innermost one counts";
  }
  EXPECT_EQ(kind_of(enqueue), std::nullopt);
}

TWINBOX_ON_EVERY_BACKEND(StopScopeOf);

}  // namespace
}  // namespace twinbox::test
