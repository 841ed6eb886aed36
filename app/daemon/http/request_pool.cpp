#include "daemon/http/request_pool.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

namespace twinbox::app {
namespace {

using Counts = std::map<const void*, std::size_t>;

std::size_t count_of(const Counts& counts, const void* key) {
  const auto found = counts.find(key);
  return found == counts.end() ? 0 : found->second;
}

void take_one(Counts& counts, const void* key) {
  const auto found = counts.find(key);
  if (--found->second == 0) counts.erase(found);
}

/// True if a key that has `mine` may take one more of the shared `free` ones.
bool in_its_share(std::size_t mine, std::size_t free) { return free > 0 && mine <= free / 4; }

}  // namespace

RequestPool::RequestPool(Options options) : options_(std::move(options)) {
  threads_.reserve(options_.threads + options_.keys);
  for (std::size_t i = 0; i < options_.threads; ++i) {
    threads_.emplace_back([this] { work(); });
  }
}

RequestPool::~RequestPool() { close(); }

bool RequestPool::submit(Task task) { return add(std::move(task), false); }

bool RequestPool::submit_unbounded(Task task) { return add(std::move(task), true); }

bool RequestPool::add(Task task, bool always) {
  std::unique_lock lock{mutex_};
  if (closed_ || (!always && !has_room(task))) {
    ++refused_;
    return false;
  }
  if (task.key != nullptr) ++waiting_of_[task.key];
  queue_.push_back(std::move(task));
  wake_or_add_thread(lock);
  return true;
}

bool RequestPool::has_room(const Task& task) const {
  if (options_.keys == 0 || task.key == nullptr) return queue_.size() < options_.queue;
  const std::size_t free = options_.queue - std::min(queue_.size(), options_.queue);
  const std::size_t mine = count_of(waiting_of_, task.key);
  return mine == 0 || in_its_share(mine, free);
}

bool RequestPool::may_run(const Task& task) const {
  if (task.key == nullptr && options_.keys == 0) return true;
  const std::size_t mine = task.key == nullptr ? 0 : count_of(running_of_, task.key);
  if (options_.keys == 0) return mine < task.max_running;
  const std::size_t shared = running_ - running_of_.size();  // one thread reserved for each key
  if (task.key == nullptr) return shared < options_.threads;
  return mine == 0 || in_its_share(mine - 1, options_.threads - std::min(shared, options_.threads));
}

void RequestPool::wake_or_add_thread(std::unique_lock<std::mutex>& lock) {
  const bool may_grow = !closed_ && threads_.size() < options_.threads + options_.keys;
  if (idle_threads_ == 0 && may_grow && next() != queue_.end()) {
    try {
      threads_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {  // continue with the existing threads
    }
    return;
  }
  lock.unlock();
  ready_.notify_one();
}

void RequestPool::close() {
  Queue dropped;
  {
    const std::lock_guard lock{mutex_};
    closed_ = true;
    dropped.swap(queue_);
    waiting_of_.clear();
  }
  ready_.notify_all();
  for (const Task& task : dropped) {
    if (task.drop) task.drop();
  }
}

void RequestPool::count_rejected() {
  const std::lock_guard lock{mutex_};
  ++refused_;
}

RequestPool::Status RequestPool::status() const {
  const std::lock_guard lock{mutex_};
  return {.name = options_.name,
          .threads = options_.threads,
          .running = running_,
          .waiting = queue_.size(),
          .refused = refused_};
}

RequestPool::Queue::iterator RequestPool::next() {
  return std::ranges::find_if(queue_, [this](const Task& task) { return may_run(task); });
}

void RequestPool::work() {
  std::unique_lock lock{mutex_};
  while (true) {
    auto found = queue_.end();
    ++idle_threads_;
    ready_.wait(lock, [&] {
      found = next();
      return closed_ || found != queue_.end();
    });
    --idle_threads_;
    if (found == queue_.end()) return;
    const Task task = std::move(*found);
    queue_.erase(found);
    ++running_;
    if (task.key != nullptr) {
      take_one(waiting_of_, task.key);
      ++running_of_[task.key];
    }
    // Another thread may be needed if one wake-up covered two tasks, or none is idle for the next.
    if (options_.keys > 0 && !queue_.empty()) {
      wake_or_add_thread(lock);
      if (lock.owns_lock()) lock.unlock();
    } else {
      lock.unlock();
    }
    task.run();
    lock.lock();
    --running_;
    // This thread takes the next task, which may have waited for this key.
    if (task.key != nullptr) take_one(running_of_, task.key);
  }
}

}  // namespace twinbox::app
