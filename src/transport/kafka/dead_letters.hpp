// Records that could not be accepted, on their way to the topic for them. Not thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "transport/accept_thread.hpp"
#include "transport/consuming.hpp"
#include "transport/kafka/producer.hpp"

namespace twinbox::kafka {

class DeadLetters {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `made` hears of each producer, to ask it for a word when reports have come.
  DeadLetters(const KafkaConnection& connection, const KafkaSourceOptions& options,
              const Environment& environment, SourceRecord& record,
              std::function<void(const Producer&)> made);

  /// `message` stays where it is until it is delivered or dropped.
  void add(std::uint64_t tag, const rd_kafka_message_t& message, std::string error);
  /// Sends what is to be sent; the tags of those that have been delivered.
  std::vector<std::uint64_t> step(Time now);
  /// When step has something to send; empty: nothing waits.
  [[nodiscard]] std::optional<Time> next() const;
  void drop(const std::set<std::uint64_t>& tags);
  /// What has not been delivered stays in its topic.
  void stop();

 private:
  struct Letter {
    std::uint64_t tag;
    const rd_kafka_message_t* message;
    std::string error;
    Time not_before = {};
    bool sent = false;
    bool bare = false;  ///< with the reason it was too large
  };
  void send(Letter& letter);
  void report(const rd_kafka_message_t& message);
  void put_off(Letter& letter, const std::string& why);

  const KafkaConnection& connection_;
  const KafkaSourceOptions& options_;
  const Environment& environment_;
  SourceRecord& record_;
  std::function<void(const Producer&)> made_;
  std::vector<Letter> letters_;
  std::vector<std::uint64_t> delivered_;
  std::unique_ptr<Producer> producer_;
};

}  // namespace twinbox::kafka
