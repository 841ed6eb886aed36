// What a broker has delivered, and a store that cannot take it. Without a broker.
#include <future>
#include <thread>
#include <unistd.h>

#include "support/inbox_test.hpp"
#include "support/postgres.hpp"
#include "transport/accept_thread.hpp"
#include <twinbox/intake.hpp>

namespace twinbox::test {
namespace {

class AcceptStoreFailure : public InboxTest {
 protected:
  static SourceRetry one_retry() { return {.max_retries = 1, .delay = 1ms, .max_delay = 1ms}; }
};

TEST_P(AcceptStoreFailure, a_database_that_is_gone_costs_no_message_its_place) {
  const std::string name = "twinbox_gone_" + std::to_string(getpid());
  PgClient client{test_store().address()};
  client.run("create database " + name);
  Database database{with_setting(test_store().address(), "dbname=" + name), {.retries = 1}};
  Inbox box{database, {.deploy_schema = true}};
  client.run("drop database " + name + " with (force)");
  AcceptBuffer buffer{accept_into(box), one_retry(), "test", environment()};
  buffer.add({1, an_arrival()});
  auto time = AcceptBuffer::Time{} + 1h;
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(buffer.step(time).empty());
    ASSERT_TRUE(buffer.next());
    time = *buffer.next();
  }
  for (const char* part : {"3D000", "create the database"}) {
    EXPECT_NE(buffer.last_error().find(part), std::string::npos) << buffer.last_error();
  }
}

TEST_P(AcceptStoreFailure, a_commit_that_waits_for_no_standby_acknowledges_nothing) {
  inbox();
  BoxOptions strict = options();
  strict.require_synchronous = true;
  Inbox box{database(), strict};
  AcceptBuffer buffer{accept_into(box), one_retry(), "test", environment()};
  buffer.add({1, an_arrival()});
  auto time = AcceptBuffer::Time{} + 1h;
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(buffer.step(time).empty());
    ASSERT_TRUE(buffer.next());
    time = *buffer.next();
  }
  EXPECT_NE(buffer.last_error().find("synchronous_standby_names"), std::string::npos);
}

TEST_P(AcceptStoreFailure, a_stop_ends_an_accept_that_waits_for_a_silent_store) {
  inbox();
  Database database{test_store().address(), {.wait_timeout = 1h}, environment()};
  Inbox box{database, options()};
  PgClient holder{test_store().address()};
  PgClient watcher{test_store().address()};
  holder.begin();
  holder.run(in_schema("lock table {schema}inbox_message in access exclusive mode"));
  AcceptThread accepting{{accept_into(box), one_retry(), "test", environment()}, [] {}};
  accepting.add({1, an_arrival()});
  while (!a_session_waits_for(holder, watcher)) std::this_thread::yield();
  std::future<void> stop = std::async(std::launch::async, [&] { accepting.stop(); });
  EXPECT_EQ(stop.wait_for(60s), std::future_status::ready);
  holder.rollback();
  stop.get();
  EXPECT_TRUE(accepting.take().empty());
  EXPECT_TRUE(log().events("store_unavailable").empty()) << "it was not";
}

TWINBOX_ON_BACKENDS(AcceptStoreFailure, Backend::postgres);

}  // namespace
}  // namespace twinbox::test
