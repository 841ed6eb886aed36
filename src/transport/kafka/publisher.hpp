// The thread of a publisher: waiting messages, messages in flight, and their delivery reports.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "transport/kafka/producer.hpp"
#include "transport/publish_queue.hpp"

namespace twinbox {

class KafkaPublisher::Loop {
 public:
  Loop(KafkaConnection connection, KafkaSinkOptions options, Environment environment);
  ~Loop();

  std::vector<Outcome> publish(std::span<const Message> messages, std::stop_token stop);

 private:
  using Queue = PublishQueue<kafka::Record>;

  void run(const std::stop_token& stop);
  void serve(kafka::Producer& producer, const std::stop_token& stop);
  bool send_some(kafka::Producer& producer);
  std::optional<Queue::Item> next_item();
  void report(const rd_kafka_message_t& message);
  void topic_blocked(const std::string& topic);
  void lost(const std::string& error) const;
  void wake();

  const KafkaConnection connection_;
  const KafkaSinkOptions options_;
  const Environment environment_;
  const std::string display_name_;

  Queue queue_;

  std::mutex mutex_;
  kafka::Producer* current_ = nullptr;  ///< guarded by mutex_

  std::size_t in_flight_ = 0;      ///< used by the thread alone, as are the members below
  std::set<std::string> blocked_;  ///< topics that take nothing now
  std::jthread thread_;
};

}  // namespace twinbox
