// Operations that may take longer than their request: they go on in the background, and their
// progress is in the store.
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

  /// `on_changed` is told of the box when an operation on it has ended; a request waits `max_wait`
  /// for it.
  explicit OperationRunner(Environment environment,
                           std::function<void(const Store&, BoxKind)> on_changed = {},
                           std::chrono::milliseconds max_wait = std::chrono::seconds{2});
  /// Lets each one end its batch; who asks again under its id goes on from there.
  ~OperationRunner();
  OperationRunner(const OperationRunner&) = delete;
  OperationRunner& operator=(const OperationRunner&) = delete;

  struct Result {
    std::size_t changed = 0;
    bool finished = false;  ///< false: it goes on
  };
  /// After each batch: how many so far. False: it must stop there.
  using OnProgress = std::function<bool(std::size_t changed)>;
  using Work = std::function<std::size_t(const OnProgress&)>;

  struct Key {
    Store* store;
    BoxKind kind;
    std::string id;
    auto operator<=>(const Key&) const = default;
  };
  /// Does `work` on a thread of its own and waits for it, for a moment. One that is under
  /// way under the same id is waited for instead. `content` is what was asked for. Throws what the
  /// work throws; HttpProblem when something else is under way under that id (422), or too much at
  /// once (503).
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
  std::map<Key, std::shared_ptr<Running>> running_;  // shared with those who wait for it
  std::vector<std::shared_ptr<Running>>
      ended_threads_;  // their threads have ended, or are about to
};

}  // namespace twinbox::app
