// Calls of handlers: by the threads of run(), and by hand.
#include <algorithm>
#include <span>

#include "dispatch/call_batch.hpp"
#include "dispatch/loop.hpp"

namespace twinbox {

// ---- by hand

std::size_t Dispatcher::Loop::step() {
  SharedPoller poller;
  std::size_t index = 0;
  {
    const std::scoped_lock lock{mutex_};
    if (box_pollers_.empty()) return 0;
    index = next_step_ % box_pollers_.size();
    poller = box_pollers_[index];
    next_step_ = index + 1;
    if (paused_ || poller->paused || poller->leaving) return 0;
  }
  std::size_t count = 0;
  try {
    count = step(*poller);
  } catch (const ServerChanged&) {
    SharedPoller gone;  // destroyed after the lock
    {
      const std::scoped_lock lock{mutex_};
      succeed(*poller);
      if (!active_ && poller->held.empty()) gone = take_out(*poller);
      next_step_ = box_pollers_.size() - 1;
    }
    return step();
  }
  if (count > 0 && options_.order == PollOrder::drain_first) {
    const std::scoped_lock lock{mutex_};
    next_step_ = index;
  }
  return count;
}

Dispatcher::Loop::UntrackedLeases::UntrackedLeases(Loop& of, BoxPoller& one)
    : loop(of), poller(one) {
  Lock lock{loop.mutex_};
  loop.idle_changed_.wait(lock, [&] { return !poller.asking; });
  ++poller.untracked;
}

Dispatcher::Loop::UntrackedLeases::~UntrackedLeases() {
  const std::scoped_lock lock{loop.mutex_};
  --poller.untracked;
}

/// Outside of a visit.
void Dispatcher::Loop::release_lost(BoxPoller& poller) {
  if (!poller.may_have_lost_claims()) return;
  const UntrackedLeases alone{*this, poller};
  Lock lock{mutex_};
  const auto in_hand = begin_question(poller, {});
  if (!in_hand) return;
  lock.unlock();
  std::exception_ptr failure;
  try {
    poller.release_lost(*in_hand);
  } catch (const std::exception&) {
    failure = std::current_exception();
  }
  lock.lock();
  end_question(poller);
  if (failure) std::rethrow_exception(failure);
}

std::size_t Dispatcher::Loop::step(BoxPoller& poller) {
  release_lost(poller);
  const UntrackedLeases claims{*this, poller};
  const Clock::time_point claimed = Clock::now();
  std::vector<Message> messages = poller.claim_once(options_.batch);
  const std::size_t count = messages.size();
  std::vector<Settlement> left = postpone_paused(messages);
  std::exception_ptr failure;
  for (const std::vector<std::size_t>& group : batches_of(handlers_, messages)) {
    auto batch = std::make_shared<std::vector<Message>>();
    for (const std::size_t index : group) batch->push_back(std::move(messages[index]));
    CallWatch watch;
    watch.claimed_at = claimed;
    if (failure) {
      for (const Message& message : *batch)
        left.push_back({{batch, &message}, {.action = Verdict::Action::release}});
      continue;
    }
    try {
      std::vector<std::optional<Verdict>> verdicts = poller.caller().call(*batch, watch);
      for (std::size_t i = 0; i < verdicts.size(); ++i) {
        if (verdicts[i]) left.push_back({{batch, &(*batch)[i]}, std::move(*verdicts[i])});
      }
      poller.write_down(left);
    } catch (const std::exception&) {
      // Handled messages stay leased: they may be settled already.
      failure = std::current_exception();
      left.clear();
    }
  }
  if (failure) {
    write_down_or_log(poller, std::move(left));
    std::rethrow_exception(failure);
  }
  poller.write_down(left);
  return count;
}

/// Takes those whose topic is paused out of `messages`.
std::vector<Settlement> Dispatcher::Loop::postpone_paused(std::vector<Message>& messages) {
  std::vector<Settlement> settlements;
  const std::scoped_lock lock{mutex_};
  std::erase_if(messages, [&](Message& message) {
    if (!paused_topics_.contains(message.topic.view())) return false;
    const Verdict verdict = postpone_verdict(message, options_.lease);
    settlements.push_back({std::make_shared<Message>(std::move(message)), verdict});
    return true;
  });
  return settlements;
}

std::size_t Dispatcher::Loop::drain(const std::stop_token& stop) {
  std::size_t handled = 0;
  std::exception_ptr failure;
  const auto stores = [&] {
    const std::scoped_lock lock{mutex_};
    return box_pollers_.size();
  };
  for (std::size_t empty = 0; empty < stores() && !stop.stop_requested();) {
    std::size_t count = 0;
    try {
      count = step();
    } catch (const std::exception&) {
      if (!failure) failure = std::current_exception();
    }
    handled += count;
    empty = count == 0 ? empty + 1 : 0;
  }
  if (failure) std::rethrow_exception(failure);
  return handled;
}

// ---- by the threads of run()

/// A call whose database hangs frees its worker for other stores, but not for its own: deliveries
/// waiting there would hang, too.
Dispatcher::Loop::Waiting::const_iterator Dispatcher::Loop::next_call() const {
  if (waiting_.empty() || calls_ < options_.workers) return waiting_.begin();
  if (calls_ - hanging_calls(Clock::now()) >= options_.workers) return waiting_.end();
  return std::ranges::find_if(
      waiting_, [&](const SharedTask& task) { return task->poller->calls < options_.workers; });
}

void Dispatcher::Loop::call_next(Lock& lock) {
  std::vector<SharedTask> tasks = take_tasks();
  BoxPoller& poller = *tasks.front()->poller;
  ++calls_;
  ++poller.calls;
  feed_starving();  // this delivery may have blocked a claim
  const Wanted others = others_wanted();
  lock.unlock();
  wake(others);
  const Clock::time_point begin = Clock::now();
  std::vector<Settlement> settlements = call_tasks(poller, tasks);
  lock.lock();
  --calls_;
  --poller.calls;
  finish(tasks, std::move(settlements), begin, lock);
  if (active_) {
    if (is_crowded(poller)) write_in_parallel(poller, lock);
    return;
  }
  // It may be the last of a removed store.
  lock.unlock();
  tasks.clear();
  lock.lock();
}

/// The next message; for a batch handler also those that wait behind it, up to its limit.
std::vector<SharedTask> Dispatcher::Loop::take_tasks() {
  const auto next = next_call();
  std::vector<SharedTask> tasks{*next};
  waiting_.erase(next);
  const Task& first = *tasks.front();
  const HandlerEntry* entry = handlers_.find(first.message.handler, first.message.topic);
  if (entry != nullptr && std::holds_alternative<BatchHandler>(entry->call)) {
    std::erase_if(waiting_, [&](SharedTask& task) {
      if (tasks.size() >= entry->options.max_batch || task->poller != first.poller ||
          handlers_.find(task->message.handler, task->message.topic) != entry)
        return false;
      tasks.push_back(std::move(task));
      return true;
    });
  }
  Task& watched = *tasks.front();
  const Clock::time_point now = Clock::now();
  const auto timeout =
      entry == nullptr ? std::nullopt : timeout_of(entry->options, first.poller->queue().options());
  if (timeout) watched.deadline = now + *timeout;
  watched.running = options_.lease / 3;
  watched.slow_at = now + watched.running;
  call_watcher(std::min(watched.deadline, watched.slow_at));
  const auto watch = std::make_shared<CallWatch>();
  watch->claimed_at = first.claimed_at;
  for (const SharedTask& task : tasks) task->watch = watch;
  running_.push_back(tasks.front());
  in_calls_ += tasks.size();
  return tasks;
}

std::vector<Settlement> Dispatcher::Loop::call_tasks(BoxPoller& poller,
                                                     const std::vector<SharedTask>& tasks) {
  std::vector<Settlement> settlements;
  try {
    if (tasks.size() == 1) {
      const SharedTask& task = tasks.front();
      auto verdicts = poller.caller().call({&task->message, 1}, *task->watch);
      if (verdicts[0]) settlements.push_back({message_of(task), std::move(*verdicts[0])});
      return settlements;
    }
    const auto messages = std::make_shared<std::vector<Message>>();
    messages->reserve(tasks.size());
    messages->push_back(tasks.front()->message);  // the watching thread may read it
    for (const SharedTask& task : std::span{tasks}.subspan(1))
      messages->push_back(std::move(task->message));
    auto verdicts = poller.caller().call(*messages, *tasks.front()->watch);
    for (std::size_t i = 0; i < verdicts.size(); ++i) {
      if (verdicts[i])
        settlements.push_back({{messages, &(*messages)[i]}, std::move(*verdicts[i])});
    }
  } catch (const std::exception& error) {
    // Only the database can fail here (a mark, a transaction of ours): the lease decides the next
    // step.
    environment_.write(LogLevel::error, "call_error",
                       {{"store", std::string_view{poller.store()}},
                        {"topic", tasks.front()->message.topic.view()},
                        {"handler", tasks.front()->message.handler.view()},
                        {"id", tasks.front()->message.id.view()},
                        {"error", text_of(error)}});
  }
  return settlements;
}

void Dispatcher::Loop::finish(const std::vector<SharedTask>& tasks,
                              std::vector<Settlement> settlements, Clock::time_point begin,
                              Lock& lock) {
  const SharedPoller& poller = tasks.front()->poller;
  const Clock::time_point now = Clock::now();
  const auto took =
      std::chrono::duration_cast<Duration>(now - begin) / static_cast<std::int64_t>(tasks.size());
  const Duration known = std::max(took, Duration{1});
  handler_time_ = handler_time_ == Duration{} ? known : handler_time_ + (known - handler_time_) / 8;
  // One outlier says little about the others.
  const Duration counted = std::min(known, 4 * usual_time_ + Duration{64});
  usual_time_ = usual_time_ == Duration{} ? known : usual_time_ + (counted - usual_time_) / 8;
  std::erase(running_, tasks.front());
  in_calls_ -= tasks.size();
  for (const SharedTask& task : tasks) forget_task(task);
  poller->finished.insert(poller->finished.end(), std::make_move_iterator(settlements.begin()),
                          std::make_move_iterator(settlements.end()));
  if (active_) {
    schedule_settling(*poller, now);
    feed_starving();
    if (draining_) idle_changed_.notify_all();
    return;
  }
  // run() has ended before this handler: settle its outcome here.
  std::vector<Settlement> left = std::exchange(poller->finished, {});
  ++poller->untracked;
  lock.unlock();
  write_down_or_log(*poller, std::move(left));
  lock.lock();
  --poller->untracked;
  if (!active_ && poller->leaving && poller->held.empty()) take_out(*poller);
  idle_changed_.notify_all();
}

void Dispatcher::Loop::write_down_or_log(BoxPoller& poller, std::vector<Settlement> finished) {
  try {
    poller.write_down(finished);
  } catch (const std::exception& error) {
    environment_.write(LogLevel::error, "settle_error",
                       {{"store", std::string_view{poller.store()}},
                        {"count", static_cast<std::int64_t>(finished.size())},
                        {"error", text_of(error)}});
  }
}

}  // namespace twinbox
