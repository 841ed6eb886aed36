// NATS JetStream: a sink that waits for the stream's acknowledgement, a source over a durable pull
// consumer that acknowledges after the commit. docs/reference/brokers.md has the tables.
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

/// How a server, or a cluster, is reached.
struct NatsConnection {
  /// `nats://user:password@host:4222`, `nats://token@host`, `tls://…`; several with commas.
  std::string url;
  std::string credentials_file = {};  ///< a JWT with its seed (`.creds`), instead of a password
  std::string ca_file = {};           ///< tls; empty: the system's certificates
  std::string certificate_file = {};  ///< tls: of this client, PEM; with its key, or none
  std::string key_file = {};
  Duration connect_timeout = std::chrono::seconds{10};
  Duration heartbeat = std::chrono::seconds{30};  ///< after two without an answer it is lost
  Duration max_reconnect_delay = std::chrono::seconds{15};  ///< doubled from 0.1 s on, with chance
  /// `http://host:8222`, for examine_nats: only there a server tells how often it syncs.
  std::string monitor_url = {};
};

/// What is kept of a stream. `limits`: everything, until `max_age`; `interest`: what a consumer has
/// yet to acknowledge; `work_queue`: the same, for one consumer.
enum class NatsRetention { limits, interest, work_queue };

/// A stream as it is made where it is missing, on disk; one that is there stays as it is.
struct NatsStream {
  std::string name = {};
  std::vector<std::string> subjects = {};
  NatsRetention retention = NatsRetention::limits;
  int replicas = 1;
  Duration max_age = {};  ///< none: nothing is dropped for its age
};

struct NatsSinkOptions {
  NatsStream stream = {};           ///< that must take them; without a name: whichever does
  std::string subject = {};         ///< empty: the message's topic
  std::string subject_prefix = {};  ///< before the topic, such as `shop.`
  Topology topology = Topology::check;
  BodyFormat form = BodyFormat::automatic;
  Duration timeout = std::chrono::seconds{30};   ///< for the acknowledgement
  std::size_t max_bytes = 128U * 1024U * 1024U;  ///< of a body; a larger one is dead at once
};

/// Publishes with `Nats-Msg-Id`, many at a time over one connection that it keeps; a stream must
/// acknowledge each. Thread-safe.
class NatsPublisher {
 public:
  /// Throws std::invalid_argument naming the option. Connects at the first message.
  NatsPublisher(NatsConnection connection, NatsSinkOptions options, Environment environment = {});
  /// No call may be under way.
  ~NatsPublisher();
  NatsPublisher(const NatsPublisher&) = delete;
  NatsPublisher& operator=(const NatsPublisher&) = delete;

  /// Done when a stream has acknowledged it. No stream for its subject, a full one, or no answer: a
  /// retry. Too large or impossible to send: dead. A server that is away: put off, without counting
  /// an attempt.
  std::vector<Outcome> publish(std::span<const Message> messages, std::stop_token stop = {});
  /// At once, without an outbox: for EventBusOptions::transport. Throws BrokerError unless a stream
  /// has acknowledged it, EventError for what is no event.
  void send(const CloudEvent& event);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// For Routes and Handlers.
BatchHandler nats_sink(std::shared_ptr<NatsPublisher> publisher);

struct NatsSourceOptions {
  NatsStream stream;
  std::string consumer;     ///< durable; who shares it shares its messages
  std::string filter = {};  ///< subjects of the consumer; empty: all of the stream
  Topology topology = Topology::check;
  int prefetch = 256;  ///< deliveries that are held at once
  /// Between repetitions a message without a partition key waits with the server, which may give it
  /// to another process then; one with a key is held.
  SourceRetry retry = {};
  /// After that the server gives a delivery to somebody else; renewed as long as it is held. When
  /// the consumer is declared.
  Duration ack_wait = std::chrono::seconds{30};
  /// How often it may come without being accepted: repetitions, restarts and new connections
  /// counted, whatever they were for; 0: for ever.
  int max_deliver = 100;
  /// Where deliveries go that cannot be accepted, with the reason in the header `twinbox-error`.
  /// Empty: `dead.<stream>.<consumer>`, which the stream `<stream>_dead` takes.
  std::string dead_letter_subject = {};
  Source source = Source{"nats"};  ///< of deliveries that name none
};

/// Throws std::invalid_argument naming the option.
std::unique_ptr<BrokerSource> nats_source(NatsConnection connection, NatsSourceOptions options,
                                          AcceptCall accept, Environment environment = {});

/// What is unsafe about the server, the stream of a sink or the consumer of a source, as far as the
/// server tells. Nothing is changed, nothing is thrown for a server that cannot be asked.
[[nodiscard]] std::vector<Finding> examine_nats(const NatsConnection& connection,
                                                const NatsSinkOptions& options);
[[nodiscard]] std::vector<Finding> examine_nats(const NatsConnection& connection,
                                                const NatsSourceOptions& options);

}  // namespace twinbox
