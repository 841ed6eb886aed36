// NATS JetStream: a sink that waits for the stream's acknowledgement, and a source over a durable
// pull consumer that acknowledges after the commit. docs/reference/brokers.md has the tables.
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

/// The address and the settings of a server, or a cluster.
struct NatsConnection {
  /// `nats://user:password@host:4222`, `nats://token@host`, `tls://…`; several with commas.
  std::string url;
  std::string credentials_file = {};  ///< a JWT with its seed (`.creds`), instead of a password
  std::string ca_file = {};           ///< tls; empty: the system's certificates
  std::string certificate_file = {};  ///< tls: of this client, PEM; with its key, or none
  std::string key_file = {};
  Duration connect_timeout = std::chrono::seconds{10};
  Duration heartbeat =
      std::chrono::seconds{30};  ///< after two without an answer the connection is lost
  Duration max_reconnect_delay = std::chrono::seconds{15};  ///< doubled from 0.1 s on, with jitter
  /// `http://host:8222`, for examine_nats: only there a server reports how often it syncs.
  std::string monitor_url = {};
};

/// The retention of a stream. `limits`: every message until `max_age`; `interest`: messages that a
/// consumer has not acknowledged yet; `work_queue`: the same, for one consumer.
enum class NatsRetention { limits, interest, work_queue };

/// A stream, created on disk where it is missing; an existing one is not changed.
struct NatsStream {
  std::string name = {};
  std::vector<std::string> subjects = {};
  NatsRetention retention = NatsRetention::limits;
  int replicas = 1;
  Duration max_age = {};  ///< none: no message is dropped for its age
};

struct NatsSinkOptions {
  NatsStream stream = {};    ///< that must store the messages; without a name: any stream that does
  std::string subject = {};  ///< empty: the message's topic
  std::string subject_prefix = {};  ///< before the topic, such as `shop.`
  Topology topology = Topology::check;
  BodyFormat form = BodyFormat::automatic;
  Duration timeout = std::chrono::seconds{30};   ///< for the acknowledgement
  std::size_t max_bytes = 128U * 1024U * 1024U;  ///< of a body; a larger one is dead at once
};

/// Publishes with `Nats-Msg-Id`, many messages at a time over one persistent connection; a stream
/// must acknowledge each. Thread-safe.
class NatsPublisher {
 public:
  /// Throws std::invalid_argument naming the option. Connects at the first message.
  NatsPublisher(NatsConnection connection, NatsSinkOptions options, Environment environment = {});
  /// No call may be in progress.
  ~NatsPublisher();
  NatsPublisher(const NatsPublisher&) = delete;
  NatsPublisher& operator=(const NatsPublisher&) = delete;

  /// Done when a stream has acknowledged it. No stream for its subject, a full one, or no answer: a
  /// retry. Too large or impossible to send: dead. An unreachable server: postponed, without
  /// counting an attempt.
  std::vector<Outcome> publish(std::span<const Message> messages, std::stop_token stop = {});
  /// Immediately, without an outbox: for EventBusOptions::transport. Throws BrokerError unless a
  /// stream has acknowledged it, EventError for an invalid event.
  void send(const CloudEvent& event);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// For Routes and Handlers.
BatchHandler nats_sink(std::shared_ptr<NatsPublisher> publisher);

struct NatsSourceOptions {
  NatsStream stream;
  std::string consumer;     ///< durable; processes that share it share its messages
  std::string filter = {};  ///< subjects of the consumer; empty: all of the stream
  Topology topology = Topology::check;
  int prefetch = 256;  ///< deliveries that are held at once
  /// Between retries a message without a partition key waits on the server, which may then deliver
  /// it to another process; one with a key is held.
  SourceRetry retry = {};
  /// The server redelivers to another process after this time; renewed as long as a delivery is
  /// held. Applied when the consumer is declared.
  Duration ack_wait = std::chrono::seconds{30};
  /// How often a message may be delivered without being accepted, including retries, restarts and
  /// reconnects; 0: no limit.
  int max_deliver = 100;
  /// The subject for deliveries that cannot be accepted, with the reason in the header
  /// `twinbox-error`. Empty: `dead.<stream>.<consumer>`, which the stream `<stream>_dead` stores.
  std::string dead_letter_subject = {};
  Source source = Source{"nats"};  ///< of deliveries without one
};

/// Throws std::invalid_argument naming the option.
std::unique_ptr<BrokerSource> nats_source(NatsConnection connection, NatsSourceOptions options,
                                          AcceptCall accept, Environment environment = {});

/// Unsafe settings of the server, the stream of a sink or the consumer of a source, as far as the
/// server reports them. Changes nothing, and throws nothing for an unreachable server.
[[nodiscard]] std::vector<Finding> examine_nats(const NatsConnection& connection,
                                                const NatsSinkOptions& options);
[[nodiscard]] std::vector<Finding> examine_nats(const NatsConnection& connection,
                                                const NatsSourceOptions& options);

}  // namespace twinbox
