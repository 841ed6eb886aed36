// Exchanges and queues: made, or only looked for.
#pragma once

#include <array>
#include <string_view>

#include "transport/rabbitmq/connection.hpp"

namespace twinbox::rabbitmq {

/// Whether a broker of this version discards what came back to a quorum queue 20 times: every
/// connection that is lost counts, so that a store that is away for long would cost messages.
[[nodiscard]] bool limits_deliveries(std::string_view version) noexcept;

/// With which a queue is declared.
class QueueArguments {
 public:
  /// `type` must outlive it; `version`: of the broker.
  QueueArguments(std::string_view type, std::string_view version);

  [[nodiscard]] amqp_table_t table() const noexcept {
    return {unlimited_ ? 2 : 1, const_cast<amqp_table_entry_t*>(entries_.data())};
  }
  /// Whether it says that a message may come back as often as it takes.
  [[nodiscard]] bool unlimited() const noexcept { return unlimited_; }

 private:
  std::array<amqp_table_entry_t, 2> entries_{};
  bool unlimited_;
};

/// Where dead letters of a queue lie when no exchange is named for them.
std::string dead_letter_queue(const std::string& queue);

/// Throw BrokerError with the way out when something is missing or different.
void prepare(Connection& connection, const RabbitSinkOptions& options);
void prepare(Connection& connection, const RabbitSourceOptions& options);

}  // namespace twinbox::rabbitmq
