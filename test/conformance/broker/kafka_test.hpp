// What the tests of Kafka share.
#pragma once

#include "kafka.hpp"
#include "running_source.hpp"
#include "support/inbox_test.hpp"
#include <twinbox/kafka.hpp>

namespace twinbox::test {

class RunningKafka : public RunningSource {
 public:
  RunningKafka(const KafkaConnection& connection, const KafkaSourceOptions& options,
               AcceptCall accept, Environment environment = {})
      : RunningSource(std::move(accept), [&](AcceptCall counted) {
          return kafka_source(connection, options, std::move(counted), std::move(environment));
        }) {}
};

class KafkaTest : public InboxTest {
 protected:
  KafkaConnection connection() {
    return {.brokers = kafka.brokers(), .settings = quick_settings()};
  }
  /// A topic of the test's own, with a topic for its dead letters.
  KafkaSourceOptions source_options() {
    if (topic.empty()) {
      topic = kafka.topic(own_name("in"));
      kafka.topic(topic + ".dead");
    }
    return {.topics = {topic}, .group = group, .retry = {.max_retries = 2, .delay = 1ms}};
  }
  RunningKafka run(KafkaSourceOptions options) {
    return {connection(), std::move(options), accept_into(inbox()), environment()};
  }
  std::unique_ptr<RunningKafka> run() {
    return std::make_unique<RunningKafka>(connection(), source_options(), accept_into(inbox()),
                                          environment());
  }
  void send(const std::string& id, const std::string& about = "order.placed") {
    kafka.publish(topic,
                  {.body = payload(id), .headers = {{"twinbox-id", id}, {"twinbox-topic", about}}});
  }
  std::int64_t committed() { return kafka.committed(group, topic); }
  MessageKey key(const std::string& id) { return {Source{"kafka"}, MessageId{id}}; }

  Kafka kafka;
  const std::string group = "billing";
  std::string topic;
};

}  // namespace twinbox::test
