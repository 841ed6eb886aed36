// What callers hand to the thread of a publisher, and what becomes of it.
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

/// `Outgoing`: what is sent of a message. Thread-safe.
template <class Outgoing>
class Outtray {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// The messages of one call; shared by the caller and the thread until both are through with it.
  class Job {
    friend class Outtray;
    std::vector<Outgoing> messages_;
    std::vector<Instant> put_off_to_;
    std::vector<std::optional<Outcome>> outcomes_;  ///< guarded by mutex_, as is what follows
    std::size_t open_ = 0;
    bool left_ = false;  ///< nobody waits any more
    std::condition_variable_any settled_;
  };
  struct Item {
    std::shared_ptr<Job> job;
    std::size_t index;
    bool alone = false;  ///< nothing else is on its way with it

    [[nodiscard]] const Outgoing& message() const { return job->messages_[index]; }
  };

  // ---- for callers

  /// `make(message)` says what is sent, or throws std::invalid_argument: then it never will be.
  template <class Make>
  std::shared_ptr<Job> put(std::span<const Message> messages, const Make& make) {
    const auto job = std::make_shared<Job>();
    job->messages_.resize(messages.size());
    job->outcomes_.resize(messages.size());
    std::vector<Item> good;
    for (std::size_t i = 0; i < messages.size(); ++i) {
      job->put_off_to_.push_back(messages[i].lease_until);
      try {
        job->messages_[i] = make(messages[i]);
        good.push_back({job, i});
      } catch (const std::invalid_argument& error) {
        job->outcomes_[i] = Outcome::malformed(error.what());
      }
    }
    const std::scoped_lock lock{mutex_};
    job->open_ = good.size();
    waiting_.insert(waiting_.end(), good.begin(), good.end());
    came_.notify_one();
    return job;
  }
  /// False: not all of them are settled in time, or a stop is requested.
  bool settled(Job& job, Duration limit, const std::stop_token& stop) {
    std::unique_lock lock{mutex_};
    return job.settled_.wait_for(lock, stop, limit, [&] { return job.open_ == 0; });
  }
  /// The same, and what still waits is taken back.
  bool wait(Job& job, Duration limit, const std::stop_token& stop) {
    std::unique_lock lock{mutex_};
    if (job.settled_.wait_for(lock, stop, limit, [&] { return job.open_ == 0; })) return true;
    job.left_ = true;
    for (std::deque<Item>* some : {&alone_, &waiting_})
      std::erase_if(*some, [&](const Item& item) { return item.job.get() == &job; });
    return false;
  }
  /// After wait(). What is not settled is a retry, because of `late`.
  std::vector<Outcome> outcomes(Job& job, const std::string& late) {
    std::vector<Outcome> all;
    all.reserve(job.outcomes_.size());
    for (auto& outcome : job.outcomes_) {
      all.push_back(outcome ? std::move(*outcome) : Outcome::retry(late));
    }
    return all;
  }

  // ---- for the thread

  /// Until there is something to send; false: a stop is requested.
  bool wait(const std::stop_token& stop) {
    std::unique_lock lock{mutex_};
    came_.wait(lock, stop, [&] { return has_some(); });
    return !stop.stop_requested();
  }
  [[nodiscard]] bool empty() const {
    const std::scoped_lock lock{mutex_};
    return !has_some();
  }
  /// The next one to send while `on_way` others are on their way; empty: none may be sent now.
  std::optional<Item> next(std::size_t on_way) {
    const std::scoped_lock lock{mutex_};
    if (on_way == 0) lonely_ = false;
    if (lonely_ || (!alone_.empty() && on_way > 0)) return {};
    lonely_ = !alone_.empty();
    std::deque<Item>& from = lonely_ ? alone_ : waiting_;
    if (from.empty()) return {};
    Item item = std::move(from.front());
    from.pop_front();
    return item;
  }
  /// It could not be sent yet.
  void put_back(Item item) {
    const std::scoped_lock lock{mutex_};
    (item.alone ? alone_ : waiting_).push_front(std::move(item));
  }
  /// One of several that the broker refused together: it is sent again, with nothing beside it,
  /// unless nobody waits for it any more.
  void put_alone(const Item& item) {
    const std::scoped_lock lock{mutex_};
    if (!item.job->left_) alone_.push_back({item.job, item.index, true});
  }
  void settle(const Item& item, Outcome outcome) {
    const std::scoped_lock lock{mutex_};
    settle_locked(item, std::move(outcome));
  }
  /// No attempt is counted for what nobody could take.
  void put_off(const Item& item) {
    const std::scoped_lock lock{mutex_};
    put_off_locked(item);
  }
  /// Whatever waits, or comes before `end`, is put off at once.
  void put_off_until(Time end, const std::stop_token& stop) {
    std::unique_lock lock{mutex_};
    do {
      for (std::deque<Item>* some : {&alone_, &waiting_}) {
        for (const Item& item : *some) put_off_locked(item);
        some->clear();
      }
    } while (came_.wait_until(lock, stop, end, [&] { return has_some(); }));
  }

 private:
  [[nodiscard]] bool has_some() const { return !waiting_.empty() || !alone_.empty(); }
  void settle_locked(const Item& item, Outcome outcome) {
    std::optional<Outcome>& place = item.job->outcomes_[item.index];
    if (place || item.job->left_) return;
    place = std::move(outcome);
    if (--item.job->open_ == 0) item.job->settled_.notify_all();
  }
  void put_off_locked(const Item& item) {
    settle_locked(item, Outcome::postpone(item.job->put_off_to_[item.index]));
  }

  mutable std::mutex mutex_;
  std::condition_variable_any came_;
  std::deque<Item> waiting_;
  std::deque<Item> alone_;  ///< before those that wait
  bool lonely_ = false;     ///< the one on its way is one of those
};

}  // namespace twinbox
