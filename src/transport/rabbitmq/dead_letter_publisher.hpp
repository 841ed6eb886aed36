// Publishes deliveries that cannot be accepted to the dead-letter destination, over a connection of
// its own: a broker that is out of memory or disk reads nothing more from a publishing connection,
// not even acknowledgements.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "transport/rabbitmq/connection.hpp"

namespace twinbox::rabbitmq {

/// Connects when there is something to publish. Thread-safe.
class DeadLetterPublisher {
 public:
  /// `wake` is called, on its thread, when results are available; it must not wait. All arguments
  /// outlive it.
  DeadLetterPublisher(const RabbitConnection& to, const RabbitSourceOptions& options,
                      const Environment& environment, std::function<void()> wake);

  /// `envelope` stays in place until take() has returned its tag, or this has ended.
  void add(std::uint64_t tag, const amqp_envelope_t& envelope, std::string error);
  /// The deliveries that the broker has taken since the last call.
  std::vector<std::uint64_t> take();

 private:
  using Clock = std::chrono::steady_clock;
  struct PendingDeadLetter {
    std::uint64_t tag;
    const amqp_envelope_t* envelope;
    std::string error;
    Clock::time_point not_before = {};
    std::uint64_t sequence = 0;  ///< of its publish; 0: not in flight
    bool returned = false;
  };

  void run(const std::stop_token& stop);
  bool wait(const std::stop_token& stop);
  void back_off(Duration time, const std::stop_token& stop);
  void serve(Connection& connection, const std::stop_token& stop);
  void take_incoming();
  void publish_pending(Connection& connection);
  void read(Connection& connection, const amqp_frame_t& frame);
  void confirm(std::uint64_t sequence, bool multiple, bool taken);
  void retry_later(PendingDeadLetter& pending) const;
  void connection_lost(const std::string& error);
  void log_failure(std::string_view reason) const;
  [[nodiscard]] Duration until_next() const;

  const RabbitConnection& connection_options_;
  const RabbitSourceOptions& options_;
  const Environment& environment_;
  const std::function<void()> wake_caller_;
  WakeUp wake_;

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<PendingDeadLetter> incoming_;  ///< guarded by mutex_
  std::vector<std::uint64_t> published_;     ///< guarded by mutex_

  // Used by the thread alone.
  std::vector<PendingDeadLetter> pending_dead_letters_;
  std::uint64_t sequence_ = 0;
  int failures_ = 0;  ///< since the last success
  std::jthread thread_;
};

}  // namespace twinbox::rabbitmq
