// Records that could not be accepted, published to the dead-letter topic. Not thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "transport/accept_thread.hpp"
#include "transport/consume_loop.hpp"
#include "transport/kafka/producer.hpp"

namespace twinbox::kafka {

class DeadLetterPublisher {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `on_producer` receives each producer, to be notified of reports.
  DeadLetterPublisher(const KafkaConnection& connection, const KafkaSourceOptions& options,
                      const Environment& environment, SharedSourceStatus& status,
                      std::function<void(const Producer&)> on_producer);

  /// `message` stays in place until it is delivered or dropped.
  void add(std::uint64_t tag, const rd_kafka_message_t& message, std::string error);
  /// Sends pending records; returns the tags of the delivered ones.
  std::vector<std::uint64_t> step(Time now);
  /// When step has something to send; empty: nothing waits.
  [[nodiscard]] std::optional<Time> next() const;
  void drop(const std::set<std::uint64_t>& tags);
  /// Undelivered records stay in their topic.
  void stop();

 private:
  struct PendingDeadLetter {
    std::uint64_t tag;
    const rd_kafka_message_t* message;
    std::string error;
    Time not_before = {};
    bool sent = false;
    bool without_reason = false;  ///< with the reason it was too large
  };
  void send(PendingDeadLetter& pending);
  void report(const rd_kafka_message_t& message);
  void retry_later(PendingDeadLetter& pending, const std::string& why);

  const KafkaConnection& connection_;
  const KafkaSourceOptions& options_;
  const Environment& environment_;
  SharedSourceStatus& status_;
  std::function<void(const Producer&)> on_producer_;
  std::vector<PendingDeadLetter> pending_;
  std::vector<std::uint64_t> delivered_;
  std::unique_ptr<Producer> producer_;
};

}  // namespace twinbox::kafka
