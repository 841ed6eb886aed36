#include "transport/rabbitmq/topology.hpp"

#include <charconv>

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
void run_declare(Connection& connection, const std::string& name, Ask call) {
  call();
  try {
    connection.check_last(name);
  } catch (const ChannelClosed& error) {
    explain(error, name);
  }
}

void prepare_exchange(Connection& connection, const std::string& name, const std::string& type,
                      Topology topology) {
  if (name.empty()) return;  // the default one always exists
  const bool passive = topology == Topology::check || name.starts_with("amq.");
  run_declare(connection, "exchange '" + name + "'", [&] {
    amqp_exchange_declare(connection.state(), Connection::channel, bytes_of(name), bytes_of(type),
                          passive ? 1 : 0, 1, 0, 0, amqp_empty_table);
  });
}

/// False: it exists with other properties, and the channel is closed. Throws ChannelClosed for
/// anything else.
bool declared(Connection& connection, const std::string& name, const QueueArguments& arguments) {
  amqp_queue_declare(connection.state(), Connection::channel, bytes_of(name), 0, 1, 0, 0,
                     arguments.table());
  try {
    connection.check_last("queue '" + name + "'");
    return true;
  } catch (const ChannelClosed& error) {
    if (error.code() != differs) throw;
    return false;
  }
}

void prepare_queue(Connection& connection, const std::string& name, const std::string& type,
                   Topology topology) {
  const std::string display_name = "queue '" + name + "'";
  if (topology == Topology::check) {
    run_declare(connection, display_name, [&] {
      amqp_queue_declare(connection.state(), Connection::channel, bytes_of(name), 1, 1, 0, 0,
                         amqp_empty_table);
    });
    return;
  }
  const QueueArguments wanted{type, connection.version()};
  if (wanted.unlimited()) {
    try {
      if (declared(connection, name, wanted)) return;
    } catch (const ChannelClosed& error) {
      explain(error, display_name);
    }
    // It may be older than that argument, and is used unchanged; the doctor reports it.
    connection.reopen_channel();
  }
  const QueueArguments plain{type, ""};
  run_declare(connection, display_name, [&] {
    amqp_queue_declare(connection.state(), Connection::channel, bytes_of(name), 0, 1, 0, 0,
                       plain.table());
  });
}

void bind(Connection& connection, const std::string& queue_name, const RabbitBinding& binding) {
  run_declare(connection,
              "binding of queue '" + queue_name + "' to exchange '" + binding.exchange + "'", [&] {
                amqp_queue_bind(connection.state(), Connection::channel, bytes_of(queue_name),
                                bytes_of(binding.exchange), bytes_of(binding.routing_key),
                                amqp_empty_table);
              });
}

}  // namespace

bool limits_deliveries(std::string_view version) noexcept {
  int major = 0;
  std::from_chars(version.data(), version.data() + version.size(), major);
  return major >= 4;
}

QueueArguments::QueueArguments(std::string_view type, std::string_view version)
    : unlimited_(type == "quorum" && limits_deliveries(version)) {
  entries_[0].key = amqp_cstring_bytes("x-queue-type");
  entries_[0].value.kind = AMQP_FIELD_KIND_UTF8;
  entries_[0].value.value.bytes = bytes_of(type);
  entries_[1].key = amqp_cstring_bytes("x-delivery-limit");
  entries_[1].value.kind = AMQP_FIELD_KIND_I32;
  entries_[1].value.value.i32 = -1;
}

std::string dead_letter_queue(const std::string& queue) { return queue + ".dead"; }

void prepare(Connection& connection, const RabbitSinkOptions& options) {
  prepare_exchange(connection, options.exchange, options.exchange_type, options.topology);
}

void prepare(Connection& connection, const RabbitSourceOptions& options) {
  prepare_queue(connection, options.queue, options.queue_type, options.topology);
  for (const RabbitBinding& binding : options.bindings) {
    prepare_exchange(connection, binding.exchange, binding.exchange_type, options.topology);
    if (options.topology == Topology::declare) bind(connection, options.queue, binding);
  }
  const std::string& dead_letters = options.dead_letter_exchange;
  prepare_exchange(connection, dead_letters, "fanout", options.topology);
  // A named exchange that is only checked may lead to queues of any name.
  if (!dead_letters.empty() && options.topology == Topology::check) return;
  prepare_queue(connection, dead_letter_queue(options.queue), options.queue_type, options.topology);
  if (!dead_letters.empty()) {
    bind(connection, dead_letter_queue(options.queue),
         {.exchange = dead_letters, .routing_key = ""});
  }
}

}  // namespace twinbox::rabbitmq
