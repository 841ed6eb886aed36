// Kafka: a sink whose outcome is the delivery report, and a source that advances its offsets after
// the commit. docs/reference/brokers.md has the tables.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "twinbox/event.hpp"
#include "twinbox/handler.hpp"
#include "twinbox/health.hpp"
#include "twinbox/sink.hpp"
#include "twinbox/source.hpp"

namespace twinbox {

/// The address and the settings of a cluster.
struct KafkaConnection {
  std::string brokers;  ///< `host:9092`; several with commas between, of which one must answer
  /// Settings of librdkafka by their own names: `security.protocol`, `sasl.username`,
  /// `ssl.ca.location`, `session.timeout.ms` … Settings that would break a guarantee are refused.
  std::map<std::string, std::string> settings = {};
  Duration connect_timeout = std::chrono::seconds{10};
  Duration max_reconnect_delay = std::chrono::seconds{15};  ///< doubled from 0.1 s on, with jitter
};

struct KafkaSinkOptions {
  std::string topic = {};  ///< empty: the message's topic
  BodyFormat form = BodyFormat::automatic;
  Duration timeout = std::chrono::seconds{30};   ///< for the delivery report
  std::size_t max_bytes = 128U * 1024U * 1024U;  ///< of a record; a larger one is dead at once
};

/// Publishes as an idempotent producer with `acks=all`; the partition key is the record's key. One
/// thread of its own waits for delivery reports. Thread-safe.
class KafkaPublisher {
 public:
  /// Throws std::invalid_argument naming the option. Connects at the first message.
  KafkaPublisher(KafkaConnection connection, KafkaSinkOptions options,
                 Environment environment = {});
  /// No call may be in progress.
  ~KafkaPublisher();
  KafkaPublisher(const KafkaPublisher&) = delete;
  KafkaPublisher& operator=(const KafkaPublisher&) = delete;

  /// Done when all required replicas have it. An unknown topic, a missing right, or no report in
  /// time: a retry. Too large or impossible to send: dead. An unreachable cluster: postponed,
  /// without counting an attempt.
  std::vector<Outcome> publish(std::span<const Message> messages, std::stop_token stop = {});
  /// Immediately, without an outbox: for EventBusOptions::transport. Throws BrokerError unless it
  /// is reported as delivered, EventError for an invalid event.
  void send(const CloudEvent& event);

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

/// For Routes and Handlers.
BatchHandler kafka_sink(std::shared_ptr<KafkaPublisher> publisher);

struct KafkaSourceOptions {
  std::vector<std::string> topics;
  std::string group;  ///< consumers of one group share the partitions of its topics
  /// True: a group without an offset, or with an offset that the topic no longer has, begins at the
  /// first record. False: at the end, which skips earlier records.
  bool from_beginning = true;
  int prefetch = 500;  ///< records that may wait to be accepted; then partitions pause
  SourceRetry retry = {};
  /// The topic for records that cannot be accepted, with the reason in the header `twinbox-error`.
  /// Empty: the topic `<topic>.dead`.
  std::string dead_letter_topic = {};
  Source source = Source{"kafka"};  ///< of records without one
};

/// A record without an id is identified by `topic/partition/offset`. Throws std::invalid_argument
/// naming the option.
std::unique_ptr<BrokerSource> kafka_source(KafkaConnection connection, KafkaSourceOptions options,
                                           AcceptCall accept, Environment environment = {});

/// Unsafe settings of the connection and the topics of a sink or a source, as far as the cluster
/// reports them. Changes nothing, and throws nothing for an unreachable cluster.
[[nodiscard]] std::vector<Finding> examine_kafka(const KafkaConnection& connection,
                                                 const KafkaSinkOptions& options);
[[nodiscard]] std::vector<Finding> examine_kafka(const KafkaConnection& connection,
                                                 const KafkaSourceOptions& options);

}  // namespace twinbox
