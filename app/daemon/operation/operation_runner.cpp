#include "daemon/operation/operation_runner.hpp"

#include <utility>

#include "daemon/http/http_router.hpp"

namespace twinbox::app {

struct OperationRunner::Running {
  std::string content;
  std::size_t changed = 0;
  bool ended = false;
  bool stopped = false;        ///< between two batches
  bool in_background = false;  ///< the caller has got its response
  std::exception_ptr error = {};
  std::jthread thread = {};
};

OperationRunner::OperationRunner(Environment environment,
                                 std::function<void(const Store&, BoxKind)> on_changed,
                                 std::chrono::milliseconds max_wait)
    : environment_(std::move(environment)),
      on_changed_(std::move(on_changed)),
      max_wait_(max_wait) {}

OperationRunner::~OperationRunner() {
  std::unique_lock lock{mutex_};
  stopping_ = true;
  ended_.wait(lock, [this] { return running_.empty(); });
  ended_threads_.clear();
}

void OperationRunner::finish(const Key& key, Running& running, const Work& work) {
  const OnProgress on_progress = [&](std::size_t changed) {
    const std::lock_guard lock{mutex_};
    running.changed = changed;
    running.stopped = stopping_;
    return !stopping_;
  };
  std::exception_ptr error;
  std::size_t changed = 0;
  try {
    changed = work(on_progress);
  } catch (const std::exception& failure) {
    error = std::current_exception();
    const std::lock_guard lock{mutex_};
    if (running.in_background) {  // otherwise the response contains it
      environment_.write(
          LogLevel::warning, "operation_failed",
          {{"store", key.store->name()}, {"operation", key.id}, {"error", failure.what()}});
    }
  }
  if (on_changed_) on_changed_(*key.store, key.kind);
  const std::lock_guard lock{mutex_};
  running.ended = true;
  running.error = error;
  if (!error) running.changed = changed;
  ended_threads_.push_back(std::move(running_.extract(key).mapped()));
  ended_.notify_all();
}

OperationRunner::Result OperationRunner::run(const Key& key, const std::string& content,
                                             Work work) {
  std::unique_lock lock{mutex_};
  std::shared_ptr<Running> running;
  if (const auto known = running_.find(key); known != running_.end()) {
    running = known->second;
    if (running->content != content) {
      throw HttpProblem(
          422, "operation_id: a different operation with this id is running; use a new id");
    }
  } else {
    if (stopping_ || running_.size() >= max_running) {
      throw HttpProblem(503,
                        "too many operations are running; retry later with the same operation_id");
    }
    ended_threads_.clear();  // joins finished threads
    running = std::make_shared<Running>();
    running->content = content;
    running_.emplace(key, running);
    running->thread = std::jthread{
        [this, key, &one = *running, work = std::move(work)] { finish(key, one, work); }};
  }
  ended_.wait_for(lock, max_wait_, [&] { return running->ended || stopping_; });
  running->in_background = !running->ended;
  if (running->error) std::rethrow_exception(running->error);
  return {running->changed, running->ended && !running->stopped};
}

}  // namespace twinbox::app
