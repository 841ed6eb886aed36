// RabbitMQ (AMQP 0-9-1): a sink that publishes with confirms, and a source that acknowledges after
// the commit. docs/reference/brokers.md has the tables.
#pragma once

#include <chrono>
#include <cstddef>
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

/// The address and the settings of a broker.
struct RabbitConnection {
  std::string url;                    ///< `amqp://user:password@host:5672/vhost`, or `amqps://…`
  std::string ca_file = {};           ///< amqps; empty: the system's certificates
  std::string certificate_file = {};  ///< amqps: of this client, PEM; with its key, or none
  std::string key_file = {};
  Duration connect_timeout = std::chrono::seconds{10};
  Duration heartbeat =
      std::chrono::seconds{30};  ///< whole seconds; after two without one the connection is lost
  Duration max_reconnect_delay = std::chrono::seconds{15};  ///< doubled from 0.1 s on, with jitter
};

struct RabbitSinkOptions {
  std::string exchange = {};     ///< empty: the default one, which routes to the queue of that name
  std::string routing_key = {};  ///< empty: the message's topic
  std::string exchange_type = "topic";  ///< when it is declared
  Topology topology = Topology::check;
  BodyFormat form = BodyFormat::automatic;
  Duration timeout = std::chrono::seconds{30};   ///< for the confirm
  std::size_t max_bytes = 128U * 1024U * 1024U;  ///< of a body; a larger one is dead at once
};

/// Publishes persistently, as `mandatory`, with confirms, over one persistent connection; one
/// thread of its own does all input and output. Thread-safe.
class RabbitPublisher {
 public:
  /// Throws std::invalid_argument naming the option. Connects at the first message.
  RabbitPublisher(RabbitConnection connection, RabbitSinkOptions options,
                  Environment environment = {});
  /// No call may be in progress.
  ~RabbitPublisher();
  RabbitPublisher(const RabbitPublisher&) = delete;
  RabbitPublisher& operator=(const RabbitPublisher&) = delete;

  /// Done when the broker has confirmed it. Unroutable, refused (a full queue) or unconfirmed: a
  /// retry. Too large or impossible to send: dead. An unreachable broker: postponed, without
  /// counting an attempt.
  std::vector<Outcome> publish(std::span<const Message> messages, std::stop_token stop = {});
  /// Immediately, without an outbox: for EventBusOptions::transport. Throws BrokerError unless the
  /// broker has confirmed it, EventError for an invalid event.
  void send(const CloudEvent& event);

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

/// For Routes and Handlers.
BatchHandler rabbitmq_sink(std::shared_ptr<RabbitPublisher> publisher);

struct RabbitBinding {
  std::string exchange;
  std::string routing_key = "#";
  std::string exchange_type = "topic";  ///< when it is declared
};

struct RabbitSourceOptions {
  std::string queue;
  std::string queue_type = "quorum";  ///< or `classic`; when it is declared
  std::vector<RabbitBinding> bindings = {};
  Topology topology = Topology::check;
  int prefetch = 256;  ///< deliveries that may be unacknowledged
  SourceRetry retry = {};
  /// The exchange for deliveries that cannot be accepted, under their own routing key, with the
  /// reason in the header `twinbox-error`. Empty: the default exchange, to the queue
  /// `<queue>.dead`.
  std::string dead_letter_exchange = {};
  Source source = Source{"rabbitmq"};  ///< of deliveries without one
};

/// Throws std::invalid_argument naming the option.
std::unique_ptr<BrokerSource> rabbitmq_source(RabbitConnection connection,
                                              RabbitSourceOptions options, AcceptCall accept,
                                              Environment environment = {});

/// Unsafe settings of the connection, the exchange of a sink or the queue of a source, as far as
/// the broker reports them. Changes nothing, and throws nothing for an unreachable broker.
[[nodiscard]] std::vector<Finding> examine_rabbitmq(const RabbitConnection& connection,
                                                    const RabbitSinkOptions& options);
[[nodiscard]] std::vector<Finding> examine_rabbitmq(const RabbitConnection& connection,
                                                    const RabbitSourceOptions& options);

}  // namespace twinbox
