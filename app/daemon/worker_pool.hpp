// Threads for what may block, with a bounded queue in front of them.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace twinbox::app {

/// Thread-safe.
class WorkerPool {
 public:
  WorkerPool(std::size_t threads, std::size_t queue_limit);
  /// Finishes what is queued.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// False: the queue is full. `task` must not throw.
  bool submit(std::function<void()> task);
  /// For tasks of which there are only so many: taken even when the queue is full.
  void submit_always(std::function<void()> task);
  [[nodiscard]] std::size_t waiting() const;

 private:
  void work();

  const std::size_t queue_limit_;
  mutable std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<std::function<void()>> queue_;
  bool ending_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace twinbox::app
