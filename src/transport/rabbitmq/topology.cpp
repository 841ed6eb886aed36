#include "transport/rabbitmq/topology.hpp"

namespace twinbox::rabbitmq {
namespace {

constexpr int not_found = 404;
constexpr int differs = 406;

[[noreturn]] void explain(const ChannelClosed& error, const std::string& name) {
  const std::string text = error.what();
  if (error.code() == not_found) {
    throw BrokerError(text + "; make the " + name + ", or let it be made: topology = declare");
  }
  if (error.code() == differs) {
    throw BrokerError(text + "; the " + name +
                      " is there with other properties: delete it, describe it as it is, or only "
                      "look for it: topology = check");
  }
  throw BrokerError(text);
}

template <class Ask>
void ask(Connection& connection, const std::string& name, Ask call) {
  call();
  try {
    connection.check_last(name);
  } catch (const ChannelClosed& error) {
    explain(error, name);
  }
}

void exchange(Connection& connection, const std::string& name, const std::string& type,
              Topology topology) {
  if (name.empty()) return;  // the default one is always there
  const bool only_look = topology == Topology::check || name.starts_with("amq.");
  ask(connection, "exchange '" + name + "'", [&] {
    amqp_exchange_declare(connection.state(), Connection::channel, bytes_of(name), bytes_of(type),
                          only_look ? 1 : 0, 1, 0, 0, amqp_empty_table);
  });
}

void queue(Connection& connection, const std::string& name, const std::string& type,
           Topology topology) {
  amqp_table_entry_t entry{};
  entry.key = amqp_cstring_bytes("x-queue-type");
  entry.value.kind = AMQP_FIELD_KIND_UTF8;
  entry.value.value.bytes = bytes_of(type);
  const amqp_table_t arguments{1, &entry};
  const bool only_look = topology == Topology::check;
  ask(connection, "queue '" + name + "'", [&] {
    amqp_queue_declare(connection.state(), Connection::channel, bytes_of(name), only_look ? 1 : 0,
                       1, 0, 0, only_look ? amqp_empty_table : arguments);
  });
}

void bind(Connection& connection, const std::string& queue_name, const RabbitBinding& binding) {
  ask(connection, "binding of queue '" + queue_name + "' to exchange '" + binding.exchange + "'",
      [&] {
        amqp_queue_bind(connection.state(), Connection::channel, bytes_of(queue_name),
                        bytes_of(binding.exchange), bytes_of(binding.routing_key),
                        amqp_empty_table);
      });
}

}  // namespace

std::string dead_queue(const std::string& queue) { return queue + ".dead"; }

void prepare(Connection& connection, const RabbitSinkOptions& options) {
  exchange(connection, options.exchange, options.exchange_type, options.topology);
}

void prepare(Connection& connection, const RabbitSourceOptions& options) {
  queue(connection, options.queue, options.queue_type, options.topology);
  for (const RabbitBinding& binding : options.bindings) {
    exchange(connection, binding.exchange, binding.exchange_type, options.topology);
    if (options.topology == Topology::declare) bind(connection, options.queue, binding);
  }
  const std::string& dead_letters = options.dead_letter_exchange;
  exchange(connection, dead_letters, "fanout", options.topology);
  // A named exchange that is only looked for may lead to queues of any name.
  if (!dead_letters.empty() && options.topology == Topology::check) return;
  queue(connection, dead_queue(options.queue), options.queue_type, options.topology);
  if (!dead_letters.empty()) {
    bind(connection, dead_queue(options.queue), {.exchange = dead_letters, .routing_key = ""});
  }
}

}  // namespace twinbox::rabbitmq
