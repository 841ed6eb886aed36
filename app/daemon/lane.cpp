#include "daemon/lane.hpp"

#include <algorithm>
#include <utility>

namespace twinbox::app {

Lane::Lane(Options options) : options_(std::move(options)) {
  threads_.reserve(options_.threads);
  for (std::size_t i = 0; i < options_.threads; ++i) {
    threads_.emplace_back([this] { work(); });
  }
}

Lane::~Lane() { close(); }

bool Lane::submit(Task task) { return add(std::move(task), false); }

bool Lane::submit_always(Task task) { return add(std::move(task), true); }

bool Lane::add(Task task, bool always) {
  {
    const std::lock_guard lock{mutex_};
    if (closed_ || (!always && queue_.size() >= options_.queue)) {
      ++refused_;
      return false;
    }
    queue_.push_back(std::move(task));
  }
  ready_.notify_one();
  return true;
}

void Lane::close() {
  Queue dropped;
  {
    const std::lock_guard lock{mutex_};
    closed_ = true;
    dropped.swap(queue_);
  }
  ready_.notify_all();
  for (const Task& task : dropped) {
    if (task.drop) task.drop();
  }
}

void Lane::count_refusal() {
  const std::lock_guard lock{mutex_};
  ++refused_;
}

Lane::Status Lane::status() const {
  const std::lock_guard lock{mutex_};
  return {.name = options_.name,
          .threads = options_.threads,
          .running = running_,
          .waiting = queue_.size(),
          .refused = refused_};
}

Lane::Queue::iterator Lane::next() {
  return std::ranges::find_if(queue_, [this](const Task& task) {
    if (task.key == nullptr) return true;
    const auto running = running_of_.find(task.key);
    return running == running_of_.end() || running->second < task.most_running;
  });
}

void Lane::work() {
  std::unique_lock lock{mutex_};
  while (true) {
    auto found = queue_.end();
    ready_.wait(lock, [&] {
      found = next();
      return closed_ || found != queue_.end();
    });
    if (found == queue_.end()) return;
    const Task task = std::move(*found);
    queue_.erase(found);
    ++running_;
    if (task.key != nullptr) ++running_of_[task.key];
    lock.unlock();
    task.run();
    lock.lock();
    --running_;
    // The thread itself looks for the next task, which may be one that had to wait for this key.
    if (task.key != nullptr && --running_of_[task.key] == 0) running_of_.erase(task.key);
  }
}

}  // namespace twinbox::app
