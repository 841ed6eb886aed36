// Exchanges and queues: made, or only looked for.
#pragma once

#include "transport/rabbitmq/connection.hpp"

namespace twinbox::rabbitmq {

/// Where dead letters of a queue lie when no exchange is named for them.
std::string dead_queue(const std::string& queue);

/// Throw BrokerError with the way out when something is missing or different.
void prepare(Connection& connection, const RabbitSinkOptions& options);
void prepare(Connection& connection, const RabbitSourceOptions& options);

}  // namespace twinbox::rabbitmq
