// A stop request ends a claim that waits for a file which somebody else writes to.
#include <atomic>
#include <latch>
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
  Database database{place().address(), {.wait_limit = 30s}, listening};
  Outbox box{database, options()};
  box.enqueue(a_message());
  Dispatcher dispatcher{box, Handlers{}, {.workers = 1, .housekeeping = std::nullopt}};
  Database other{place().address()};
  other.in_transaction([&](Session&) {
    held = true;
    std::jthread run{[&](const std::stop_token& stop) { dispatcher.run(stop); }};
    waiting.wait();
  });
  EXPECT_TRUE(log().events("loop_error").empty());
}

TWINBOX_ON_BACKENDS(SqliteStop, Backend::sqlite_file);

}  // namespace
}  // namespace twinbox::test
