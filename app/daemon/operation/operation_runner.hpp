// Runs operations that may take longer than their request: they continue in the background, and the
// store records their progress.
#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "daemon/store/stores.hpp"
#include <twinbox/environment.hpp>

namespace twinbox::app {

/// Thread-safe.
class OperationRunner {
 public:
  static constexpr std::size_t max_running = 16;

  /// Calls `on_changed` with the box when an operation on it has finished; a request waits at most
  /// `max_wait` for that.
  explicit OperationRunner(Environment environment,
                           std::function<void(const Store&, BoxKind)> on_changed = {},
                           std::chrono::milliseconds max_wait = std::chrono::seconds{2});
  /// Lets each operation finish its batch; repeating it with the same id continues from there.
  ~OperationRunner();
  OperationRunner(const OperationRunner&) = delete;
  OperationRunner& operator=(const OperationRunner&) = delete;

  struct Result {
    std::size_t changed = 0;
    bool finished = false;  ///< false: still running
  };
  /// Called after each batch with the number of changes so far. False: stop.
  using OnProgress = std::function<bool(std::size_t changed)>;
  using Work = std::function<std::size_t(const OnProgress&)>;

  struct Key {
    Store* store;
    BoxKind kind;
    std::string id;
    auto operator<=>(const Key&) const = default;
  };
  /// Runs `work` on its own thread and waits up to `max_wait`. If an operation with the same id is
  /// running, waits for that instead. `content` identifies the request. Throws what `work` throws;
  /// HttpProblem if a different operation with this id is running (422), or if there are too many
  /// (503).
  Result run(const Key& key, const std::string& content, Work work);

 private:
  struct Running;
  void finish(const Key& key, Running& running, const Work& work);

  Environment environment_;
  std::function<void(const Store&, BoxKind)> on_changed_;
  std::chrono::milliseconds max_wait_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool stopping_ = false;
  std::map<Key, std::shared_ptr<Running>> running_;      // shared with the waiting requests
  std::vector<std::shared_ptr<Running>> ended_threads_;  // finished or finishing threads
};

}  // namespace twinbox::app
