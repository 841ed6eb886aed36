#include "daemon/dispatch/brokers.hpp"

#include <stdexcept>

#include "daemon/config/owned_sources.hpp"
#include "daemon/dispatch/sinks.hpp"
#if TWINBOX_RABBITMQ
#include <twinbox/rabbitmq.hpp>
#endif
#if TWINBOX_NATS
#include <twinbox/nats.hpp>
#endif
#if TWINBOX_KAFKA
#include <twinbox/kafka.hpp>
#endif

namespace twinbox::app {
namespace {

/// Settings common to all broker connections.
template <class Connection>
Connection connection_of(const BrokerConfig& broker) {
  Connection connection{.url = broker.url};
  connection.ca_file = broker.ca_file;
  connection.certificate_file = broker.certificate_file;
  connection.key_file = broker.key_file;
  connection.connect_timeout = broker.connect_timeout;
  connection.heartbeat = broker.heartbeat;
  return connection;
}

[[maybe_unused]] Topology topology_of(const BrokerConfig& broker) {
  return broker.declare ? Topology::declare : Topology::check;
}

[[maybe_unused]] SourceRetry retry_of(const SourceConfig& source) {
  return {.max_retries = source.max_retries, .delay = source.delay, .max_delay = source.max_delay};
}

[[maybe_unused]] Source source_of(const SourceConfig& source) { return Source{own_source(source)}; }

[[noreturn, maybe_unused]] void refuse(const char* broker) {
  throw std::invalid_argument(std::string{"this program was built without "} + broker);
}

#if TWINBOX_RABBITMQ

RabbitConnection rabbit(const BrokerConfig& broker) {
  return connection_of<RabbitConnection>(broker);
}

RabbitSinkOptions rabbit(const SinkConfig& sink) {
  RabbitSinkOptions options{.exchange = sink.exchange,
                            .routing_key = sink.routing_key,
                            .exchange_type = sink.exchange_type,
                            .topology = topology_of(sink.broker),
                            .form = form_of(sink.form)};
  options.timeout = sink.timeout;
  options.max_bytes = sink.max_bytes;
  return options;
}

/// `exchange routing.key`; without a key: everything.
RabbitBinding binding_of(const std::string& text) {
  const std::size_t space = text.find(' ');
  if (space == std::string::npos) return {.exchange = text};
  return {.exchange = text.substr(0, space), .routing_key = text.substr(space + 1)};
}

RabbitSourceOptions rabbit(const SourceConfig& source) {
  RabbitSourceOptions options{.queue = source.queue, .queue_type = source.queue_type};
  for (const std::string& text : source.bindings) options.bindings.push_back(binding_of(text));
  options.topology = topology_of(source.broker);
  options.prefetch = source.prefetch;
  options.retry = retry_of(source);
  options.dead_letter_exchange = source.dead_letter_exchange;
  options.source = source_of(source);
  return options;
}

#endif
#if TWINBOX_NATS

NatsConnection nats(const BrokerConfig& broker) {
  NatsConnection connection = connection_of<NatsConnection>(broker);
  connection.credentials_file = broker.credentials_file;
  connection.monitor_url = broker.monitor_url;
  return connection;
}

NatsStream nats(const StreamConfig& stream) {
  NatsStream made{.name = stream.name, .subjects = stream.subjects};
  switch (stream.retention) {
    case StreamConfig::Retention::limits: made.retention = NatsRetention::limits; break;
    case StreamConfig::Retention::interest: made.retention = NatsRetention::interest; break;
    case StreamConfig::Retention::work_queue: made.retention = NatsRetention::work_queue; break;
  }
  made.replicas = stream.replicas;
  made.max_age = stream.max_age;
  return made;
}

NatsSinkOptions nats(const SinkConfig& sink) {
  NatsSinkOptions options{.stream = nats(sink.stream),
                          .subject = sink.subject,
                          .subject_prefix = sink.subject_prefix,
                          .topology = topology_of(sink.broker),
                          .form = form_of(sink.form)};
  options.timeout = sink.timeout;
  options.max_bytes = sink.max_bytes;
  return options;
}

NatsSourceOptions nats(const SourceConfig& source) {
  NatsSourceOptions options{
      .stream = nats(source.stream), .consumer = source.consumer, .filter = source.filter};
  options.topology = topology_of(source.broker);
  options.prefetch = source.prefetch;
  options.retry = retry_of(source);
  options.ack_wait = source.ack_wait;
  options.max_deliver = source.max_deliver;
  options.dead_letter_subject = source.dead_letter_subject;
  options.source = source_of(source);
  return options;
}

#endif
#if TWINBOX_KAFKA

KafkaConnection kafka(const BrokerConfig& broker) {
  KafkaConnection connection{.brokers = broker.url, .settings = broker.settings};
  connection.connect_timeout = broker.connect_timeout;
  const auto add = [&](const char* key, const char* name, const std::string& file) {
    if (file.empty() || connection.settings.emplace(name, file).second) return;
    throw std::invalid_argument(std::string{key} + ": settings has " + name +
                                ", which sets the same option; remove one of them");
  };
  add("ca_file", "ssl.ca.location", broker.ca_file);
  add("certificate_file", "ssl.certificate.location", broker.certificate_file);
  add("key_file", "ssl.key.location", broker.key_file);
  return connection;
}

KafkaSinkOptions kafka(const SinkConfig& sink) {
  KafkaSinkOptions options{.topic = sink.topic, .form = form_of(sink.form)};
  options.timeout = sink.timeout;
  options.max_bytes = sink.max_bytes;
  return options;
}

KafkaSourceOptions kafka(const SourceConfig& source) {
  KafkaSourceOptions options{.topics = source.topics, .group = source.group};
  options.from_beginning = source.from_beginning;
  options.prefetch = source.prefetch;
  options.retry = retry_of(source);
  options.dead_letter_topic = source.dead_letter_topic;
  options.source = source_of(source);
  return options;
}

#endif

std::vector<Finding> examine([[maybe_unused]] const SinkConfig& sink) {
#if TWINBOX_RABBITMQ
  if (sink.kind == SinkConfig::Kind::rabbitmq) {
    return examine_rabbitmq(rabbit(sink.broker), rabbit(sink));
  }
#endif
#if TWINBOX_NATS
  if (sink.kind == SinkConfig::Kind::nats) return examine_nats(nats(sink.broker), nats(sink));
#endif
#if TWINBOX_KAFKA
  if (sink.kind == SinkConfig::Kind::kafka) return examine_kafka(kafka(sink.broker), kafka(sink));
#endif
  return {};
}

std::vector<Finding> examine([[maybe_unused]] const SourceConfig& source) {
#if TWINBOX_RABBITMQ
  if (source.kind == SourceConfig::Kind::rabbitmq) {
    return examine_rabbitmq(rabbit(source.broker), rabbit(source));
  }
#endif
#if TWINBOX_NATS
  if (source.kind == SourceConfig::Kind::nats) {
    return examine_nats(nats(source.broker), nats(source));
  }
#endif
#if TWINBOX_KAFKA
  if (source.kind == SourceConfig::Kind::kafka) {
    return examine_kafka(kafka(source.broker), kafka(source));
  }
#endif
  return {};
}

void add(std::vector<Finding>& all, const std::string& section, std::vector<Finding> findings) {
  for (Finding& one : findings) {
    one.found = section + ": " + one.found;
    all.push_back(std::move(one));
  }
}

}  // namespace

HandlerCall make_broker_sink(const SinkConfig& sink,
                             [[maybe_unused]] const Environment& environment) {
  if (sink.kind == SinkConfig::Kind::nats) {
#if TWINBOX_NATS
    return nats_sink(std::make_shared<NatsPublisher>(nats(sink.broker), nats(sink), environment));
#else
    refuse("NATS");
#endif
  }
  if (sink.kind == SinkConfig::Kind::kafka) {
#if TWINBOX_KAFKA
    return kafka_sink(
        std::make_shared<KafkaPublisher>(kafka(sink.broker), kafka(sink), environment));
#else
    refuse("Kafka");
#endif
  }
#if TWINBOX_RABBITMQ
  return rabbitmq_sink(
      std::make_shared<RabbitPublisher>(rabbit(sink.broker), rabbit(sink), environment));
#else
  refuse("RabbitMQ");
#endif
}

std::unique_ptr<BrokerSource> make_broker_source(const SourceConfig& source,
                                                 [[maybe_unused]] AcceptCall accept,
                                                 [[maybe_unused]] const Environment& environment) {
  if (source.kind == SourceConfig::Kind::nats) {
#if TWINBOX_NATS
    return nats_source(nats(source.broker), nats(source), std::move(accept), environment);
#else
    refuse("NATS");
#endif
  }
  if (source.kind == SourceConfig::Kind::kafka) {
#if TWINBOX_KAFKA
    return kafka_source(kafka(source.broker), kafka(source), std::move(accept), environment);
#else
    refuse("Kafka");
#endif
  }
#if TWINBOX_RABBITMQ
  return rabbitmq_source(rabbit(source.broker), rabbit(source), std::move(accept), environment);
#else
  refuse("RabbitMQ");
#endif
}

std::vector<Finding> examine_brokers(const Config& config) {
  std::vector<Finding> all;
  for (const SinkConfig& sink : config.sinks) add(all, "sink." + sink.name, examine(sink));
  for (const SourceConfig& source : config.sources) {
    add(all, "source." + source.name, examine(source));
  }
  return all;
}

}  // namespace twinbox::app
