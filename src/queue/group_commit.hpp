// Callers that come at the same time share a commit: whoever comes first writes for all that have
// queued up.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "twinbox/error.hpp"

namespace twinbox {

/// Thread-safe. `write` stores some items durably and answers for each; a batch that fails because
/// of its content is written again item by item, so that one caller's item never fails another's.
template <class Item, class Answer>
class GroupCommit {
 public:
  using Write = std::function<std::vector<Answer>(std::span<const Item>)>;

  GroupCommit(Write write, std::size_t most_items, std::size_t most_bytes)
      : write_(std::move(write)), most_items_(most_items), most_bytes_(most_bytes) {}

  /// Returns when the item is durable; throws what its own writing threw.
  Answer submit(Item item, std::size_t bytes) {
    Caller me{std::move(item), bytes};
    std::unique_lock lock(mutex_);
    queue_.push_back(&me);
    me.woken.wait(lock, [&] { return me.finished || !writing_; });
    if (!me.finished) lead(lock, me);
    lock.unlock();
    if (me.error) std::rethrow_exception(me.error);
    return std::move(*me.answer);
  }

 private:
  struct Caller {
    Item item;
    std::size_t bytes;
    std::optional<Answer> answer = {};
    std::exception_ptr error = {};
    bool finished = false;
    std::condition_variable woken = {};
  };

  /// Writes batches until the leader's own item is written, then hands the lead to the next in the
  /// queue.
  void lead(std::unique_lock<std::mutex>& lock, const Caller& me) {
    writing_ = true;
    while (!me.finished) {
      const std::vector<Caller*> batch = take();
      lock.unlock();
      write_batch(batch);
      lock.lock();
      for (Caller* caller : batch) {
        caller->finished = true;
        if (caller != &me) caller->woken.notify_one();
      }
    }
    writing_ = false;
    if (!queue_.empty()) queue_.front()->woken.notify_one();
  }

  std::vector<Caller*> take() {
    std::vector<Caller*> batch;
    std::size_t bytes = 0;
    while (!queue_.empty() && batch.size() < most_items_) {
      bytes += queue_.front()->bytes;
      if (!batch.empty() && bytes > most_bytes_) break;
      batch.push_back(queue_.front());
      queue_.pop_front();
    }
    return batch;
  }

  void write_batch(const std::vector<Caller*>& batch) {
    try {
      write_some(batch);
    } catch (const DatabaseError& error) {
      // Nothing is known of a commit in doubt, and a lost connection is nobody's fault: both are
      // everybody's.
      const bool shared = error.retryable() || error.kind() == DatabaseError::Kind::commit_in_doubt;
      settle_failure(batch, shared);
    } catch (...) {
      settle_failure(batch, false);
    }
  }

  void settle_failure(const std::vector<Caller*>& batch, bool shared) {
    if (shared || batch.size() == 1) {
      for (Caller* caller : batch) caller->error = std::current_exception();
      return;
    }
    for (Caller* caller : batch) {
      try {
        write_some({caller});
      } catch (...) {
        caller->error = std::current_exception();
      }
    }
  }

  void write_some(const std::vector<Caller*>& batch) {
    std::vector<Item> items;
    items.reserve(batch.size());
    for (const Caller* caller : batch) items.push_back(caller->item);
    std::vector<Answer> answers = write_(items);
    for (std::size_t i = 0; i < batch.size(); ++i) batch[i]->answer = std::move(answers[i]);
  }

  Write write_;
  std::size_t most_items_;
  std::size_t most_bytes_;
  std::mutex mutex_;
  std::deque<Caller*> queue_;
  bool writing_ = false;
};

}  // namespace twinbox
