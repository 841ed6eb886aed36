// Events over RabbitMQ and back, byte by byte.
#include "rabbit_test.hpp"
#include "random_event.hpp"

namespace twinbox::test {
namespace {

class RabbitRoundTrip : public RabbitTest {
 protected:
  void travel(BodyFormat form) {
    const auto options = source_options();
    const auto sent = RandomEvents{20261118}.make(400);
    RabbitPublisher publisher{connection(), {.routing_key = queue, .form = form}};
    for (const Outcome& outcome : publisher.publish(claimed(outbox(), sent))) {
      ASSERT_EQ(outcome.kind(), Outcome::Kind::done) << outcome.reason();
    }
    RunningRabbit source = run(options);
    ASSERT_TRUE(source.wait_for(sent.size()));
    source.stop();
    expect_all(Admin{inbox()}, sent, form);
  }
};

TEST_P(RabbitRoundTrip, random_events_arrive_whole_in_binary_mode) { travel(BodyFormat::binary); }

TEST_P(RabbitRoundTrip, random_events_arrive_whole_in_structured_mode) {
  travel(BodyFormat::structured);
}

TWINBOX_ON_EVERY_BACKEND(RabbitRoundTrip);

}  // namespace
}  // namespace twinbox::test
