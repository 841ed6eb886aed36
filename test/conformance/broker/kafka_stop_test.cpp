// A source of Kafka, and a store that does not answer.
#include <future>

#include "kafka_test.hpp"
#include "support/postgres.hpp"

namespace twinbox::test {
namespace {

class KafkaStop : public KafkaTest {};

TEST_P(KafkaStop, a_source_does_not_outlast_the_stop_though_its_store_is_silent) {
  inbox();
  Database database{test_store().address(), {.wait_timeout = 1h}, environment()};
  Inbox box{database, options()};
  PgClient holder{test_store().address()};
  PgClient watcher{test_store().address()};
  holder.begin();
  holder.run(in_schema("lock table {schema}inbox_message in access exclusive mode"));
  const KafkaSourceOptions from = source_options();
  send("a");
  {
    RunningKafka source{connection(), from, accept_into(box), environment()};
    ASSERT_TRUE(eventually([&] { return a_session_waits_for(holder, watcher); }));
    std::future<void> stop = std::async(std::launch::async, [&] { source.stop(); });
    EXPECT_EQ(stop.wait_for(60s), std::future_status::ready);
    holder.rollback();
    stop.get();
  }
  EXPECT_TRUE(log().events("store_unavailable").empty()) << "it was not";
  auto next = run(from);
  EXPECT_TRUE(next.wait_for(1)) << "what was not accepted comes again";
}

TWINBOX_ON_BACKENDS(KafkaStop, Backend::postgres);

}  // namespace
}  // namespace twinbox::test
