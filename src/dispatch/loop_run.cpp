// The life of a dispatcher: its stores, run and stop, chores, pause.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <system_error>

#include "dispatch/loop.hpp"
#include "twinbox/database.hpp"

namespace twinbox {

using namespace std::chrono_literals;

namespace {

/// How long a database may take to settle the remaining outcomes after the grace period. An
/// unresponsive one must not block the shutdown forever.
constexpr Duration last_calls_time = 5s;

/// Requests a stop when its time is over.
class Countdown {
 public:
  Countdown(std::stop_source stop, Duration time)
      : thread_{[stop = std::move(stop), time](const std::stop_token& over) mutable {
          std::mutex mutex;
          std::condition_variable_any nothing;
          std::unique_lock lock{mutex};
          nothing.wait_for(lock, over, time, [] { return false; });
          if (!over.stop_requested()) stop.request_stop();
        }} {}

 private:
  std::jthread thread_;
};

}  // namespace

Dispatcher::Loop::Loop(Handlers handlers, DispatcherOptions options, DispatchObserver observer,
                       const Environment& environment)
    : handlers_(std::move(handlers)),
      options_(std::move(options)),
      observer_(std::move(observer)),
      environment_(environment),
      owner_(OwnerToken::make(environment)),
      largest_batch_(handlers_.largest_batch()) {
  Announcement announcement = announcement_of(handlers_);
  announcement_ = std::move(announcement.text);
  if (announcement.left_out == 0) return;
  environment_.write(LogLevel::warning, "announcement_cut",
                     {{"left_out", static_cast<std::int64_t>(announcement.left_out)},
                      {"limit", static_cast<std::int64_t>(max_announcement_size)}});
}

thread_local const Dispatcher::Loop* Dispatcher::Loop::OnThread::current = nullptr;

void Dispatcher::Loop::refuse_own_thread() const noexcept {
  if (OnThread::current != this) return;
  std::fputs(
      "twinbox: a dispatcher is destroyed inside run(), by one of its own threads (in a handler, "
      "an "
      "observer or the log), which would wait for itself for ever. Request the stop of run() "
      "there, "
      "and destroy the dispatcher behind run().\n",
      stderr);
  std::terminate();
}

Dispatcher::Loop::~Loop() {
  refuse_own_thread();
  std::vector<SharedTask> running;
  std::stop_source run_end{std::nostopstate};
  {
    const std::scoped_lock lock{mutex_};
    running = running_;
    run_end = run_end_;
  }
  run_end.request_stop();
  for (const SharedTask& task : running) task->watch->stop.request_stop();
  {
    Lock lock{mutex_};
    // Others keep their leases meanwhile, and the thread in run() uses the objects that this
    // destroys.
    idle_changed_.wait(lock, [&] { return finished_ && running_.empty(); });
    closing_ = true;
  }
  last_calls_.request_stop();
  work_.notify_all();
}

void Dispatcher::Loop::add(QueueOpener source) {
  const auto poller = std::make_shared<BoxPoller>(
      std::move(source), BoxPollerContext{handlers_, options_, observer_, owner_, environment_,
                                          announcement_, box_count_});
  const std::scoped_lock lock{mutex_};
  box_pollers_.push_back(poller);
  ++box_count_;
  ++box_changes_;
  chores_changed_.notify_all();
  if (!active_) return;
  schedule(*poller, Clock::now());
  wake(others_wanted());
}

void Dispatcher::Loop::remove(const void* key) {
  SharedPoller gone;  // destroyed after the lock
  const std::scoped_lock lock{mutex_};
  const auto found = std::find_if(
      box_pollers_.begin(), box_pollers_.end(),
      [&](const SharedPoller& poller) { return poller->key() == key && !poller->leaving; });
  if (found == box_pollers_.end()) return;
  BoxPoller& poller = **found;
  poller.leaving = true;
  if (!active_) {
    if (poller.held.empty()) gone = take_out(poller);
  } else if (!poller.busy) {
    schedule(poller, Clock::now());
    wake(others_wanted());
  }
}

void Dispatcher::Loop::succeed(BoxPoller& poller) {
  if (poller.leaving) return;
  poller.leaving = true;
  release_waiting(poller, everything);
  const SharedPoller next = poller.successor(OwnerToken::make(environment_));
  next->paused = poller.paused;
  box_pollers_.push_back(next);
  ++box_count_;
  ++box_changes_;
  chores_changed_.notify_all();
  environment_.write(LogLevel::warning, "failover_detected",
                     {{"store", std::string_view{poller.store()}}});
  if (active_) schedule(*next, Clock::now());
}

Dispatcher::Loop::SharedPoller Dispatcher::Loop::take_out(BoxPoller& poller) {
  const auto found = std::find_if(box_pollers_.begin(), box_pollers_.end(),
                                  [&](const SharedPoller& one) { return one.get() == &poller; });
  if (found == box_pollers_.end()) return {};
  SharedPoller gone = std::move(*found);
  box_pollers_.erase(found);
  --box_count_;
  ++box_changes_;
  chores_changed_.notify_all();
  std::erase(starving_, &poller);
  schedule(poller, never);
  return gone;
}

// ---- run

void Dispatcher::Loop::run(const std::stop_token& stop) {
  const OnThread inside{this};
  std::stop_source end;
  {
    const std::scoped_lock lock{mutex_};
    if (!finished_)
      throw UsageError("dispatcher: run() is already running; use one run() at a time");
    // First, since there may be none. Existing threads wait until the next attempt.
    constexpr int writers = 1;
    const int most = options_.workers + options_.pollers + writers;
    while (std::ssize(threads_) < most) {
      threads_.emplace_back([this] { serve(); });
    }
    finished_ = false;
    active_ = true;
    stopping_ = draining_ = false;
    run_end_ = end;
    claims_ = std::stop_source{};
    last_calls_ = std::stop_source{};
    for (const SharedPoller& poller : box_pollers_) {
      poller->look_now({}, false);
      poller->housekeeping.reset();
      poller->next_chores = {};
      if (!poller->busy) schedule(*poller, Clock::now());
    }
    wake(others_wanted());
  }
  std::exception_ptr failure;
  std::optional<Countdown> countdown;
  {
    const std::stop_callback at_stop{stop, [&end] { end.request_stop(); }};
    try {
      if (options_.housekeeping) {
        const std::scoped_lock lock{mutex_};
        chores_end_ = std::stop_source{};
        add_chore_thread();
      }
      watch(end.get_token());
    } catch (const std::system_error&) {
      failure = std::current_exception();
    }
    chores_end_.request_stop();
    shut_down();
    try {
      countdown.emplace(last_calls_, last_calls_time);
    } catch (const std::system_error&) {
      last_calls_.request_stop();
    }
    wait_for_visits();
    std::vector<std::jthread> chore_threads;
    const std::scoped_lock lock{mutex_};
    chore_threads.swap(chore_threads_);
  }
  say_goodbye();
  end_run();
  if (failure) std::rethrow_exception(failure);
}

/// Settles the remaining outcomes, if the store lets it; then removes the subscription.
void Dispatcher::Loop::say_goodbye() {
  const StopScope in_time{last_calls_.get_token()};
  std::vector<std::pair<SharedPoller, std::vector<Settlement>>> left;
  std::vector<SharedPoller> box_pollers;
  {
    const std::scoped_lock lock{mutex_};
    active_ = false;
    for (Schedule& schedule : schedules_) schedule.clear();
    starving_.clear();
    box_pollers = box_pollers_;
    // Hanging stores must not use up the time of the others.
    std::stable_partition(box_pollers.begin(), box_pollers.end(), [](const SharedPoller& poller) {
      return poller->store_health != StoreHealth::failing;
    });
    for (const SharedPoller& poller : box_pollers) {
      poller->at = never;
      poller->starving = false;
      if (poller->finished.empty()) continue;
      left.emplace_back(poller, std::exchange(poller->finished, {}));
      ++poller->untracked;
    }
  }
  for (auto& [poller, finished] : left) {
    write_down_or_log(*poller, std::move(finished));
    const std::scoped_lock lock{mutex_};
    --poller->untracked;
  }
  // A thousand stores must not delay the shutdown: a store that is not told forgets the worker
  // within a day.
  const Clock::time_point polite_until = Clock::now() + 1s;
  for (const SharedPoller& poller : box_pollers) {
    const bool polite = Clock::now() < polite_until;
    if (polite) release_lost_or_log(*poller);
    poller->stop_listening(polite);
  }
  const std::scoped_lock lock{mutex_};
  for (const SharedPoller& poller : box_pollers) {
    if (poller->leaving && poller->held.empty()) {
      take_out(*poller);
    } else if (!poller->held.empty()) {
      schedule(*poller, poller->next_renewal);
    }
  }
}

/// The last access of run() to members of the dispatcher: the destructor may wait for it.
void Dispatcher::Loop::end_run() {
  const std::scoped_lock lock{mutex_};
  last_calls_ = std::stop_source{};
  finished_ = true;
  wake(others_wanted());
  idle_changed_.notify_all();
}

void Dispatcher::Loop::release_lost_or_log(BoxPoller& poller) {
  try {
    release_lost(poller);
  } catch (const std::exception& error) {
    environment_.write(LogLevel::warning, "release_lost_error",
                       {{"store", std::string_view{poller.store()}}, {"error", text_of(error)}});
  }
}

/// Reports handlers that are slow or exceed their timeout, until a stop is requested.
void Dispatcher::Loop::watch(const std::stop_token& stop) {
  Lock lock{mutex_};
  while (!stop.stop_requested()) {
    report_timeouts(lock);
    report_slow(lock);
    retimed_ = false;
    // A copy: the wait reads its deadline without the lock, while call_watcher() moves the member.
    const Clock::time_point until = watched_until_ = next_report();
    if (until == never) {
      idle_changed_.wait(lock, stop, [&] { return retimed_; });
    } else {
      idle_changed_.wait_until(lock, stop, until, [&] { return retimed_; });
    }
  }
  watched_until_ = Clock::time_point::min();
}

/// Calls that are short never wake it: it sleeps until the oldest of them could be slow.
void Dispatcher::Loop::call_watcher(Clock::time_point by) {
  if (by >= watched_until_) return;
  watched_until_ = by;
  retimed_ = true;
  idle_changed_.notify_all();
}

Clock::time_point Dispatcher::Loop::next_report() const {
  Clock::time_point first = never;
  for (const SharedTask& task : running_) {
    if (!task->watch->timed_out) first = std::min(first, task->deadline);
    first = std::min(first, task->slow_at);
  }
  return first;
}

void Dispatcher::Loop::report_slow(Lock& lock) {
  struct Slow {
    SharedTask task;
    Duration running;
    LogLevel level;
  };
  std::vector<Slow> slow;
  const Clock::time_point now = Clock::now();
  for (const SharedTask& task : running_) {
    if (now < task->slow_at) continue;
    slow.push_back(
        {task, task->running, task->times_slow++ == 0 ? LogLevel::warning : LogLevel::error});
    task->slow_at += task->running;  // twice the time since it began
    task->running *= 2;
  }
  if (slow.empty()) return;
  lock.unlock();
  for (const auto& [task, running, level] : slow) {
    const std::scoped_lock before_its_end{task->watch->telling};
    if (!task->watch->in_handler) continue;
    environment_.write(level, "handler_slow",
                       {{"store", std::string_view{task->poller->store()}},
                        {"topic", task->message.topic.view()},
                        {"handler", task->message.handler.view()},
                        {"id", task->message.id.view()},
                        {"running_s", std::chrono::duration<double>(running).count()}});
    if (observer_.slow) observer_.slow(task->poller->store(), task->message, running);
  }
  lock.lock();
}

void Dispatcher::Loop::report_timeouts(Lock& lock) {
  std::vector<SharedTask> late;
  for (const SharedTask& task : running_) {
    if (Clock::now() >= task->deadline && !task->watch->timed_out.exchange(true))
      late.push_back(task);
  }
  if (late.empty()) return;
  lock.unlock();
  for (const SharedTask& task : late) {
    task->watch->stop.request_stop();
    environment_.write(LogLevel::warning, "timeout",
                       {{"store", std::string_view{task->poller->store()}},
                        {"topic", task->message.topic.view()},
                        {"handler", task->message.handler.view()},
                        {"id", task->message.id.view()}});
    if (observer_.timed_out) observer_.timed_out(task->poller->store(), task->message);
  }
  lock.lock();
}

/// Nothing new begins, unstarted deliveries are released, and running calls get the grace period.
void Dispatcher::Loop::shut_down() {
  std::vector<SharedTask> running;
  {
    const std::scoped_lock lock{mutex_};
    draining_ = true;
    for (const SharedTask& task : std::exchange(waiting_, {})) {
      forget_task(task);
      task->poller->finished.push_back({message_of(task), {.action = Verdict::Action::release}});
    }
    running = running_;
    for (const SharedTask& task : running) task->watch->shutting_down = true;
    const Clock::time_point now = Clock::now();
    for (const SharedPoller& poller : box_pollers_) {
      if (!poller->busy) schedule_next(*poller, now);
    }
    wake(others_wanted());
  }
  claims_.request_stop();
  for (const SharedTask& task : running) task->watch->stop.request_stop();
  Lock lock{mutex_};
  idle_changed_.wait_until(lock, Clock::now() + options_.grace, [&] {
    return std::all_of(box_pollers_.begin(), box_pollers_.end(),
                       [](const SharedPoller& poller) { return poller->has_nothing(); });
  });
  stopping_ = true;
}

void Dispatcher::Loop::wait_for_visits() {
  Lock lock{mutex_};
  idle_changed_.wait(lock, [&] { return visits_ == 0 && writes_ == 0; });
}

// ---- pause

void Dispatcher::Loop::set_paused(bool paused) {
  const std::scoped_lock lock{mutex_};
  paused_ = paused;
  if (paused) {
    for (const SharedPoller& poller : box_pollers_) release_waiting(*poller, everything);
  }
  look_again();
}

void Dispatcher::Loop::set_store_paused(std::string_view store, bool paused) {
  const std::scoped_lock lock{mutex_};
  bool found = false;
  for (const SharedPoller& poller : box_pollers_) {
    if (poller->store() != store) continue;
    poller->paused = paused;
    if (paused) release_waiting(*poller, everything);
    found = true;
  }
  if (!found) {
    throw UsageError("dispatcher: there is no store '" + std::string{store} + "' to pause; " +
                     std::to_string(box_pollers_.size()) + " are known");
  }
  look_again();
}

void Dispatcher::Loop::set_topic_paused(const Topic& topic, bool paused) {
  const std::scoped_lock lock{mutex_};
  if (paused) {
    paused_topics_.insert(topic.str());
    for (const SharedPoller& poller : box_pollers_) {
      release_waiting(*poller, [&](const Task& task) { return task.message.topic == topic; });
    }
    look_again();
  } else {
    paused_topics_.erase(topic.str());
  }
}

void Dispatcher::Loop::look_again() {
  const Clock::time_point now = Clock::now();
  for (const SharedPoller& poller : box_pollers_) {
    if (active_ && !poller->busy && poller->at > now) schedule(*poller, now);
  }
  wake(others_wanted());
}

}  // namespace twinbox
