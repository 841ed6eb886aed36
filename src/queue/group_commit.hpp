// Callers that come at the same time share a commit: whoever comes first writes for all that have
// queued up.
#pragma once

#include <atomic>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "database/pool.hpp"
#include "twinbox/error.hpp"

namespace twinbox {

/// Thread-safe. `write` stores some items durably and answers for each as soon as it is durable;
/// what has no answer when a batch fails because of its content is written again item by item, so
/// that one caller's item never fails another's.
template <class Item, class Answer>
class GroupCommit {
 public:
  using Write = std::function<void(std::span<const Item>, std::span<std::optional<Answer>>)>;

  GroupCommit(Write write, std::size_t most_items, std::size_t most_bytes)
      : write_(std::move(write)), most_items_(most_items), most_bytes_(most_bytes) {}

  /// Returns when the item is durable; throws what its own writing threw.
  Answer submit(Item item, std::size_t bytes) {
    Caller me{std::move(item)};
    std::unique_lock lock(mutex_);
    const std::shared_ptr<Batch> batch = join(me, bytes);
    const bool first = batch->callers.front() == &me;
    bool leads = !std::exchange(writing_, true);
    lock.unlock();
    if (!leads && first) leads = batch->wait_for_turn();
    if (!first) batch->wait();
    if (leads) lead();
    if (me.error) std::rethrow_exception(me.error);
    return std::move(*me.answer);
  }

  /// The same, without waiting for any other caller.
  Answer submit_alone(Item item) {
    Caller me{std::move(item)};
    write_batch({&me});
    if (me.error) std::rethrow_exception(me.error);
    return std::move(*me.answer);
  }

 private:
  struct Caller {
    Item item;
    std::optional<Answer> answer = {};
    std::exception_ptr error = {};
  };

  /// Shared by its callers, who leave it at different times. The first of them leads it, unless
  /// another leader has written it before his turn came.
  struct Batch {
    enum class Turn { waiting, leads, written };

    std::vector<Caller*> callers = {};
    std::size_t bytes = 0;
    std::atomic<Turn> turn = Turn::waiting;
    std::atomic<int> written = 0;  // an int is waited for by the system itself

    void wait() const noexcept { written.wait(0); }
    bool wait_for_turn() const noexcept {
      turn.wait(Turn::waiting);
      return turn.load() == Turn::leads;
    }
    void hand_over() noexcept {
      turn = Turn::leads;
      turn.notify_one();
    }
    /// The callers and what they wait for are out of bounds from here on.
    void finish() noexcept {
      written = 1;
      written.notify_all();
      turn = Turn::written;
      turn.notify_one();
    }
  };

  /// How many batches a leader writes before he hands the lead on: waking the next one takes time
  /// in which nothing is written.
  static constexpr int most_batches = 4;
  /// How many items may meet contention, each alone, before the first one is written.
  static constexpr int most_stuck = 2;

  std::shared_ptr<Batch> join(Caller& me, std::size_t bytes) {
    const bool full = queue_.empty() || queue_.back()->callers.size() >= most_items_ ||
                      queue_.back()->bytes + bytes > most_bytes_;
    auto batch = full ? std::make_shared<Batch>() : queue_.back();
    batch->callers.push_back(&me);
    batch->bytes += bytes;
    if (full) queue_.push_back(batch);
    ++waiting_;
    return batch;
  }

  void lead() {
    for (int written = 0;; ++written) {
      const std::shared_ptr<Batch> batch = next(written);
      if (batch == nullptr) return;
      const std::size_t size = batch->callers.size();
      write_batch(batch->callers);
      batch->finish();
      gather(size);
    }
  }

  /// The batch to write now; null: nothing is left to this leader.
  std::shared_ptr<Batch> next(int written) {
    const std::scoped_lock lock(mutex_);
    if (queue_.empty()) {
      writing_ = false;
      return nullptr;
    }
    if (written >= most_batches) {
      queue_.front()->hand_over();
      return nullptr;
    }
    std::shared_ptr<Batch> batch = std::move(queue_.front());
    queue_.pop_front();
    waiting_ -= batch->callers.size();
    return batch;
  }

  /// The callers of a batch often come again at once: a moment for them makes the next batch full.
  void gather(std::size_t expected) const {
    for (int i = 0; expected > 1 && i < 4 && waiting_.load() < expected; ++i) {
      std::this_thread::yield();
    }
  }

  void write_batch(const std::vector<Caller*>& batch) {
    try {
      write_some(batch);
    } catch (const PoolExhausted&) {
      settle_failure(batch, true);
    } catch (const DatabaseError& error) {
      // Nothing is known of a commit in doubt, and a lost connection is nobody's fault: both are
      // everybody's. Contention may be about one row.
      settle_failure(batch, error.kind() == DatabaseError::Kind::commit_in_doubt ||
                                error.kind() == DatabaseError::Kind::connection_lost);
    } catch (...) {
      settle_failure(batch, false);
    }
  }

  void settle_failure(const std::vector<Caller*>& batch, bool shared) {
    if (shared || batch.size() == 1) {
      for (Caller* caller : batch) {
        if (!caller->answer) caller->error = std::current_exception();
      }
      return;
    }
    int stuck = 0;
    bool any_written = false;
    std::exception_ptr everybodys;
    for (Caller* caller : batch) {
      if (caller->answer) continue;
      if (everybodys) {
        caller->error = everybodys;
        continue;
      }
      try {
        write_some({caller});
        any_written = true;
      } catch (const DatabaseError& error) {
        caller->error = std::current_exception();
        stuck += error.kind() == DatabaseError::Kind::contention;
        // Each of them has waited for its whole time: what holds them up holds up everything.
        if (stuck == most_stuck && !any_written) everybodys = caller->error;
      } catch (...) {
        caller->error = std::current_exception();
      }
    }
  }

  void write_some(const std::vector<Caller*>& batch) {
    std::vector<Item> items;
    items.reserve(batch.size());
    for (const Caller* caller : batch) items.push_back(caller->item);
    std::vector<std::optional<Answer>> answers(batch.size());
    const auto hand_over = [&] {
      for (std::size_t i = 0; i < batch.size(); ++i) batch[i]->answer = std::move(answers[i]);
    };
    try {
      write_(items, answers);
    } catch (...) {
      hand_over();
      throw;
    }
    hand_over();
  }

  Write write_;
  std::size_t most_items_;
  std::size_t most_bytes_;
  std::mutex mutex_;
  std::deque<std::shared_ptr<Batch>> queue_;
  std::atomic<std::size_t> waiting_ = 0;  ///< callers in the queue
  bool writing_ = false;
};

}  // namespace twinbox
