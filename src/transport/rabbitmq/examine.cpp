#include <algorithm>
#include <string_view>
#include <utility>

#include "transport/rabbitmq/topology.hpp"

namespace twinbox {
namespace {

using namespace std::chrono_literals;
using rabbitmq::ChannelClosed;
using rabbitmq::Connection;
using Level = Finding::Level;
using Findings = std::vector<Finding>;

bool on_this_machine(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

void examine_address(Findings& findings, const rabbitmq::Address& address) {
  if (!address.tls && !on_this_machine(address.host)) {
    findings.push_back({"tls", Level::warning,
                        address.display_name() +
                            " is reached without TLS: passwords and messages can be "
                            "read on the way",
                        "use amqps:// with the port of the broker's TLS listener, 5671 as a rule"});
  }
  if (address.user == "guest" && !on_this_machine(address.host)) {
    findings.push_back({"user", Level::warning, "the user is guest, whose password is public",
                        "rabbitmqctl add_user, rabbitmqctl set_permissions, and its name in url"});
  }
}

/// A missing object: how severe it is, and what to do.
struct MissingFinding {
  Level level;
  std::string fix;
};

MissingFinding missing_finding(const std::string& what, Topology topology) {
  if (topology == Topology::declare) {
    return {Level::warning, "topology = declare makes it: start the source"};
  }
  return {Level::error, "make the " + what + ", or set topology = declare"};
}

/// Connects, queries, and reports errors; each query has a connection of its own, because a refusal
/// closes it.
template <class Ask>
bool probe(Findings& findings, const RabbitConnection& options, const std::string& check,
           const MissingFinding& if_missing, Ask ask) {
  try {
    Connection connection{options, {}};
    ask(connection);
    connection.close();
    return true;
  } catch (const ChannelClosed& error) {
    constexpr int not_found = 404;
    findings.push_back({check, error.code() == not_found ? if_missing.level : Level::error,
                        error.what(), if_missing.fix});
  } catch (const BrokerError& error) {
    findings.push_back({check, Level::error, error.what(), "start the broker, or mend url"});
  }
  return false;
}

bool examine_reach(Findings& findings, const RabbitConnection& options) {
  return probe(findings, options, "reach", {Level::error, ""}, [&](Connection& connection) {
    findings.push_back({"reach", Level::ok, connection.display_name() + " answers"});
  });
}

void look_for_exchange(Findings& findings, const RabbitConnection& connection,
                       const std::string& name, Topology topology) {
  if (name.empty()) return;
  probe(findings, connection, "exchange", missing_finding("exchange", topology),
        [&](Connection& open) {
          amqp_exchange_declare(open.state(), Connection::channel, rabbitmq::bytes_of(name),
                                rabbitmq::bytes_of("topic"), 1, 1, 0, 0, amqp_empty_table);
          open.check_last("exchange '" + name + "'");
          findings.push_back({"exchange", Level::ok, "exchange '" + name + "' is there"});
        });
}

/// How many messages lie in a queue; empty: it is not there, and the finding says so.
std::optional<std::uint32_t> look_for_queue(Findings& findings, const RabbitConnection& connection,
                                            const std::string& name, Topology topology) {
  std::optional<std::uint32_t> count;
  probe(findings, connection, "queue", missing_finding("queue", topology), [&](Connection& open) {
    const auto* answer = amqp_queue_declare(open.state(), Connection::channel,
                                            rabbitmq::bytes_of(name), 1, 1, 0, 0, amqp_empty_table);
    open.check_last("queue '" + name + "'");
    count = answer->message_count;
  });
  return count;
}

/// The properties of a queue so far.
struct QueueProperties {
  bool durable = true;
  bool auto_delete = false;
  std::string type = {};
  bool limited = false;       ///< discards deliveries that are returned too often
  std::string discards = {};  ///< the argument by which it discards waiting messages; empty: none

  /// Reads the difference that the broker names; false: an irrelevant one, or nothing new.
  bool apply_difference(std::string_view difference) {
    const auto named = [&](std::string_view name) {
      return difference.find(name) != std::string_view::npos;
    };
    if (named("'durable'")) return std::exchange(durable, false);
    if (named("'auto_delete'")) return !std::exchange(auto_delete, true);
    if (named("'x-delivery-limit'")) limited = true;
    for (const char* limit : {"x-message-ttl", "x-expires", "x-max-length", "x-max-length-bytes"}) {
      if (named("'" + std::string{limit} + "'")) discards = limit;
    }
    if (named("'x-queue-type'") && type == "quorum") {
      type = "classic";
      return true;
    }
    return false;
  }
};

/// Compares an existing queue with one that keeps its messages, until the broker names no further
/// difference; empty: the permission is missing, and the finding says so.
std::optional<QueueProperties> queue_properties(Findings& findings,
                                                const RabbitConnection& connection,
                                                const std::string& name) {
  QueueProperties properties{.type = "quorum"};
  while (true) {
    try {
      Connection open{connection, {}};
      const rabbitmq::QueueArguments arguments{properties.type, open.version()};
      amqp_queue_declare(open.state(), Connection::channel, rabbitmq::bytes_of(name), 0,
                         properties.durable ? 1 : 0, 0, properties.auto_delete ? 1 : 0,
                         arguments.table());
      open.check_last("queue '" + name + "'");
      open.close();
      return properties;
    } catch (const ChannelClosed& error) {
      constexpr int not_allowed = 403;
      if (error.code() == not_allowed) {
        findings.push_back({"durable", Level::warning,
                            "whether queue '" + name +
                                "' keeps its messages is not told to a user "
                                "without the right to configure it",
                            "look with rabbitmqctl list_queues name durable auto_delete, or let a "
                            "user with that right look"});
        return {};
      }
      if (!properties.apply_difference(error.what())) return properties;
    } catch (const BrokerError& error) {
      findings.push_back({"reach", Level::error, error.what(), "start the broker, or mend url"});
      return {};
    }
  }
}

void examine_durability(Findings& findings, const RabbitConnection& connection,
                        const std::string& name) {
  const auto properties = queue_properties(findings, connection, name);
  if (!properties) return;
  if (properties->durable) {
    findings.push_back({"durable", Level::ok, "queue '" + name + "' survives a restart"});
  } else {
    findings.push_back({"durable", Level::error,
                        "queue '" + name + "' is not durable: a restart of the broker loses it",
                        "delete it and declare it as durable"});
  }
  if (properties->auto_delete) {
    findings.push_back({"auto_delete", Level::error,
                        "queue '" + name +
                            "' deletes itself: it goes, with its messages, as soon "
                            "as the source is disconnected",
                        "delete it and declare it without auto-delete"});
  }
  if (properties->limited) {
    findings.push_back({"delivery_limit", Level::warning,
                        "queue '" + name +
                            "' has a delivery limit, 20 unless told otherwise: what "
                            "comes back more often, as with every lost connection, is discarded",
                        "make it anew with x-delivery-limit = -1, as topology = declare does, or "
                        "give it a policy with a large delivery-limit"});
  }
  if (!properties->discards.empty()) {
    findings.push_back({"discards", Level::warning,
                        "queue '" + name + "' has " + properties->discards +
                            ": the broker discards what waits too long or is too much, or the "
                            "queue with all that is in it",
                        "make it anew without; x-max-length does no harm with x-overflow = "
                        "reject-publish"});
  }
}

void examine_dead_letters(Findings& findings, const RabbitConnection& connection,
                          const RabbitSourceOptions& options) {
  if (!options.dead_letter_exchange.empty()) {
    look_for_exchange(findings, connection, options.dead_letter_exchange, options.topology);
    return;
  }
  const std::string name = rabbitmq::dead_letter_queue(options.queue);
  const auto count = look_for_queue(findings, connection, name, options.topology);
  if (!count) return;
  examine_durability(findings, connection, name);
  if (*count == 0) {
    findings.push_back({"dead", Level::ok, "no dead letters in queue '" + name + "'"});
  } else {
    findings.push_back({"dead", Level::warning,
                        std::to_string(*count) + " dead letters in queue '" + name + "'",
                        "read their header twinbox-error, then move them back to '" +
                            options.queue + "', or purge them"});
  }
}

}  // namespace

std::vector<Finding> examine_rabbitmq(const RabbitConnection& connection,
                                      const RabbitSinkOptions& options) {
  Findings findings;
  rabbitmq::check(connection);
  if (!examine_reach(findings, connection)) return findings;
  examine_address(findings, rabbitmq::Address::parse(connection.url));
  if (options.topology == Topology::check) {
    look_for_exchange(findings, connection, options.exchange, options.topology);
  }
  return findings;
}

std::vector<Finding> examine_rabbitmq(const RabbitConnection& connection,
                                      const RabbitSourceOptions& options) {
  Findings findings;
  rabbitmq::check(connection);
  if (!examine_reach(findings, connection)) return findings;
  examine_address(findings, rabbitmq::Address::parse(connection.url));
  if (look_for_queue(findings, connection, options.queue, options.topology)) {
    examine_durability(findings, connection, options.queue);
    examine_dead_letters(findings, connection, options);
  }
  return findings;
}

}  // namespace twinbox
