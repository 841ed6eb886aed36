// Threads for one kind of request, with a bounded queue in front of them: a full pool refuses its
// own kind and holds up no other.
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
    std::size_t queue;  ///< tasks that may wait for a thread
    /// How many keys its tasks have; 0: `max_running` of each task decides. Otherwise each key has
    /// a thread of its own beside `threads`, and of those a share that gets smaller the fewer are
    /// free, and a share of the queue likewise: one key cannot use up what the others need.
    std::size_t keys = 0;
  };
  explicit RequestPool(Options options);
  /// As close(), and waits for the tasks that run.
  ~RequestPool();
  RequestPool(const RequestPool&) = delete;
  RequestPool& operator=(const RequestPool&) = delete;

  /// Nothing in it may throw.
  struct Task {
    std::function<void()> run;
    std::function<void()> drop = {};  ///< called instead of `run` when the pool is closed before
    /// Of the tasks with this key, at most `max_running` run at once, or as Options::keys has it;
    /// null: as many as there are threads.
    const void* key = nullptr;
    std::size_t max_running = 1;
  };
  /// False: the queue (or the share of its key) is full, or the pool is closed; the task was not
  /// taken.
  bool submit(Task task);
  /// For tasks of which there are only so many: taken even when the queue is full.
  bool submit_unbounded(Task task);
  /// Drops the tasks that wait and takes no more.
  void close();
  /// Counts a request that was refused before it became a task.
  void count_rejected();

  struct Status {
    std::string name;
    std::size_t threads = 0;  ///< without those that a key has for itself
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
  /// A thread for what waits and may run: one that rests, or a new one while there may be more.
  void wake_or_add_thread(std::unique_lock<std::mutex>& lock);
  [[nodiscard]] bool has_room(const Task& task) const;
  [[nodiscard]] bool may_run(const Task& task) const;
  /// The oldest task that may run now, or the end.
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
