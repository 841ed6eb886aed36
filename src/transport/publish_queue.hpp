// Messages for the thread of a publisher, and their outcomes.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "twinbox/handler.hpp"

namespace twinbox {

/// `Outgoing`: the wire form of a message. Thread-safe.
template <class Outgoing>
class PublishQueue {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// The messages of one call; shared by the caller and the thread until both are finished.
  class Batch {
    friend class PublishQueue;
    std::vector<Outgoing> messages_;
    std::vector<Instant> postpone_until_;
    std::vector<std::optional<Outcome>> outcomes_;  ///< guarded by mutex_, as are the members below
    std::size_t pending_ = 0;
    bool caller_gone_ = false;  ///< the caller has stopped waiting
    std::condition_variable_any settled_;
  };
  struct Item {
    std::shared_ptr<Batch> batch;
    std::size_t index;
    bool isolated = false;  ///< nothing else is in flight with it

    [[nodiscard]] const Outgoing& message() const { return batch->messages_[index]; }
  };

  // ---- for callers

  /// `make(message)` returns the wire form, or throws std::invalid_argument: then it is never sent.
  template <class Make>
  std::shared_ptr<Batch> enqueue(std::span<const Message> messages, const Make& make) {
    const auto batch = std::make_shared<Batch>();
    batch->messages_.resize(messages.size());
    batch->outcomes_.resize(messages.size());
    std::vector<Item> good;
    for (std::size_t i = 0; i < messages.size(); ++i) {
      batch->postpone_until_.push_back(messages[i].lease_until);
      try {
        batch->messages_[i] = make(messages[i]);
        good.push_back({batch, i});
      } catch (const std::invalid_argument& error) {
        batch->outcomes_[i] = Outcome::malformed(error.what());
      }
    }
    const std::scoped_lock lock{mutex_};
    batch->pending_ = good.size();
    waiting_.insert(waiting_.end(), good.begin(), good.end());
    arrived_.notify_one();
    return batch;
  }
  /// False: not all of them are settled in time, or a stop is requested.
  bool settled(Batch& batch, Duration limit, const std::stop_token& stop) {
    std::unique_lock lock{mutex_};
    return batch.settled_.wait_for(lock, stop, limit, [&] { return batch.pending_ == 0; });
  }
  /// The same, and takes waiting messages back.
  bool wait(Batch& batch, Duration limit, const std::stop_token& stop) {
    std::unique_lock lock{mutex_};
    if (batch.settled_.wait_for(lock, stop, limit, [&] { return batch.pending_ == 0; }))
      return true;
    batch.caller_gone_ = true;
    for (std::deque<Item>* some : {&isolated_, &waiting_})
      std::erase_if(*some, [&](const Item& item) { return item.batch.get() == &batch; });
    return false;
  }
  /// After wait(). An unsettled message is a retry, because of `late`.
  std::vector<Outcome> outcomes(Batch& batch, const std::string& late) {
    std::vector<Outcome> all;
    all.reserve(batch.outcomes_.size());
    for (auto& outcome : batch.outcomes_) {
      all.push_back(outcome ? std::move(*outcome) : Outcome::retry(late));
    }
    return all;
  }

  // ---- for the thread

  /// Waits for a message to send; false: a stop is requested.
  bool wait(const std::stop_token& stop) {
    std::unique_lock lock{mutex_};
    arrived_.wait(lock, stop, [&] { return has_some(); });
    return !stop.stop_requested();
  }
  [[nodiscard]] bool empty() const {
    const std::scoped_lock lock{mutex_};
    return !has_some();
  }
  /// The next one to send while `in_flight` others are in flight; empty: none may be sent now.
  std::optional<Item> next(std::size_t in_flight) {
    const std::scoped_lock lock{mutex_};
    if (in_flight == 0) sending_isolated_ = false;
    if (sending_isolated_ || (!isolated_.empty() && in_flight > 0)) return {};
    sending_isolated_ = !isolated_.empty();
    std::deque<Item>& from = sending_isolated_ ? isolated_ : waiting_;
    if (from.empty()) return {};
    Item item = std::move(from.front());
    from.pop_front();
    return item;
  }
  /// It could not be sent yet.
  void push_front(Item item) {
    const std::scoped_lock lock{mutex_};
    (item.isolated ? isolated_ : waiting_).push_front(std::move(item));
  }
  /// One of several that the broker refused together: it is sent again, alone, unless its caller
  /// has stopped waiting.
  void retry_isolated(const Item& item) {
    const std::scoped_lock lock{mutex_};
    if (!item.batch->caller_gone_) isolated_.push_back({item.batch, item.index, true});
  }
  void settle(const Item& item, Outcome outcome) {
    const std::scoped_lock lock{mutex_};
    settle_locked(item, std::move(outcome));
  }
  /// Counts no attempt for messages that the broker could not take.
  void postpone(const Item& item) {
    const std::scoped_lock lock{mutex_};
    postpone_locked(item);
  }
  /// Postpones all messages that wait or arrive before `end`.
  void postpone_all_until(Time end, const std::stop_token& stop) {
    std::unique_lock lock{mutex_};
    do {
      for (std::deque<Item>* some : {&isolated_, &waiting_}) {
        for (const Item& item : *some) postpone_locked(item);
        some->clear();
      }
    } while (arrived_.wait_until(lock, stop, end, [&] { return has_some(); }));
  }

 private:
  [[nodiscard]] bool has_some() const { return !waiting_.empty() || !isolated_.empty(); }
  void settle_locked(const Item& item, Outcome outcome) {
    std::optional<Outcome>& slot = item.batch->outcomes_[item.index];
    if (slot || item.batch->caller_gone_) return;
    slot = std::move(outcome);
    if (--item.batch->pending_ == 0) item.batch->settled_.notify_all();
  }
  void postpone_locked(const Item& item) {
    settle_locked(item, Outcome::postpone(item.batch->postpone_until_[item.index]));
  }

  mutable std::mutex mutex_;
  std::condition_variable_any arrived_;
  std::deque<Item> waiting_;
  std::deque<Item> isolated_;      ///< before the waiting ones
  bool sending_isolated_ = false;  ///< one of them is in flight
};

}  // namespace twinbox
