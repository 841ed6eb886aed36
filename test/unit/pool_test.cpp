#include "database/pool.hpp"

#include <atomic>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "database/open_driver.hpp"
#include "fake_driver.hpp"
#include "twinbox/database.hpp"

namespace twinbox {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using Kind = DatabaseError::Kind;

class PoolTest : public ::testing::Test {
 protected:
  /// A pool whose time stands still unless a test moves it, and which never really waits for a
  /// retry.
  Pool& pool(DatabaseOptions options = {}, std::optional<Driver::Shape> shape = {}) {
    environment_.log = [this](const LogEvent& event) {
      std::string line{event.name};
      for (const LogField& field : event.fields) {
        line.append(" ").append(field.name).append("=");
        if (const auto* text = std::get_if<std::string_view>(&field.value)) line.append(*text);
        if (const auto* number = std::get_if<std::int64_t>(&field.value)) {
          line.append(std::to_string(*number));
        }
      }
      log_.push_back(line);
    };
    environment_.random = random_;
    pool_ = std::make_unique<Pool>(
        std::make_unique<FakeDriver>(world_, shape), std::move(options), environment_,
        PoolTime{.now =
                     [this] {
                       ++asked_;
                       asked_.notify_all();
                       return now_;
                     },
                 .wait = [this](milliseconds delay) { waits_.push_back(delay); }});
    return *pool_;
  }

  template <class F>
  std::string message_of(F body) {
    try {
      body();
    } catch (const std::exception& error) {
      return error.what();
    }
    return "no error";
  }

  static int write(Pool& pool) {
    return pool.run(Access::write, Scope::statement,
                    [](Session& session) { return number_of(session); });
  }

  /// Runs `work` on a thread of its own and returns once it stands in the queue for a connection: a
  /// call asks for the time when it begins, and again when it has taken its place.
  template <class F>
  std::jthread queued(F work) {
    const int before = asked_;
    std::jthread thread{std::move(work)};
    for (int asked = asked_; asked < before + 2; asked = asked_) asked_.wait(asked);
    return thread;
  }

  World world_;
  Environment environment_;
  std::function<std::uint64_t()> random_ = [] { return std::uint64_t{0}; };
  std::atomic<int> asked_ = 0;
  std::chrono::steady_clock::time_point now_{};
  std::vector<milliseconds> waits_;
  std::vector<std::string> log_;
  std::unique_ptr<Pool> pool_;
};

using Acts = std::vector<std::string>;

TEST_F(PoolTest, connects_on_first_use_and_keeps_the_connection) {
  Pool& pool = this->pool();
  EXPECT_TRUE(world_.acts.empty());
  EXPECT_EQ(write(pool), 1);
  EXPECT_EQ(write(pool), 1);
  EXPECT_EQ(world_.acts, (Acts{"1 connect", "1 begin", "1 commit", "1 begin", "1 commit"}));
}

TEST_F(PoolTest, takes_work_without_a_result) {
  bool called = false;
  pool().run(Access::read, Scope::transaction, [&](Session&) { called = true; });
  EXPECT_TRUE(called);
}

TEST_F(PoolTest, is_named_after_its_database_unless_told_otherwise) {
  EXPECT_EQ(pool().name(), "fake database");
  EXPECT_EQ(pool({.name = "orders"}).name(), "orders");
}

TEST_F(PoolTest, rolls_back_when_the_work_throws_and_throws_the_same) {
  Pool& pool = this->pool();
  EXPECT_EQ(message_of([&] {
              pool.in_transaction([](Session&) { throw std::runtime_error("the caller's own"); });
            }),
            "the caller's own");
  EXPECT_THROW(pool.in_transaction([](Session&) { throw 42; }), int);
  EXPECT_EQ(world_.acts, (Acts{"1 connect", "1 begin", "1 rollback", "1 begin", "1 rollback"}));
}

TEST_F(PoolTest, repeats_its_own_calls_a_bounded_number_of_times) {
  Pool& pool = this->pool({.name = "orders", .retries = 2});
  world_.commit_faults = {Kind::contention, Kind::contention};
  EXPECT_EQ(write(pool), 1);
  EXPECT_EQ(waits_, (std::vector<milliseconds>{1ms, 2ms}));
  EXPECT_EQ(log_, (Acts{"retry store=orders attempt=1 kind=contention",
                        "retry store=orders attempt=2 kind=contention"}));

  world_.commit_faults = {Kind::contention, Kind::contention, Kind::contention};
  EXPECT_THROW(write(pool), DatabaseError);
  EXPECT_EQ(waits_.size(), 4u);
}

TEST_F(PoolTest, leaves_it_to_its_callers_to_tell_that_a_connection_stays_lost) {
  Pool& pool = this->pool({.name = "orders", .retries = 1});
  world_.commit_faults = {Kind::connection_lost};
  write(pool);
  EXPECT_TRUE(log_.empty()) << log_.front();
  environment_.log_level = LogLevel::debug;
  world_.commit_faults = {Kind::connection_lost};
  write(this->pool({.name = "orders", .retries = 1}));
  EXPECT_EQ(log_, Acts{"retry store=orders attempt=1 kind=connection_lost"});
}

TEST_F(PoolTest, waits_longer_each_time_but_never_very_long) {
  Pool& pool = this->pool({.retries = 40});
  world_.commit_faults.assign(40, Kind::contention);
  write(pool);
  ASSERT_EQ(waits_.size(), 40u);
  EXPECT_TRUE(std::is_sorted(waits_.begin(), waits_.end()));
  EXPECT_EQ(waits_.back(), 125ms);
}

TEST_F(PoolTest, those_who_met_once_do_not_meet_again_because_chance_lengthens_the_wait) {
  std::uint64_t chosen = 0;
  const auto wait_after_many = [&](std::uint64_t chance) {
    Pool& pool = this->pool({.retries = 40});
    chosen = chance;
    waits_.clear();
    world_.commit_faults.assign(40, Kind::contention);
    write(pool);
    return waits_.back();
  };
  random_ = [&] { return chosen; };
  EXPECT_EQ(wait_after_many(0), 125ms);
  EXPECT_EQ(wait_after_many(1), 126ms);
  EXPECT_EQ(wait_after_many(125), 250ms);
  EXPECT_EQ(wait_after_many(126), 125ms);
}

TEST_F(PoolTest, repeats_nothing_after_the_wait_limit) {
  Pool& pool = this->pool({.wait_timeout = 10s});
  int calls = 0;
  const auto slow_work = [&](Session&) {
    ++calls;
    now_ += 6s;
    throw DatabaseError(Kind::contention, "busy");
  };
  EXPECT_THROW(pool.run(Access::write, Scope::transaction, slow_work), DatabaseError);
  EXPECT_EQ(calls, 2);
}

TEST_F(PoolTest, repeats_a_call_without_a_server_until_the_retry_limit) {
  Pool& pool = this->pool({.retry_timeout = 5s, .retries = 5});
  world_.connect_faults.assign(20, Kind::connection_lost);
  EXPECT_EQ(write(pool), 1) << "a switchover takes longer than five tries";
  EXPECT_EQ(waits_.size(), 20u);
  int calls = 0;
  const auto slow_work = [&](Session&) {
    ++calls;
    now_ += 3s;
    throw DatabaseError(Kind::connection_lost, "gone");
  };
  EXPECT_THROW(this->pool({.wait_timeout = 1s}).run(Access::write, Scope::transaction, slow_work),
               DatabaseError);
  EXPECT_EQ(calls, 2);
}

TEST_F(PoolTest, a_loop_that_can_be_stopped_repeats_by_itself) {
  Pool& pool = this->pool({.retries = 5});
  const std::stop_source stop;
  const StopScope until_stop{stop.get_token()};
  world_.connect_faults.assign(20, Kind::connection_lost);
  EXPECT_THROW(write(pool), DatabaseError);
  EXPECT_EQ(waits_.size(), 5u);
}

TEST_F(PoolTest, never_repeats_what_may_have_been_committed_or_can_never_work) {
  for (const Kind kind : {Kind::commit_in_doubt, Kind::invalid_request, Kind::out_of_space,
                          Kind::missing_schema, Kind::cancelled}) {
    Pool& pool = this->pool();
    world_.commit_faults = {kind};
    EXPECT_THROW(write(pool), DatabaseError);
    EXPECT_TRUE(waits_.empty());
  }
}

TEST_F(PoolTest, remembers_for_a_minute_that_the_database_takes_no_writes) {
  Pool& pool = this->pool();
  for (const Kind kind : {Kind::invalid_request, Kind::missing_schema, Kind::cancelled}) {
    world_.commit_faults = {kind};
    EXPECT_THROW(write(pool), DatabaseError);
    EXPECT_EQ(pool.refusal(), std::nullopt) << "says nothing of other calls";
  }
  for (const Kind kind : {Kind::out_of_space, Kind::read_only, Kind::corrupt}) {
    world_.commit_faults = {kind};
    const std::string words = message_of([&] { write(pool); });
    EXPECT_EQ(pool.refusal(), words);
    for (const Access access : {Access::read, Access::write_relaxed, Access::write})
      pool.run(access, Scope::statement, [](Session&) {});
    pool.in_transaction([](Session&) {});
    EXPECT_EQ(pool.refusal(), words) << "perhaps nothing was written";
    pool.stored_messages(pool.refusals());
    EXPECT_EQ(pool.refusal(), std::nullopt);
  }
  world_.commit_faults = {Kind::out_of_space};
  EXPECT_THROW(write(pool), DatabaseError);
  now_ += 1min;
  EXPECT_NE(pool.refusal(), std::nullopt);
  now_ += 1ms;
  EXPECT_EQ(pool.refusal(), std::nullopt);
}

TEST_F(PoolTest, a_refusal_is_not_over_by_what_began_before_it) {
  Pool& pool = this->pool();
  const std::uint64_t before = pool.refusals();
  world_.commit_faults = {Kind::out_of_space};
  EXPECT_THROW(write(pool), DatabaseError);
  const std::uint64_t between = pool.refusals();
  pool.stored_messages(before);
  EXPECT_NE(pool.refusal(), std::nullopt);
  world_.commit_faults = {Kind::corrupt};
  EXPECT_THROW(write(pool), DatabaseError);
  pool.stored_messages(between);
  EXPECT_NE(pool.refusal(), std::nullopt);
}

TEST_F(PoolTest, remembers_what_a_callers_transaction_was_refused_except_that_it_is_read_only) {
  Pool& pool = this->pool();
  world_.commit_faults = {Kind::read_only};
  EXPECT_THROW(pool.in_transaction([](Session&) {}), DatabaseError);
  EXPECT_EQ(pool.refusal(), std::nullopt) << "the caller may have made it so";
  for (const Kind kind : {Kind::out_of_space, Kind::corrupt}) {
    const std::string words = "for the caller's own statement";
    EXPECT_THROW(pool.in_transaction([&](Session&) { throw DatabaseError(kind, words); }),
                 DatabaseError);
    EXPECT_EQ(pool.refusal(), words);
    pool.stored_messages(pool.refusals());
    EXPECT_EQ(pool.refusal(), std::nullopt);
  }
}

TEST_F(PoolTest, a_refusal_that_a_callers_transaction_met_elsewhere_is_not_its_own) {
  Pool& pool = this->pool();
  World other_world;
  Pool other{std::make_unique<FakeDriver>(other_world, std::nullopt), {}, {}};
  other_world.commit_faults = {Kind::out_of_space};
  EXPECT_THROW(pool.in_transaction([&](Session&) { write(other); }), DatabaseError);
  EXPECT_NE(other.refusal(), std::nullopt);
  EXPECT_EQ(pool.refusal(), std::nullopt);
}

TEST_F(PoolTest, never_repeats_a_callers_transaction) {
  Pool& pool = this->pool();
  int calls = 0;
  world_.commit_faults = {Kind::contention};
  EXPECT_THROW(pool.in_transaction([&](Session&) { ++calls; }), DatabaseError);
  EXPECT_EQ(calls, 1);
  EXPECT_THROW(pool.in_transaction([&](Session&) {
    ++calls;
    throw DatabaseError(Kind::connection_lost, "gone");
  }),
               DatabaseError);
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(waits_.empty());
}

TEST_F(PoolTest, begins_a_callers_transaction_again_before_it_was_handed_over) {
  Pool& pool = this->pool();
  world_.connect_faults = {Kind::connection_lost};
  world_.begin_faults = {Kind::connection_lost};
  int calls = 0;
  pool.in_transaction([&](Session&) { ++calls; });
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(waits_.size(), 2u);
}

TEST_F(PoolTest, replaces_connections_that_broke_while_idle) {
  Pool& pool = this->pool({.pool_size = 3});
  pool.in_transaction([&](Session&) {
    pool.in_transaction([&](Session&) { pool.in_transaction([](Session&) {}); });
  });
  world_.acts.clear();
  world_.begin_faults = {Kind::connection_lost};
  EXPECT_EQ(write(pool), 4);
  EXPECT_EQ(world_.acts, (Acts{"1 begin", "1 rollback", "1 close", "2 close", "3 close",
                               "4 connect", "4 begin", "4 commit"}));
}

TEST_F(PoolTest, throws_an_unusable_connection_away) {
  Pool& pool = this->pool();
  pool.run(Access::write, Scope::statement,
           [](Session& session) { dynamic_cast<FakeConnection&>(session).break_it(); });
  EXPECT_EQ(write(pool), 2);
  EXPECT_EQ(world_.open, 1);
}

TEST_F(PoolTest, frees_the_place_of_a_connection_that_could_not_be_opened) {
  Pool& pool = this->pool({.pool_size = 1, .wait_timeout = 0ms, .retries = 0});
  world_.connect_faults = {Kind::permission, Kind::connection_lost};
  EXPECT_THROW(write(pool), DatabaseError);
  EXPECT_THROW(write(pool), DatabaseError);
  EXPECT_EQ(write(pool), 1);
}

TEST_F(PoolTest, says_so_when_no_connection_becomes_free) {
  Pool& pool = this->pool({.name = "orders", .pool_size = 1, .wait_timeout = 0ms});
  pool.in_transaction([&](Session&) {
    std::jthread{[&] {
      try {
        write(pool);
        ADD_FAILURE() << "there was no connection to have";
      } catch (const DatabaseError& error) {
        EXPECT_EQ(error.kind(), Kind::contention);
        EXPECT_STREQ(
            error.what(),
            "store orders: no free connection within 0 s (pool_size 1); raise pool_size or "
            "wait_timeout, or keep transactions short");
      }
    }}.join();
  });
  EXPECT_TRUE(waits_.empty());
}

TEST_F(PoolTest, does_not_let_a_thread_wait_for_itself) {
  Pool& pool = this->pool({.name = "orders"}, Driver::Shape{1, 4, false});
  const std::string expected =
      "store orders: this thread holds every connection that could serve the call, which would "
      "wait "
      "for itself; inside a transaction pass its Session on, or make the call after the "
      "transaction";
  pool.in_transaction([&](Session&) {
    EXPECT_EQ(message_of([&] { pool.in_transaction([](Session&) {}); }), expected);
    EXPECT_THROW(write(pool), UsageError);
    EXPECT_THROW(pool.check_reentry(Access::write_relaxed), UsageError);
    EXPECT_NO_THROW(pool.check_reentry(Access::read));
    EXPECT_EQ(pool.run(Access::read, Scope::statement,
                       [](Session& session) { return number_of(session); }),
              2);
  });
  EXPECT_NO_THROW(pool.check_reentry(Access::write));
  EXPECT_EQ(write(pool), 1);
}

TEST_F(PoolTest, lets_a_thread_have_several_connections_where_there_are_several) {
  Pool& pool = this->pool({.pool_size = 2});
  pool.in_transaction([&](Session&) {
    pool.in_transaction([&](Session& second) {
      EXPECT_EQ(number_of(second), 2);
      EXPECT_THROW(pool.in_transaction([](Session&) {}), UsageError);
    });
    EXPECT_EQ(pool.run(Access::read, Scope::statement,
                       [](Session& session) { return number_of(session); }),
              2);
  });
}

TEST_F(PoolTest, refuses_to_write_beside_the_transaction_that_its_thread_has_open) {
  Pool& pool = this->pool({.name = "orders", .pool_size = 4});
  const std::string expected =
      "store orders: this thread has a transaction open on the same database, and the call would "
      "not be part of it: pass the Session as its first argument, or make the call after the "
      "transaction";
  pool.in_transaction([&](Session&) {
    EXPECT_EQ(message_of([&] { write(pool); }), expected);
    EXPECT_EQ(message_of([&] { pool.check_reentry(Access::write_relaxed); }), expected);
    EXPECT_NO_THROW(pool.check_reentry(Access::read));
    std::jthread{[&] { EXPECT_NO_THROW(write(pool)); }}.join();
  });
  EXPECT_THROW(pool.in_transaction([](Session&) { throw 42; }), int);
  EXPECT_NO_THROW(write(pool));
}

TEST_F(PoolTest, keeps_a_connection_whose_caller_met_an_error_of_another_database) {
  Pool& pool = this->pool();
  for (const Kind kind : {Kind::connection_lost, Kind::commit_in_doubt}) {
    EXPECT_THROW(
        pool.in_transaction([&](Session&) { throw DatabaseError(kind, "another database"); }),
        DatabaseError);
  }
  EXPECT_EQ(write(pool), 1);
  EXPECT_THROW(pool.in_transaction([](Session& session) {
    dynamic_cast<FakeConnection&>(session).break_it();
    throw DatabaseError(Kind::connection_lost, "this database");
  }),
               DatabaseError);
  EXPECT_EQ(write(pool), 2);
}

TEST_F(PoolTest, keeps_readers_apart_from_the_only_writer) {
  Pool& pool = this->pool({}, Driver::Shape{1, 2, false});
  write(pool);
  pool.run(Access::read, Scope::statement, [](Session&) {});
  EXPECT_EQ(world_.acts,
            (Acts{"1 connect", "1 begin", "1 commit", "2 connect to read", "2 begin", "2 commit"}));
}

TEST_F(PoolTest, reads_on_the_writer_when_it_is_shared) {
  Pool& pool = this->pool({}, Driver::Shape{1, 8, true});
  write(pool);
  pool.run(Access::read, Scope::statement, [&](Session& session) {
    EXPECT_EQ(number_of(session), 1);
    EXPECT_THROW(write(pool), UsageError);
  });
}

TEST_F(PoolTest, never_opens_more_connections_than_allowed) {
  Pool& pool = this->pool({.pool_size = 3, .wait_timeout = 1h});
  std::atomic<int> calls = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        for (int j = 0; j < 200; ++j) {
          pool.run(j % 2 == 0 ? Access::read : Access::write, Scope::statement,
                   [&](Session& session) {
                     ++calls;
                     if (j % 50 == 0) dynamic_cast<FakeConnection&>(session).break_it();
                   });
        }
      });
    }
  }
  EXPECT_EQ(calls, 1600);
  EXPECT_LE(world_.most_open, 3);
}

TEST_F(PoolTest, serves_those_who_wait_in_their_order) {
  Pool& pool = this->pool({.pool_size = 1, .wait_timeout = 1h});
  std::string order;
  std::vector<std::jthread> threads;
  pool.in_transaction([&](Session&) {
    for (const char name : {'a', 'b', 'c'}) {
      threads.push_back(queued([&pool, &order, name] {
        pool.run(Access::write, Scope::statement, [&](Session&) { order += name; });
      }));
    }
  });
  threads.clear();
  EXPECT_EQ(order, "abc");
  EXPECT_EQ(world_.connected, 1);
}

TEST_F(PoolTest, lets_the_one_who_waits_open_a_new_connection_for_a_broken_one) {
  Pool& pool = this->pool({.pool_size = 1, .wait_timeout = 1h});
  int number = 0;
  std::jthread other;
  pool.in_transaction([&](Session& session) {
    other = queued([&] { number = write(pool); });
    dynamic_cast<FakeConnection&>(session).break_it();
  });
  other.join();
  EXPECT_EQ(number, 2);
}

TEST_F(PoolTest, a_stop_interrupts_the_work_of_a_call_but_not_its_commit) {
  Pool& pool = this->pool();
  std::stop_source stop;
  const StopScope until_stop{stop.get_token()};
  pool.run(Access::write, Scope::transaction, [&](Session&) { stop.request_stop(); });
  EXPECT_EQ(world_.acts,
            (std::vector<std::string>{"1 connect", "1 begin", "1 interrupt", "1 commit"}));
  world_.acts.clear();
  write(pool);
  EXPECT_EQ(world_.acts, (std::vector<std::string>{"1 interrupt", "1 begin", "1 commit"}))
      << "a call that comes after the stop is interrupted before it begins";
}

TEST_F(PoolTest, only_the_calls_of_the_thread_that_wants_it_are_interrupted) {
  Pool& pool = this->pool();
  std::stop_source stop;
  stop.request_stop();
  { const StopScope until_stop{stop.get_token()}; }
  write(pool);
  const StopScope until_stop{stop.get_token()};
  std::jthread{[&] { write(pool); }}.join();
  const StopScope never{{}};
  write(pool);
  EXPECT_EQ(std::count(world_.acts.begin(), world_.acts.end(), "1 interrupt"), 0);
}

TEST_F(PoolTest, a_stop_ends_the_wait_for_a_connection) {
  Pool& pool = this->pool({.pool_size = 1, .wait_timeout = 24h});
  std::stop_source stop;
  std::string answer;
  pool.in_transaction([&](Session&) {
    std::jthread other = queued([&] {
      const StopScope until_stop{stop.get_token()};
      answer = message_of([&] { write(pool); });
    });
    stop.request_stop();
  });
  EXPECT_EQ(answer, "store fake database: stopped on request while waiting for a connection");
}

TEST_F(PoolTest, names_the_option_that_is_out_of_range) {
  EXPECT_EQ(message_of([&] { pool({.pool_size = 0}); }),
            "database options: pool_size is 0, 1 to 10000 are allowed");
  EXPECT_EQ(message_of([&] { pool({.wait_timeout = -1ms}); }),
            "database options: wait_timeout is -1 ms, 0 to 86400000 ms are allowed");
  EXPECT_EQ(message_of([&] { pool({.answer_timeout = -1ms}); }),
            "database options: answer_timeout is -1 ms, 0 to 86400000 ms are allowed");
  EXPECT_EQ(message_of([&] { pool({.retry_timeout = -1ms}); }),
            "database options: retry_timeout is -1 ms, 0 to 86400000 ms are allowed");
  EXPECT_EQ(message_of([&] { pool({.retries = -1}); }),
            "database options: retries is -1, 0 to 1000 are allowed");
}

std::string address_refusal(std::string_view address) {
  try {
    (void)open_driver(address, {}, {});
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Address, of_sqlite_is_no_url) {
  for (const char* address : {"sqlite://shop.db", "sqlite:///var/lib/shop.db"}) {
    const std::string refusal = address_refusal(address);
    EXPECT_NE(refusal.find("sqlite:shop.db"), std::string::npos) << refusal;
    EXPECT_NE(refusal.find("sqlite:/var/lib/shop.db"), std::string::npos) << refusal;
  }
}

TEST(Address, is_refused_when_it_cannot_be_understood) {
  using namespace std::string_view_literals;
  for (const auto address : {""sv, "orders.db"sv, "mysql://me:hidden@there/x?host=y"sv, "sqlite:"sv,
                             "sqlite:a\0b"sv, "me:hidden@there"sv}) {
    const std::string refusal = address_refusal(address);
    EXPECT_TRUE(refusal.starts_with("database address: ")) << refusal;
    EXPECT_EQ(refusal.find("hidden"), std::string::npos) << refusal;
  }
}

}  // namespace
}  // namespace twinbox
