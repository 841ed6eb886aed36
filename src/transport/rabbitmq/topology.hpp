// Exchanges and queues: created, or only checked.
#pragma once

#include <array>
#include <string_view>

#include "transport/rabbitmq/connection.hpp"

namespace twinbox::rabbitmq {

/// Whether a broker of this version discards a delivery that was returned to a quorum queue 20
/// times: every lost connection counts, so that a long outage of a store would cost messages.
[[nodiscard]] bool limits_deliveries(std::string_view version) noexcept;

/// The arguments for declaring a queue.
class QueueArguments {
 public:
  /// `type` must outlive it; `version`: of the broker.
  QueueArguments(std::string_view type, std::string_view version);

  [[nodiscard]] amqp_table_t table() const noexcept {
    return {unlimited_ ? 2 : 1, const_cast<amqp_table_entry_t*>(entries_.data())};
  }
  /// Whether it says that a message may be returned any number of times.
  [[nodiscard]] bool unlimited() const noexcept { return unlimited_; }

 private:
  std::array<amqp_table_entry_t, 2> entries_{};
  bool unlimited_;
};

/// The queue for dead letters of a queue when no exchange is named for them.
std::string dead_letter_queue(const std::string& queue);

/// Throw BrokerError with the fix when an object is missing or different.
void prepare(Connection& connection, const RabbitSinkOptions& options);
void prepare(Connection& connection, const RabbitSourceOptions& options);

}  // namespace twinbox::rabbitmq
