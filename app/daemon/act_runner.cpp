#include "daemon/act_runner.hpp"

#include <utility>

#include "daemon/router.hpp"

namespace twinbox::app {

struct ActRunner::Running {
  std::string content;
  std::size_t changed = 0;
  bool ended = false;
  bool stopped = false;     ///< between two batches
  bool left_alone = false;  ///< whoever asked has got his answer
  std::exception_ptr error = {};
  std::jthread thread = {};
};

ActRunner::ActRunner(Environment environment, std::function<void(const Store&, BoxKind)> acted,
                     std::chrono::milliseconds patience)
    : environment_(std::move(environment)), acted_(std::move(acted)), patience_(patience) {}

ActRunner::~ActRunner() {
  std::unique_lock lock{mutex_};
  stopping_ = true;
  ended_.wait(lock, [this] { return running_.empty(); });
  past_.clear();
}

void ActRunner::finish(const Key& key, Running& running, const Work& work) {
  const GoOn go_on = [&](std::size_t changed) {
    const std::lock_guard lock{mutex_};
    running.changed = changed;
    running.stopped = stopping_;
    return !stopping_;
  };
  std::exception_ptr error;
  std::size_t changed = 0;
  try {
    changed = work(go_on);
  } catch (const std::exception& failure) {
    error = std::current_exception();
    const std::lock_guard lock{mutex_};
    if (running.left_alone) {  // else the answer tells
      environment_.write(
          LogLevel::warning, "act_failed",
          {{"store", key.store->name()}, {"operation", key.id}, {"error", failure.what()}});
    }
  }
  if (acted_) acted_(*key.store, key.kind);
  const std::lock_guard lock{mutex_};
  running.ended = true;
  running.error = error;
  if (!error) running.changed = changed;
  past_.push_back(std::move(running_.extract(key).mapped()));
  ended_.notify_all();
}

ActRunner::Result ActRunner::run(const Key& key, const std::string& content, Work work) {
  std::unique_lock lock{mutex_};
  std::shared_ptr<Running> running;
  if (const auto known = running_.find(key); known != running_.end()) {
    running = known->second;
    if (running->content != content) {
      throw Refused(422, "operation_id: something else is under way under this id");
    }
  } else {
    if (stopping_ || running_.size() >= most_running) {
      throw Refused(503,
                    "too many acts are under way; ask again later under the same operation_id");
    }
    past_.clear();  // joins threads that have nothing more to do
    running = std::make_shared<Running>();
    running->content = content;
    running_.emplace(key, running);
    running->thread = std::jthread{
        [this, key, &one = *running, work = std::move(work)] { finish(key, one, work); }};
  }
  ended_.wait_for(lock, patience_, [&] { return running->ended || stopping_; });
  running->left_alone = !running->ended;
  if (running->error) std::rethrow_exception(running->error);
  return {running->changed, running->ended && !running->stopped};
}

}  // namespace twinbox::app
