// Threads for one kind of request with a bounded queue: a full pool rejects its own kind and blocks
// no other.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace twinbox::app {

/// Thread-safe.
class RequestPool {
 public:
  struct Options {
    std::string name;
    std::size_t threads;
    std::size_t queue;  ///< maximum of waiting tasks
    /// The number of keys of the tasks; 0: only `max_running` of each task limits them. Otherwise
    /// each key has one thread in addition to `threads`, and a share of `threads` and of the queue
    /// that shrinks the fewer are free, so that one key cannot starve the others.
    std::size_t keys = 0;
  };
  explicit RequestPool(Options options);
  /// Calls close() and waits for running tasks.
  ~RequestPool();
  RequestPool(const RequestPool&) = delete;
  RequestPool& operator=(const RequestPool&) = delete;

  /// The functions must not throw.
  struct Task {
    std::function<void()> run;
    std::function<void()> drop = {};  ///< called instead of `run` if the pool is closed first
    /// At most `max_running` tasks with this key run concurrently, or the number given by
    /// Options::keys; null: no limit.
    const void* key = nullptr;
    std::size_t max_running = 1;
  };
  /// False: the queue or the share of its key is full, or the pool is closed; the task was not
  /// taken.
  bool submit(Task task);
  /// For a bounded number of tasks: accepted even if the queue is full.
  bool submit_unbounded(Task task);
  /// Drops the waiting tasks and accepts no more.
  void close();
  /// Counts a request that was rejected before it became a task.
  void count_rejected();

  struct Status {
    std::string name;
    std::size_t threads = 0;  ///< without the threads reserved for keys
    std::size_t running = 0;
    std::size_t waiting = 0;
    std::uint64_t refused = 0;
  };
  [[nodiscard]] Status status() const;
  [[nodiscard]] const std::string& name() const noexcept { return options_.name; }

 private:
  using Queue = std::deque<Task>;

  bool add(Task task, bool always);
  void work();
  /// Provides a thread for a runnable task: wakes an idle one, or starts a new one within the
  /// limit.
  void wake_or_add_thread(std::unique_lock<std::mutex>& lock);
  [[nodiscard]] bool has_room(const Task& task) const;
  [[nodiscard]] bool may_run(const Task& task) const;
  /// The oldest runnable task, or the end.
  Queue::iterator next();

  const Options options_;
  mutable std::mutex mutex_;
  std::condition_variable ready_;
  Queue queue_;
  using Counts = std::map<const void*, std::size_t>;  // by key; none is zero
  Counts running_of_;
  Counts waiting_of_;
  std::size_t idle_threads_ = 0;  ///< threads
  std::size_t running_ = 0;
  std::uint64_t refused_ = 0;
  bool closed_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace twinbox::app
