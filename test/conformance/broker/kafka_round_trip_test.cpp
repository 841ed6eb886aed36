// Events over Kafka and back, byte by byte.
#include "kafka_test.hpp"
#include "random_event.hpp"

namespace twinbox::test {
namespace {

class KafkaRoundTrip : public KafkaTest {
 protected:
  void travel(BodyFormat form) {
    const auto options = source_options();
    const auto sent = RandomEvents{20261118}.make(400);
    KafkaPublisher publisher{connection(), {.topic = topic, .form = form}};
    for (const Outcome& outcome : publisher.publish(claimed(outbox(), sent))) {
      ASSERT_EQ(outcome.kind(), Outcome::Kind::done) << outcome.reason();
    }
    RunningKafka source = run(options);
    ASSERT_TRUE(source.wait_for(sent.size()));
    source.stop();
    expect_all(Admin{inbox()}, sent, form);
  }
};

TEST_P(KafkaRoundTrip, random_events_arrive_whole_in_binary_mode) { travel(BodyFormat::binary); }

TEST_P(KafkaRoundTrip, random_events_arrive_whole_in_structured_mode) {
  travel(BodyFormat::structured);
}

TWINBOX_ON_EVERY_BACKEND(KafkaRoundTrip);

}  // namespace
}  // namespace twinbox::test
