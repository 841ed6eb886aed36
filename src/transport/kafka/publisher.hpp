// The thread of a publisher: what waits, what is on its way, and what the reports say about it.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "transport/kafka/producer.hpp"

namespace twinbox {

class KafkaPublisher::Loop {
 public:
  Loop(KafkaConnection connection, KafkaSinkOptions options, Environment environment);
  ~Loop();

  std::vector<Outcome> publish(std::span<const Message> messages, std::stop_token stop);

 private:
  /// The messages of one call; shared by the caller and the thread until both are through with it.
  struct Job {
    std::vector<kafka::Record> records;
    std::vector<std::optional<Outcome>> outcomes;  ///< guarded by mutex_
    std::vector<Instant> put_off_to;
    std::size_t open = 0;  ///< guarded by mutex_
    bool left = false;     ///< nobody waits any more; guarded by mutex_
    std::condition_variable_any settled;
  };
  struct Item {
    std::shared_ptr<Job> job;
    std::size_t index;
    bool alone = false;  ///< nothing else was on its way with it
  };

  void run(const std::stop_token& stop);
  void serve(kafka::Producer& producer, const std::stop_token& stop);
  bool send_some(kafka::Producer& producer);
  std::optional<Item> next_item();
  void put_back(Item item);
  void report(const rd_kafka_message_t& message);
  void settle(const Item& item, Outcome outcome);
  void put_off(const Item& item);
  void put_off_waiting();
  void lost(const std::string& error) const;
  void rest(const std::stop_token& stop, int failures);

  const KafkaConnection connection_;
  const KafkaSinkOptions options_;
  const Environment environment_;
  const std::string shown_;

  std::mutex mutex_;
  std::condition_variable_any came_;
  std::deque<Item> waiting_;            ///< guarded by mutex_
  kafka::Producer* current_ = nullptr;  ///< guarded by mutex_

  // Of the thread alone.
  std::size_t on_way_ = 0;
  std::deque<Item> alone_;  ///< to be sent one by one: one of them makes the broker refuse a batch
  std::jthread thread_;
};

}  // namespace twinbox
