// The ceiling of group commit: one hand-written writer thread that commits whatever has queued up.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "candidate.hpp"

namespace twinbox::bench {

/// Thread-safe.
class GroupWriter {
 public:
  explicit GroupWriter(std::shared_ptr<RawConnection> connection)
      : connection_(std::move(connection)), thread_([this](std::stop_token stop) { run(stop); }) {}

  /// Returns when the message is durable.
  void enqueue(const NewMessage& message) {
    Caller me{&message};
    std::unique_lock lock(mutex_);
    queue_.push_back(&me);
    if (queue_.size() == 1) filled_.notify_one();
    me.woken.wait(lock, [&] { return me.finished; });
  }

 private:
  struct Caller {
    const NewMessage* message;
    bool finished = false;
    std::condition_variable woken = {};
  };

  void run(const std::stop_token& stop) {
    std::vector<Caller*> batch;
    std::vector<const NewMessage*> messages;
    std::unique_lock lock(mutex_);
    while (filled_.wait(lock, stop, [&] { return !queue_.empty(); })) {
      batch.swap(queue_);
      lock.unlock();
      for (const Caller* caller : batch) messages.push_back(caller->message);
      connection_->enqueue(std::span{std::as_const(messages)});
      messages.clear();
      lock.lock();
      for (Caller* caller : batch) {
        caller->finished = true;
        caller->woken.notify_one();
      }
      batch.clear();
    }
  }

  std::shared_ptr<RawConnection> connection_;
  std::mutex mutex_;
  std::condition_variable_any filled_;
  std::vector<Caller*> queue_;
  std::jthread thread_;
};

}  // namespace twinbox::bench
