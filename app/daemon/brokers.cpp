#include "daemon/brokers.hpp"

#include <stdexcept>

#include "daemon/sinks.hpp"
#if TWINBOX_RABBITMQ
#include <twinbox/rabbitmq.hpp>
#endif

namespace twinbox::app {
namespace {

#if TWINBOX_RABBITMQ

void add(std::vector<Finding>& all, const std::string& section, std::vector<Finding> findings) {
  for (Finding& one : findings) {
    one.found = section + ": " + one.found;
    all.push_back(std::move(one));
  }
}

RabbitConnection connection_of(const BrokerConfig& broker) {
  RabbitConnection connection{.url = broker.url,
                              .ca_file = broker.ca_file,
                              .certificate_file = broker.certificate_file,
                              .key_file = broker.key_file};
  connection.connect_timeout = broker.connect_timeout;
  connection.heartbeat = broker.heartbeat;
  return connection;
}

Topology topology_of(const BrokerConfig& broker) {
  return broker.declare ? Topology::declare : Topology::check;
}

RabbitSinkOptions options_of(const SinkConfig& sink) {
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

RabbitSourceOptions options_of(const SourceConfig& source) {
  RabbitSourceOptions options{.queue = source.queue, .queue_type = source.queue_type};
  for (const std::string& text : source.bindings) options.bindings.push_back(binding_of(text));
  options.topology = topology_of(source.broker);
  options.prefetch = source.prefetch;
  options.retry = {
      .max_retries = source.max_retries, .delay = source.delay, .max_delay = source.max_delay};
  options.dead_letter_exchange = source.dead_letter_exchange;
  options.source = Source{source.source.empty() ? source.name : source.source};
  return options;
}

#endif

}  // namespace

HandlerCall make_broker_sink([[maybe_unused]] const SinkConfig& sink,
                             [[maybe_unused]] const Environment& environment) {
#if TWINBOX_RABBITMQ
  return rabbitmq_sink(
      std::make_shared<RabbitPublisher>(connection_of(sink.broker), options_of(sink), environment));
#else
  throw std::invalid_argument("this program was built without RabbitMQ");
#endif
}

std::unique_ptr<BrokerSource> make_broker_source([[maybe_unused]] const SourceConfig& source,
                                                 [[maybe_unused]] AcceptCall accept,
                                                 [[maybe_unused]] const Environment& environment) {
#if TWINBOX_RABBITMQ
  return rabbitmq_source(connection_of(source.broker), options_of(source), std::move(accept),
                         environment);
#else
  throw std::invalid_argument("this program was built without RabbitMQ");
#endif
}

std::vector<Finding> examine_brokers([[maybe_unused]] const Config& config) {
  std::vector<Finding> all;
#if TWINBOX_RABBITMQ
  for (const SinkConfig& sink : config.sinks) {
    if (sink.is_broker()) {
      add(all, "sink." + sink.name, examine_rabbitmq(connection_of(sink.broker), options_of(sink)));
    }
  }
  for (const SourceConfig& source : config.sources) {
    add(all, "source." + source.name,
        examine_rabbitmq(connection_of(source.broker), options_of(source)));
  }
#endif
  return all;
}

}  // namespace twinbox::app
