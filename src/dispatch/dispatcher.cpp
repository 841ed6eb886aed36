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
  // Beyond that, what is added to the present moment would lie in the past.
  constexpr Duration longest = std::chrono::years{10};
  if (options.poll_interval <= Duration::zero() || options.poll_interval > longest)
    refuse("poll_interval must be longer than zero and at most ten years");
  if (options.processors < 0 || options.processors > 1000) refuse("processors must be 0 to 1000");
  if (options.grace < Duration::zero() || options.grace > longest)
    refuse("grace must not be below zero or above ten years");
  if (options.restart_delay < Duration::zero() || options.restart_delay > longest)
    refuse("restart_delay must not be below zero or above ten years");
  if (options.batch < 1 || options.batch > 100'000) refuse("batch must be 1 to 100000");
  require_lease(options.lease);
  if (options.housekeeping) options.housekeeping->check();
}

}  // namespace

Dispatcher::Dispatcher(WorkQueue& queue, Handlers handlers, DispatcherOptions options,
                       DispatchObserver observer) {
  check_bounds(options);
  options.pollers = 1;
  loop_ = std::make_unique<Loop>(std::move(handlers), options, std::move(observer),
                                 queue.database().environment());
  loop_->add({.key = &queue, .store = queue.database().name(), .open = [&queue] {
                // Not ours to delete.
                return std::shared_ptr<WorkQueue>{std::shared_ptr<void>{}, &queue};
              }});
}

Dispatcher::Dispatcher(DatabaseSet& set, BoxKind box, Handlers handlers, DispatcherOptions options,
                       DispatchObserver observer) {
  check_bounds(options);
  loop_ =
      std::make_unique<Loop>(std::move(handlers), options, std::move(observer), set.environment());
  stores_ =
      std::make_unique<DatabaseSet::Subscription>(set, [this, box](const StoreChange& change) {
        for (const std::shared_ptr<Store>& store : change.removed) loop_->remove(store.get());
        for (const std::shared_ptr<Store>& store : change.added) {
          loop_->add({.key = store.get(),
                      .store = store->name(),
                      .open = [store, box]() -> std::shared_ptr<WorkQueue> {
                        if (box == BoxKind::outbox) return {store, &store->outbox()};
                        return {store, &store->inbox()};
                      }});
        }
      });
}

Dispatcher::~Dispatcher() { stores_.reset(); }

std::size_t Dispatcher::step() { return loop_->step(); }
std::size_t Dispatcher::drain() { return loop_->drain({}); }
std::size_t Dispatcher::drain(const std::stop_token& stop) { return loop_->drain(stop); }
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
