// Kafka: a sink whose outcome is the delivery report, a source that moves its offsets on after the
// commit. docs/reference/brokers.md has the tables.
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

/// How a cluster is reached.
struct KafkaConnection {
  std::string brokers;  ///< `host:9092`; several with commas between, of which one must answer
  /// Settings of librdkafka by their own names: `security.protocol`, `sasl.username`,
  /// `ssl.ca.location`, `session.timeout.ms` … Those that a guarantee rests on are refused.
  std::map<std::string, std::string> settings = {};
  Duration connect_timeout = std::chrono::seconds{10};
  Duration max_reconnect_delay = std::chrono::seconds{15};  ///< doubled from 0.1 s on, with chance
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
  /// No call may be under way.
  ~KafkaPublisher();
  KafkaPublisher(const KafkaPublisher&) = delete;
  KafkaPublisher& operator=(const KafkaPublisher&) = delete;

  /// Done when all replicas that must have it have it. An unknown topic, a missing right, or no
  /// report in time: a retry. Too large or impossible to send: dead. A cluster that is away: put
  /// off, without counting an attempt.
  std::vector<Outcome> publish(std::span<const Message> messages, std::stop_token stop = {});
  /// At once, without an outbox: for EventBusOptions::transport. Throws BrokerError unless it has
  /// been reported as delivered, EventError for what is no event.
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
  /// Where a group begins that has no offset yet, or whose offset is not in the topic any more;
  /// else: at the end, and what came before is passed over.
  bool from_beginning = true;
  int prefetch = 500;  ///< records that may wait to be accepted; then partitions pause
  SourceRetry retry = {};
  /// Where records go that cannot be accepted, with the reason in the header `twinbox-error`.
  /// Empty: the topic `<topic>.dead`.
  std::string dead_letter_topic = {};
  Source source = Source{"kafka"};  ///< of records that name none
};

/// A record without an id of its own is known by `topic/partition/offset`. Throws
/// std::invalid_argument naming the option.
std::unique_ptr<BrokerSource> kafka_source(KafkaConnection connection, KafkaSourceOptions options,
                                           AcceptCall accept, Environment environment = {});

/// What is unsafe about the connection and the topics of a sink or a source, as far as the cluster
/// tells. Nothing is changed, nothing is thrown for a cluster that cannot be asked.
[[nodiscard]] std::vector<Finding> examine_kafka(const KafkaConnection& connection,
                                                 const KafkaSinkOptions& options);
[[nodiscard]] std::vector<Finding> examine_kafka(const KafkaConnection& connection,
                                                 const KafkaSourceOptions& options);

}  // namespace twinbox
