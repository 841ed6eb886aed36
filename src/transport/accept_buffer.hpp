// Deliveries of a broker that wait for their result: accepted together if possible, one by one
// after an error, retried after a delay, and finally given up.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "twinbox/source.hpp"

namespace twinbox {

/// `tag`: the broker's name for it.
struct BrokerDelivery {
  std::uint64_t tag;
  std::optional<Arrival> arrival;  ///< empty: it is no message
  std::string error = {};          ///< why it is none
  int failures = 0;                ///< how often it could not be accepted so far
  bool can_redeliver = false;      ///< the broker can redeliver it later; no order depends on it
};

/// The answer to the broker.
struct AcceptResult {
  std::uint64_t tag;
  std::optional<Accepted> accepted;              ///< empty: it is returned, or dead-lettered
  std::string error = {};                        ///< why
  std::optional<Duration> redeliver_after = {};  ///< it is returned, to be redelivered after that
};

/// Not thread-safe; time is handed in.
class AcceptBuffer {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `name`: the source, as the log names it.
  AcceptBuffer(AcceptCall accept, SourceRetry retry, std::string name, Environment environment);

  void add(BrokerDelivery delivery);
  /// Drops the waiting ones of these: another consumer owns them now.
  void drop(const std::set<std::uint64_t>& tags);
  /// Accepts what is possible now. A failed delivery waits here for its next attempt, and with it
  /// the later ones of its partition key; unless the broker can redeliver it: then it waits with
  /// the broker.
  std::vector<AcceptResult> step(Time now);
  /// When to call step again; empty: nothing waits.
  [[nodiscard]] std::optional<Time> next() const;
  [[nodiscard]] std::size_t size() const noexcept { return waiting_.size(); }
  /// The number of failed attempts so far, and the last error; empty: it is over.
  [[nodiscard]] std::uint64_t retried() const noexcept { return retried_; }
  [[nodiscard]] const std::string& last_error() const noexcept { return last_error_; }

 private:
  struct Waiting {
    BrokerDelivery delivery;
    Time not_before = {};
  };
  /// The answers for all of them; empty: the store is unavailable, and the result is unknown.
  std::optional<std::vector<AcceptResult>> accept_all(std::vector<Waiting>& ready, Time now);
  std::optional<AcceptResult> accept_one(Waiting& one, Time now);
  std::optional<AcceptResult> failed(Waiting& one, const std::string& error, Time now);
  std::vector<Waiting> take_ready(Time now);
  void on_store_unavailable(const std::string& error, Time now);
  void clear_error_if_recovered(const std::vector<AcceptResult>& settled, Time now);
  [[nodiscard]] Duration delay(int failures) const;

  AcceptCall accept_;
  SourceRetry retry_;
  std::string name_;
  Environment environment_;
  std::deque<Waiting> waiting_;  ///< in the order of their arrival
  Time store_retry_at_ = {};     ///< the store could not be reached
  int store_failures_ = 0;       ///< how often in a row
  Time redelivery_until_ = {};   ///< returned ones are redelivered by then
  std::uint64_t retried_ = 0;
  std::string last_error_;
};

}  // namespace twinbox
