// The thread of a publisher: what waits, what is on its way, and what the broker says about it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "transport/rabbitmq/wire.hpp"

namespace twinbox {

class RabbitPublisher::Loop {
 public:
  Loop(RabbitConnection connection, RabbitSinkOptions options, Environment environment);
  ~Loop();

  std::vector<Outcome> publish(std::span<const Message> messages, std::stop_token stop);

 private:
  /// The messages of one call; shared by the caller and the thread until both are through with it.
  struct Job {
    std::vector<rabbitmq::Outgoing> messages;
    std::vector<std::optional<Outcome>> outcomes;  ///< guarded by mutex_
    std::vector<Instant> put_off_to;
    std::size_t open = 0;  ///< guarded by mutex_
    bool left = false;     ///< nobody waits any more; guarded by mutex_
    std::condition_variable_any settled;
  };
  struct Item {
    std::shared_ptr<Job> job;
    std::size_t index;
    bool returned = false;
  };

  void run(const std::stop_token& stop);
  void serve(rabbitmq::Connection& connection, const std::stop_token& stop);
  std::optional<Item> next_item();
  void send_some(rabbitmq::Connection& connection);
  void read_all(rabbitmq::Connection& connection);
  void read(rabbitmq::Connection& connection, const amqp_frame_t& frame);
  void confirm(std::uint64_t sequence, bool multiple, bool taken);
  void settle(const Item& item, Outcome outcome);
  void connection_lost(const std::string& error, bool about_message);
  void put_off_waiting();
  [[nodiscard]] bool has_work();
  void rest(const std::stop_token& stop, int failures);

  const RabbitConnection connection_;
  const RabbitSinkOptions options_;
  const Environment environment_;
  const std::string shown_;
  rabbitmq::WakeUp wake_;

  std::mutex mutex_;
  std::condition_variable_any came_;
  std::deque<Item> waiting_;                 ///< guarded by mutex_
  rabbitmq::Connection* current_ = nullptr;  ///< guarded by mutex_

  // Of the thread alone.
  std::map<std::uint64_t, Item> sent_;
  std::uint64_t sequence_ = 0;
  std::deque<Item> alone_;  ///< to be sent one by one: one of them closes the channel
  std::jthread thread_;
};

}  // namespace twinbox
