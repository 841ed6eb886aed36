// The deliveries of one connection: asked for, handed to the store, acknowledged, or buried.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "transport/accept_thread.hpp"
#include "transport/consuming.hpp"
#include "transport/nats/given_back.hpp"
#include "transport/nats/overdue.hpp"
#include "transport/nats/wire.hpp"

namespace twinbox::nats {

/// What has come to the inbox of a connection. Thread-safe.
class Post : public Listener {
 public:
  using Time = std::chrono::steady_clock::time_point;

  void receive(Letter letter) override;
  void refused(const std::string& subject, const std::string& text) override;
  void closed() override;
  /// Whoever waits looks again.
  void wake();
  /// Waits for something, at most until `limit`.
  std::vector<Letter> take(const std::stop_token& stop, Time limit);
  [[nodiscard]] bool is_closed() const;
  struct Refusal {
    std::string subject;
    std::string text;
  };
  std::vector<Refusal> take_refusals();

 private:
  mutable std::mutex mutex_;
  std::condition_variable_any some_;
  std::vector<Letter> letters_;
  std::vector<Refusal> refusals_;
  bool woken_ = false;
  bool closed_ = false;
};

class Consumer {
 public:
  /// `info`: the consumer as the server described it just now. Everything else must outlive it.
  Consumer(Connection& connection, std::shared_ptr<Post> post, const jsConsumerInfo& info,
           const NatsSourceOptions& options, const AcceptCall& accept,
           const Environment& environment, SourceRecord& record, GivenBack& given_back);

  /// Until `stop`; what has been accepted is acknowledged by then, and the rest given back. Throws
  /// BrokerError when the connection or the consumer is lost.
  void run(const std::stop_token& stop);

 private:
  using Clock = std::chrono::steady_clock;
  struct Open {
    Letter letter;
    Origin origin;
  };
  struct Grave {
    std::uint64_t sequence;
    std::string error;
    Clock::time_point not_before;
    std::uint64_t number = 0;  ///< of its publish; 0: not under way
    bool bare = false;         ///< with the reason it was too large
  };

  void receive(Letter letter);
  void deliver(Letter letter, const Origin& origin);
  Delivery read(natsMsg& message, const Origin& origin) const;
  void read_status(natsMsg& message);
  void ask();
  void settle();
  void give_back(std::uint64_t sequence, Duration delay);
  void forget(std::uint64_t sequence);
  void answer(std::uint64_t sequence, const std::string& word);
  void bury();
  void put_off(Grave& grave, std::string_view reason) const;
  void read_burial(natsMsg& message);
  void keep();
  void look_for_overdue();
  void release_held();
  void hear_refusals();
  void give_back_all();
  [[nodiscard]] Clock::time_point next_time() const;
  [[nodiscard]] std::string name() const;
  [[nodiscard]] std::string asking_place() const;

  Connection& connection_;
  std::shared_ptr<Post> post_;
  const NatsSourceOptions& options_;
  const Environment& environment_;
  SourceRecord& record_;
  GivenBack& given_back_;
  const Clock::duration ack_wait_;
  const std::int64_t max_deliver_;      ///< after that it does not come again, or is buried
  const std::int64_t request_size_;     ///< deliveries that may be asked for at once
  const Clock::duration request_time_;  ///< after that a request ends, and is made again
  const Clock::time_point begin_ = Clock::now();

  std::map<std::uint64_t, Open> open_;      ///< by their number in the stream
  std::map<std::uint64_t, Delivery> held_;  ///< of them, those that wait for `overdue_`
  Overdue overdue_;
  Clock::time_point look_at_ = begin_;
  std::vector<Grave> graves_;
  std::uint64_t burials_ = 0;
  std::int64_t asked_ = 0;  ///< deliveries that may still come of the last request
  std::uint64_t requests_ = 0;
  Clock::time_point asked_until_ = {};
  Clock::time_point ask_at_ = {};
  Clock::time_point keep_at_;
  std::set<std::string> told_;   ///< what the log says already of rights that are missing
  std::string refusal_;          ///< the last of them, unless that is over
  bool asking_refused_ = false;  ///< it was that
  AcceptThread accepting_;
};

}  // namespace twinbox::nats
