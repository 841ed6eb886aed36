// The thread of a publisher: waiting messages, messages in flight, and the broker's answers.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "transport/publish_queue.hpp"
#include "transport/rabbitmq/wire.hpp"

namespace twinbox {

class RabbitPublisher::Loop {
 public:
  Loop(RabbitConnection connection, RabbitSinkOptions options, Environment environment);
  ~Loop();

  std::vector<Outcome> publish(std::span<const Message> messages, std::stop_token stop);

 private:
  using Queue = PublishQueue<rabbitmq::Outgoing>;
  struct Sent {
    Queue::Item item;
    bool returned = false;
  };

  /// Why a connection has ended: the message's content, its destination, or neither.
  enum class Cause { message, permission, broker };
  static Cause cause_of(int code) noexcept;

  void run(const std::stop_token& stop);
  void serve(rabbitmq::Connection& connection, const std::stop_token& stop);
  std::optional<Queue::Item> next_item();
  bool send_some(rabbitmq::Connection& connection);
  bool read_frames(rabbitmq::Connection& connection);
  void read(rabbitmq::Connection& connection, const amqp_frame_t& frame);
  void block();
  void confirm(std::uint64_t sequence, bool multiple, bool taken);
  void connection_lost(const std::string& error, Cause cause);
  void interrupt();
  void abort_connection();

  const RabbitConnection connection_;
  const RabbitSinkOptions options_;
  const Environment environment_;
  const std::string display_name_;
  rabbitmq::WakeUp wake_;

  Queue queue_;

  std::mutex mutex_;
  rabbitmq::Connection* current_ = nullptr;  ///< guarded by mutex_, as are the members below
  bool timed_out_ = false;                   ///< it was given up after a timeout
  bool stuck_ = false;                       ///< because the broker reads no more

  // Used by the thread alone.
  std::map<std::uint64_t, Sent> sent_;
  std::uint64_t sequence_ = 0;
  bool blocked_ = false;  ///< the broker takes nothing for now
  int refusals_ = 0;      ///< for a missing permission, since the last success
  std::jthread thread_;
};

}  // namespace twinbox
