// What a broker has delivered and waits to hear about: accepted together where it can be, one by
// one where something is wrong, again after a delay, given up in the end.
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
  bool can_redeliver = false;      ///< the broker can bring it again later; no order depends on it
};

/// What is to be told to the broker.
struct AcceptResult {
  std::uint64_t tag;
  std::optional<Accepted> accepted;  ///< empty: it goes back, or to the dead-letter place
  std::string error = {};            ///< why
  std::optional<Duration> redeliver_after = {};  ///< it goes back, and is to come again after that
};

/// Not thread-safe; time is handed in.
class AcceptBuffer {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `name`: the source, as the log names it.
  AcceptBuffer(AcceptCall accept, SourceRetry retry, std::string name, Environment environment);

  void add(BrokerDelivery delivery);
  /// Forgets those of them that wait: they are somebody else's now.
  void drop(const std::set<std::uint64_t>& tags);
  /// Accepts what can be now. What fails waits here for its next attempt, and those of its
  /// partition key behind it; unless the broker can redeliver it: then it waits with the broker.
  std::vector<AcceptResult> step(Time now);
  /// When step has something to do; empty: nothing waits.
  [[nodiscard]] std::optional<Time> next() const;
  [[nodiscard]] std::size_t size() const noexcept { return waiting_.size(); }
  /// How many attempts have failed so far, and why the last one did; empty: that is over.
  [[nodiscard]] std::uint64_t retried() const noexcept { return retried_; }
  [[nodiscard]] const std::string& last_error() const noexcept { return last_error_; }

 private:
  struct Waiting {
    BrokerDelivery delivery;
    Time not_before = {};
  };
  /// Answers for all of them; empty: the store is away, and nothing is known.
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
  Time redelivery_until_ = {};   ///< what went back is to come again by then
  std::uint64_t retried_ = 0;
  std::string last_error_;
};

}  // namespace twinbox
