// What a queue is declared with, without a broker.
#include <gtest/gtest.h>

#include "transport/rabbitmq/topology.hpp"

namespace twinbox::rabbitmq {
namespace {

TEST(RabbitVersion, tells_whether_a_quorum_queue_discards_what_comes_back_too_often) {
  for (const char* version : {"4.0.0", "4.2.1+git", "10.0", "4"}) {
    EXPECT_TRUE(limits_deliveries(version)) << version;
  }
  for (const char* version : {"3.10.8", "3.13.7", "", "unknown", "%%VSN%%"}) {
    EXPECT_FALSE(limits_deliveries(version)) << version;
  }
}

TEST(RabbitQueueArguments, lift_the_limit_where_there_is_one) {
  EXPECT_EQ(QueueArguments("quorum", "3.10.8").table().num_entries, 1);
  EXPECT_EQ(QueueArguments("classic", "4.1.0").table().num_entries, 1);
  const QueueArguments quorum{"quorum", "4.1.0"};
  const amqp_table_t table = quorum.table();
  ASSERT_EQ(table.num_entries, 2);
  EXPECT_EQ(view_of(table.entries[0].value.value.bytes), "quorum");
  EXPECT_EQ(view_of(table.entries[1].key), "x-delivery-limit");
  EXPECT_EQ(table.entries[1].value.value.i32, -1);
}

}  // namespace
}  // namespace twinbox::rabbitmq
