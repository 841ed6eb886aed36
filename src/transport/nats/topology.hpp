// Streams and consumers: created, or only checked.
#pragma once

#include <optional>

#include "transport/nats/connection.hpp"

namespace twinbox::nats {

/// The subject for dead letters of a source.
std::string dead_letter_subject_of(const NatsSourceOptions& options);
/// The stream that is created for them.
NatsStream dead_letter_stream(const NatsSourceOptions& options);

/// Empty: there is none. Throw BrokerError when it cannot be asked.
Owned<jsStreamInfo> find_stream(const Connection& connection, const std::string& name);
Owned<jsConsumerInfo> find_consumer(const Connection& connection, const std::string& stream,
                                    const std::string& consumer);
/// The stream that takes a subject; empty: none does.
std::string stream_of_subject(const Connection& connection, const std::string& subject);

/// Throw BrokerError with the fix when an object is missing, or has unsuitable settings.
void prepare(const Connection& connection, const NatsSinkOptions& options);
Owned<jsConsumerInfo> prepare(const Connection& connection, const NatsSourceOptions& options);

/// Throw std::invalid_argument naming the option.
void check(const NatsSinkOptions& options);
void check(const NatsSourceOptions& options);

}  // namespace twinbox::nats
