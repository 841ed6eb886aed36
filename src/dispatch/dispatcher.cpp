#include "twinbox/dispatcher.hpp"

#include <stdexcept>

#include "dispatch/loop.hpp"
#include "queue/box.hpp"

namespace twinbox {
namespace {

void check_bounds(const DispatcherOptions& options) {
  const auto refuse = [](const std::string& text) {
    throw std::out_of_range("dispatcher options: " + text);
  };
  if (options.workers < 1 || options.workers > 1024) refuse("workers must be 1 to 1024");
  if (options.pollers < 1 || options.pollers > 256) refuse("pollers must be 1 to 256");
  if (options.poll_interval <= Duration::zero()) refuse("poll_interval must be longer than zero");
  if (options.grace < Duration::zero()) refuse("grace must not be below zero");
  if (options.restart_delay < Duration::zero()) refuse("restart_delay must not be below zero");
  if (options.batch < 1 || options.batch > 100'000) refuse("batch must be 1 to 100000");
  require_lease(options.lease);
}

}  // namespace

Dispatcher::Dispatcher(WorkQueue& queue, Handlers handlers, DispatcherOptions options,
                       DispatchObserver observer) {
  check_bounds(options);
  options.pollers = 1;
  loop_ = std::make_unique<Loop>(std::move(handlers), options, std::move(observer),
                                 queue.database().environment());
  loop_->add({.store = queue.database().name(), .open = [&queue] {
                // Not ours to delete.
                return std::shared_ptr<WorkQueue>{std::shared_ptr<void>{}, &queue};
              }});
}

Dispatcher::~Dispatcher() = default;

std::size_t Dispatcher::step() { return loop_->step(); }
std::size_t Dispatcher::drain() { return loop_->drain(); }
void Dispatcher::run(std::stop_token stop) { loop_->run(stop); }
void Dispatcher::pause() { loop_->set_paused(true); }
void Dispatcher::resume() { loop_->set_paused(false); }
bool Dispatcher::paused() const noexcept { return loop_->paused(); }
void Dispatcher::pause_store(std::string_view store) { loop_->set_store_paused(store, true); }
void Dispatcher::resume_store(std::string_view store) { loop_->set_store_paused(store, false); }
void Dispatcher::pause_topic(const Topic& topic) { loop_->set_topic_paused(topic, true); }
void Dispatcher::resume_topic(const Topic& topic) { loop_->set_topic_paused(topic, false); }
const OwnerToken& Dispatcher::owner() const noexcept { return loop_->owner(); }

}  // namespace twinbox
