// In a caller's transaction on PostgreSQL, a known message that came again without its partition
// key got a new delivery before one that stood ahead of it in the batch, with that key.
#include "support/inbox_test.hpp"

namespace twinbox::test {
namespace {

class MixedBatch : public InboxTest {};

TEST_P(MixedBatch, keeps_the_order_of_a_partition_key_though_one_message_comes_without_it) {
  Arrival first = an_arrival("first");
  Arrival second = an_arrival("second");
  first.extras.partition_key = second.extras.partition_key = PartitionKey{"k"};
  inbox().accept(second, {{HandlerName{HandlerKey{"other"}}}});
  second.extras.partition_key.reset();
  database().in_transaction([&](Session& session) {
    inbox().accept(session, std::vector{first, second});
  });
  std::vector<std::string> order;
  for (auto claimed = inbox().claim(worker_a, 30s, 10); !claimed.empty();
       claimed = inbox().claim(worker_a, 30s, 10)) {
    for (const Message& message : claimed) {
      if (message.handler == HandlerKey::by_topic()) order.push_back(message.id.str());
    }
    inbox().ack(worker_a, claimed);
  }
  EXPECT_EQ(order, (std::vector<std::string>{"first", "second"}));
}

TWINBOX_ON_EVERY_BACKEND(MixedBatch);

}  // namespace
}  // namespace twinbox::test
