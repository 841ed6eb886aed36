// What wakes the dispatchers of a process where no file watch could tell of a commit.
#include <semaphore>
#include <thread>
#include <utility>

#include <gtest/gtest.h>
#include <sqlite3.h>

#include "database/open_driver.hpp"
#include "database/pool.hpp"
#include "support/backend.hpp"
#include "twinbox/dispatcher.hpp"
#include "twinbox/session.hpp"

namespace twinbox::test {
namespace {

/// Learns nothing of what others commit.
class DeafDriver final : public Driver {
 public:
  explicit DeafDriver(std::unique_ptr<Driver> inner) : inner_(std::move(inner)) {}

  [[nodiscard]] Dialect dialect() const noexcept override { return inner_->dialect(); }
  [[nodiscard]] Shape shape(std::size_t pool_size) const noexcept override {
    return inner_->shape(pool_size);
  }
  [[nodiscard]] std::string describe() const override { return inner_->describe(); }
  [[nodiscard]] Driver::Location location() const override { return inner_->location(); }
  std::unique_ptr<Connection> connect(Access access) override { return inner_->connect(access); }

 private:
  std::unique_ptr<Driver> inner_;
};

TEST(SqliteWake, after_a_callers_own_commit_ends_the_rest_of_a_dispatcher) {
  const TestStore test_store(Backend::sqlite_file);
  std::counting_semaphore<> rested{0};
  const Environment environment{
      .log =
          [&](const LogEvent& event) {
            if (event.name != "claim") return;
            if (event.fields.back().value == decltype(LogField::value){std::int64_t{0}})
              rested.release();
          },
      .log_level = LogLevel::debug};
  Database database = database_over(std::make_unique<Pool>(
      std::make_unique<DeafDriver>(open_driver(test_store.address(), {}, environment)),
      DatabaseOptions{}, environment));
  Outbox outbox{database, {.deploy_schema = true}};
  std::counting_semaphore<> handled{0};
  Handlers handlers;
  handlers.on(Topic{"order.placed"}, [&](const Message&) { handled.release(); });
  Dispatcher dispatcher{outbox, handlers, {.poll_interval = 1h, .housekeeping = std::nullopt}};
  std::jthread thread{[&](std::stop_token stop) { dispatcher.run(stop); }};
  rested.acquire();

  sqlite3* opened = nullptr;
  ASSERT_EQ(sqlite3_open(test_store.file().c_str(), &opened), SQLITE_OK);
  const std::unique_ptr<sqlite3, decltype(&sqlite3_close)> connection{opened, sqlite3_close};
  sqlite3_busy_timeout(opened, 60'000);  // the dispatcher may look once more before it rests
  ASSERT_EQ(sqlite3_exec(opened, "begin immediate", nullptr, nullptr, nullptr), SQLITE_OK);
  SqliteSession session{opened};
  outbox.enqueue(session, a_message());
  ASSERT_EQ(sqlite3_exec(opened, "commit", nullptr, nullptr, nullptr), SQLITE_OK);
  outbox.wake();
  // It tells of itself every 15 s, and would see then what it has missed.
  EXPECT_TRUE(handled.try_acquire_for(12s));
}

TEST(SqliteWake, tells_of_what_is_accepted_now_and_due_later) {
  Database database{"sqlite::memory:"};
  Inbox inbox{database, {.deploy_schema = true}};
  const OwnerToken owner = OwnerToken::make(database.environment());
  int told = 0;
  const Wake::Subscription subscription{pool_of(database).wake(), [&] { ++told; }};
  EXPECT_EQ(inbox.accept_and_claim(an_arrival("now"), owner, 30s).messages.size(), 1u);
  EXPECT_EQ(told, 0) << "there is nothing left for anybody else";
  Arrival later = an_arrival("later");
  later.extras.due_at = Instant::max();
  EXPECT_TRUE(inbox.accept_and_claim(later, owner, 30s).messages.empty());
  EXPECT_EQ(told, 1);
}

}  // namespace
}  // namespace twinbox::test
