#include "daemon/worker_pool.hpp"

#include <utility>

namespace twinbox::app {

WorkerPool::WorkerPool(std::size_t threads, std::size_t queue_limit) : queue_limit_(queue_limit) {
  threads_.reserve(threads);
  for (std::size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock{mutex_};
    ending_ = true;
  }
  ready_.notify_all();
}

bool WorkerPool::submit(std::function<void()> task) {
  {
    const std::lock_guard lock{mutex_};
    if (queue_.size() >= queue_limit_) return false;
    queue_.push_back(std::move(task));
  }
  ready_.notify_one();
  return true;
}

void WorkerPool::submit_always(std::function<void()> task) {
  {
    const std::lock_guard lock{mutex_};
    queue_.push_back(std::move(task));
  }
  ready_.notify_one();
}

std::size_t WorkerPool::waiting() const {
  const std::lock_guard lock{mutex_};
  return queue_.size();
}

void WorkerPool::work() {
  std::unique_lock lock{mutex_};
  while (true) {
    ready_.wait(lock, [this] { return ending_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const std::function<void()> task = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace twinbox::app
