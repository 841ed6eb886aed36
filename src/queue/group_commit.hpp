// Concurrent callers share a commit: one of them writes for all that have queued up.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "database/pool.hpp"
#include "queue/signal.hpp"
#include "twinbox/error.hpp"

namespace twinbox {

/// Thread-safe. `write` stores some items durably and answers for each as soon as it is durable;
/// items without an answer when a batch fails because of its content are written again one by one,
/// so that one caller's item never fails another's.
template <class Item, class Answer>
class GroupCommit {
 public:
  using Write = std::function<void(std::span<const Item>, std::span<std::optional<Answer>>)>;

  /// `longest_wait` bounds how long a call waits for the batch before its own. Zero: no limit.
  GroupCommit(Write write, std::size_t most_items, std::size_t most_bytes,
              std::chrono::milliseconds longest_wait = {})
      : write_(std::move(write)),
        most_items_(most_items),
        most_bytes_(most_bytes),
        longest_wait_(longest_wait) {}

  /// Returns when the item is durable; throws the exception of its own write, or connection_lost
  /// when the batch before its own was not written within `longest_wait`: then nothing was written.
  Answer submit(Item item, std::size_t bytes) {
    Caller me{std::move(item)};
    std::unique_lock lock(mutex_);
    const std::shared_ptr<Batch> batch = join(me, bytes);
    const bool first = batch->callers.front() == &me;
    const bool begins = !std::exchange(writing_, true);
    // The last of the expected callers is awake already: it writes at once, and the caller that
    // waited for it need not.
    const bool gathers = queue_.front()->gathering;
    const bool relieves = gathers && complete() && queue_.size() == 1;
    if (relieves) batch->gathering = false;
    const bool tell = gathers && complete();
    lock.unlock();
    if (tell) gathered_.notify_all();
    const bool leads = first && (begins || wait_for_turn(*batch));
    if (leads || relieves) lead(batch, relieves);
    batch->written.wait();
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

  /// Shared by its callers, which leave it at different times. The first of them, or its relief,
  /// writes it when its turn has come.
  struct Batch {
    std::vector<Caller*> callers = {};
    std::size_t bytes = 0;
    bool gathering = false;  ///< the first one waits for the expected callers
    Signal turn = {};
    Signal written = {};  ///< from then on the callers are out of bounds
  };

  using Clock = std::chrono::steady_clock;

  /// The callers of a batch often return at once, and a leader that starts without them would make
  /// them wait for a second commit: it waits for a part of the last commit's duration.
  static constexpr int gather_part = 8;
  static constexpr Clock::duration gather_most = std::chrono::milliseconds{1};
  /// Sleeping for less takes longer.
  static constexpr Clock::duration gather_least = std::chrono::microseconds{10};
  /// How many items may meet contention, each alone, before the first batch is written.
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

  /// All expected callers have come, or the first batch is full.
  [[nodiscard]] bool complete() const { return waiting_ >= expected_ || queue_.size() > 1; }

  /// False: the batch before was not written in time, and every caller of this one fails. The
  /// others came later than the first one, so none of them has to watch the time.
  bool wait_for_turn(Batch& batch) {
    if (longest_wait_ == std::chrono::milliseconds{0}) {
      batch.turn.wait();
      return true;
    }
    if (batch.turn.wait_for(longest_wait_)) return true;
    {
      const std::scoped_lock lock(mutex_);
      // pass_on() may have come first.
      if (batch.turn.is_set()) return true;
      std::erase_if(queue_, [&](const auto& queued) { return queued.get() == &batch; });
      waiting_ -= batch.callers.size();
    }
    const auto error = std::make_exception_ptr(DatabaseError(
        DatabaseError::Kind::connection_lost,
        "nothing was written: the call before this one, with which it waits for a commit, has had "
        "no answer for " +
            std::to_string(longest_wait_.count()) +
            " ms: check that the database runs and is not overloaded, or raise answer_timeout"));
    for (Caller* caller : batch.callers) caller->error = error;
    batch.written.set();
    return false;
  }

  /// Writes the first batch of the queue, unless another caller takes it over.
  void lead(const std::shared_ptr<Batch>& batch, bool gathered) {
    if (!gathered && !gather(*batch)) return;
    close(*batch);
    const auto begin = Clock::now();
    write_batch(batch->callers);
    pass_on(batch->callers.size(), Clock::now() - begin);
    batch->written.set();
  }

  /// False: another caller writes the batch.
  bool gather(Batch& batch) {
    std::unique_lock lock(mutex_);
    const auto time = std::min(took_ / gather_part, gather_most);
    if (complete() || time < gather_least) return true;
    batch.gathering = true;
    gathered_.wait_for(lock, time, [&] { return !batch.gathering || complete(); });
    return std::exchange(batch.gathering, false);
  }

  void close(const Batch& batch) {
    const std::scoped_lock lock(mutex_);
    queue_.pop_front();
    waiting_ -= batch.callers.size();
  }

  /// The next leader wakes up before the callers who have been written.
  void pass_on(std::size_t written, Clock::duration took) {
    const std::scoped_lock lock(mutex_);
    took_ = took;
    expected_ = written + waiting_;
    if (queue_.empty()) {
      writing_ = false;
    } else {
      queue_.front()->turn.set();
    }
  }

  void write_batch(const std::vector<Caller*>& batch) {
    try {
      write_some(batch);
    } catch (const PoolExhausted&) {
      settle_failure(batch, true);
    } catch (const DatabaseError& error) {
      // The result of a commit in doubt is unknown, and an unavailable server affects all items:
      // these errors are for all of them. Contention may be about one row.
      using Kind = DatabaseError::Kind;
      settle_failure(batch, error.kind() == Kind::commit_in_doubt ||
                                (error.retryable() && error.kind() != Kind::contention));
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
        // Each of them has waited for its whole time: the cause blocks all of them.
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
  std::chrono::milliseconds longest_wait_;
  std::mutex mutex_;
  std::condition_variable gathered_;
  std::deque<std::shared_ptr<Batch>> queue_;
  std::size_t waiting_ = 0;    ///< callers in the queue
  std::size_t expected_ = 0;   ///< callers present when the last batch had been written
  Clock::duration took_ = {};  ///< to write it
  bool writing_ = false;       ///< a caller leads
};

}  // namespace twinbox
