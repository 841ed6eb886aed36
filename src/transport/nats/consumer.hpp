// The deliveries of one connection: requested, passed to the store, acknowledged, or dead-lettered.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "transport/accept_thread.hpp"
#include "transport/consume_loop.hpp"
#include "transport/nats/nak_tracker.hpp"
#include "transport/nats/pending_redeliveries.hpp"
#include "transport/nats/wire.hpp"

namespace twinbox::nats {

/// The messages to the inbox of a connection. Thread-safe.
class ReceiveQueue : public Listener {
 public:
  using Time = std::chrono::steady_clock::time_point;

  void receive(MessagePtr nats_message) override;
  void refused(const std::string& subject, const std::string& text) override;
  void closed() override;
  /// Wakes the waiting thread.
  void wake();
  /// Waits for an event, at most until `limit`.
  std::vector<MessagePtr> take(const std::stop_token& stop, Time limit);
  [[nodiscard]] bool is_closed() const;
  struct Refusal {
    std::string subject;
    std::string text;
  };
  std::vector<Refusal> take_refusals();

 private:
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<MessagePtr> messages_;
  std::vector<Refusal> refusals_;
  bool woken_ = false;
  bool closed_ = false;
};

class Consumer {
 public:
  /// `info`: the consumer as the server described it just now. Everything else must outlive it.
  Consumer(Connection& connection, std::shared_ptr<ReceiveQueue> received,
           const jsConsumerInfo& info, const NatsSourceOptions& options, const AcceptCall& accept,
           const Environment& environment, SharedSourceStatus& status, NakTracker& naks);

  /// Until `stop`; accepted deliveries are acknowledged by then, and the rest returned. Throws
  /// BrokerError when the connection or the consumer is lost.
  void run(const std::stop_token& stop);

 private:
  using Clock = std::chrono::steady_clock;
  struct OpenDelivery {
    MessagePtr nats_message;
    DeliveryMetadata metadata;
  };
  struct PendingDeadLetter {
    std::uint64_t sequence;
    std::string error;
    Clock::time_point not_before;
    std::uint64_t number = 0;     ///< of its publish; 0: not in flight
    bool without_reason = false;  ///< with the reason it was too large
  };

  void receive(MessagePtr nats_message);
  void deliver(MessagePtr nats_message, const DeliveryMetadata& metadata);
  BrokerDelivery read(natsMsg& message, const DeliveryMetadata& metadata) const;
  void read_status(natsMsg& message);
  void pull();
  void settle();
  void nak(std::uint64_t sequence, Duration delay);
  void forget(std::uint64_t sequence);
  void answer(std::uint64_t sequence, const std::string& word);
  void publish_dead_letters();
  void retry_later(PendingDeadLetter& pending, std::string_view reason) const;
  void read_dead_letter_answer(natsMsg& message);
  void extend_ack_wait();
  void check_pending_redeliveries();
  void accept_held();
  void handle_refusals();
  void nak_all();
  [[nodiscard]] Clock::time_point next_time() const;
  [[nodiscard]] std::string name() const;
  [[nodiscard]] std::string pull_subject() const;

  Connection& connection_;
  std::shared_ptr<ReceiveQueue> received_;
  const NatsSourceOptions& options_;
  const Environment& environment_;
  SharedSourceStatus& status_;
  NakTracker& naks_;
  const Clock::duration ack_wait_;
  const std::int64_t max_deliver_;      ///< after that it is not redelivered, or is dead-lettered
  const std::int64_t request_size_;     ///< deliveries per request
  const Clock::duration request_time_;  ///< after that a request ends, and is repeated
  const Clock::time_point begin_ = Clock::now();

  std::map<std::uint64_t, OpenDelivery> open_;  ///< by their number in the stream
  std::map<std::uint64_t, BrokerDelivery>
      held_;  ///< of them, those that wait for `pending_redeliveries_`
  PendingRedeliveries pending_redeliveries_;
  Clock::time_point check_at_ = begin_;
  std::vector<PendingDeadLetter> pending_dead_letters_;
  std::uint64_t dead_letter_publishes_ = 0;
  std::int64_t pull_remaining_ = 0;  ///< deliveries outstanding of the last request
  std::uint64_t requests_ = 0;
  Clock::time_point pull_expires_at_ = {};
  Clock::time_point next_pull_at_ = {};
  Clock::time_point extend_at_;
  std::set<std::string> logged_refusals_;  ///< missing permissions that are in the log already
  std::string refusal_;                    ///< the last of them, unless it is over
  bool pull_refused_ = false;              ///< the pull request was refused
  AcceptThread accepting_;
};

}  // namespace twinbox::nats
