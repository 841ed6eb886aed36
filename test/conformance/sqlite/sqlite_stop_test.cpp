// A dispatcher and a file which somebody else writes to.
#include <atomic>
#include <latch>
#include <semaphore>
#include <thread>

#include "support/backend.hpp"
#include <twinbox/dispatcher.hpp>

namespace twinbox::test {
namespace {

class SqliteStop : public BoxTest {};

TEST_P(SqliteStop, a_claim_that_waits_for_the_file_does_not_outlast_the_stop) {
  std::latch waiting{1};
  std::atomic<bool> held = false;
  Environment listening = environment();
  // A wait for a busy file is a throw of dice.
  listening.random = [&]() -> std::uint64_t {
    if (held.exchange(false)) waiting.count_down();
    return 4;
  };
  // It does not give up by itself before a test is over that does what it should.
  Database database{test_store().address(), {.wait_timeout = 30s}, listening};
  Outbox box{database, options()};
  box.enqueue(a_message());
  Dispatcher dispatcher{box, Handlers{}, {.workers = 1, .housekeeping = std::nullopt}};
  Database other{test_store().address()};
  other.in_transaction([&](Session&) {
    held = true;
    std::jthread run{[&](const std::stop_token& stop) { dispatcher.run(stop); }};
    waiting.wait();
  });
  EXPECT_TRUE(log().events("loop_error").empty());
}

TEST_P(SqliteStop, a_look_that_finds_nothing_waits_for_nobody_who_writes) {
  std::counting_semaphore<> watched{0};
  std::counting_semaphore<> looks{0};
  Environment listening = environment();
  listening.log = [&, write = listening.log](const LogEvent& event) {
    write(event);
    if (event.name == "watch") watched.release();
    if (event.name == "claim" || event.name == "loop_error") looks.release();
  };
  Database database{test_store().address(), {.wait_timeout = 0ms, .retries = 0}, listening};
  Outbox box{database, options()};
  Dispatcher dispatcher{
      box, Handlers{}, {.workers = 1, .poll_interval = 1ms, .housekeeping = std::nullopt}};
  std::jthread run{[&](const std::stop_token& stop) { dispatcher.run(stop); }};
  const auto look = [&](int count) {
    while (looks.try_acquire()) {
    }
    for (int i = 0; i < count; ++i) looks.acquire();
  };
  watched.acquire();
  look(2);  // those that began before it was watched are over, and it has told of itself
  Database other{test_store().address()};
  other.in_transaction([&](Session&) { look(4); });
  EXPECT_TRUE(log().events("loop_error").empty());
}

TWINBOX_ON_BACKENDS(SqliteStop, Backend::sqlite_file);

}  // namespace
}  // namespace twinbox::test
