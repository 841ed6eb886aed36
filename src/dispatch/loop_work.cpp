// Calls of handlers: by the threads of run(), and by hand.
#include <algorithm>
#include <span>

#include "dispatch/call_batch.hpp"
#include "dispatch/loop.hpp"

namespace twinbox {

// ---- by hand

std::size_t Dispatcher::Loop::step() {
  SharedDesk desk;
  std::size_t place = 0;
  {
    const std::scoped_lock lock{mutex_};
    if (desks_.empty()) return 0;
    place = next_step_ % desks_.size();
    desk = desks_[place];
    next_step_ = place + 1;
    if (paused_ || desk->paused || desk->leaving) return 0;
  }
  std::size_t count = 0;
  try {
    count = step(*desk);
  } catch (const HistoryChanged&) {
    SharedDesk gone;  // destroyed after the lock
    {
      const std::scoped_lock lock{mutex_};
      succeed(*desk);
      if (!active_ && desk->held.empty()) gone = take_out(*desk);
      next_step_ = desks_.size() - 1;
    }
    return step();
  }
  if (count > 0 && options_.order == PollOrder::drain_first) {
    const std::scoped_lock lock{mutex_};
    next_step_ = place;
  }
  return count;
}

Dispatcher::Loop::Unlisted::Unlisted(Loop& of, Desk& one) : loop(of), desk(one) {
  Lock lock{loop.mutex_};
  loop.calm_.wait(lock, [&] { return !desk.asking; });
  ++desk.unlisted;
}

Dispatcher::Loop::Unlisted::~Unlisted() {
  const std::scoped_lock lock{loop.mutex_};
  --desk.unlisted;
}

/// Outside of a visit.
void Dispatcher::Loop::release_lost(Desk& desk) {
  if (!desk.in_doubt()) return;
  const Unlisted alone{*this, desk};
  Lock lock{mutex_};
  const auto in_hand = begin_question(desk, {});
  if (!in_hand) return;
  lock.unlock();
  std::exception_ptr trouble;
  try {
    desk.release_lost(*in_hand);
  } catch (const std::exception&) {
    trouble = std::current_exception();
  }
  lock.lock();
  end_question(desk);
  if (trouble) std::rethrow_exception(trouble);
}

std::size_t Dispatcher::Loop::step(Desk& desk) {
  release_lost(desk);
  const Unlisted claims{*this, desk};
  const Clock::time_point claimed = Clock::now();
  std::vector<Message> messages = desk.claim_once(options_.batch);
  const std::size_t count = messages.size();
  std::vector<Settlement> left = put_off_paused(messages);
  std::exception_ptr trouble;
  for (const std::vector<std::size_t>& places : batches_of(handlers_, messages)) {
    auto batch = std::make_shared<std::vector<Message>>();
    for (const std::size_t place : places) batch->push_back(std::move(messages[place]));
    CallWatch watch;
    watch.claimed_at = claimed;
    if (trouble) {
      for (const Message& message : *batch)
        left.push_back({{batch, &message}, {.act = Verdict::Act::release}});
      continue;
    }
    try {
      std::vector<std::optional<Verdict>> verdicts = desk.caller().call(*batch, watch);
      for (std::size_t i = 0; i < verdicts.size(); ++i) {
        if (verdicts[i]) left.push_back({{batch, &(*batch)[i]}, std::move(*verdicts[i])});
      }
      desk.write_down(left);
    } catch (const std::exception&) {
      // What has been handled stays leased: it may be written down already.
      trouble = std::current_exception();
      left.clear();
    }
  }
  if (trouble) {
    write_down_or_log(desk, std::move(left));
    std::rethrow_exception(trouble);
  }
  desk.write_down(left);
  return count;
}

/// Takes those whose topic is paused out of `messages`.
std::vector<Settlement> Dispatcher::Loop::put_off_paused(std::vector<Message>& messages) {
  std::vector<Settlement> settlements;
  const std::scoped_lock lock{mutex_};
  std::erase_if(messages, [&](Message& message) {
    if (!paused_topics_.contains(message.topic.view())) return false;
    const Verdict verdict = put_off(message, options_.lease);
    settlements.push_back({std::make_shared<Message>(std::move(message)), verdict});
    return true;
  });
  return settlements;
}

std::size_t Dispatcher::Loop::drain(const std::stop_token& stop) {
  std::size_t handled = 0;
  std::exception_ptr trouble;
  const auto stores = [&] {
    const std::scoped_lock lock{mutex_};
    return desks_.size();
  };
  for (std::size_t empty = 0; empty < stores() && !stop.stop_requested();) {
    std::size_t count = 0;
    try {
      count = step();
    } catch (const std::exception&) {
      if (!trouble) trouble = std::current_exception();
    }
    handled += count;
    empty = count == 0 ? empty + 1 : 0;
  }
  if (trouble) std::rethrow_exception(trouble);
  return handled;
}

// ---- by the threads of run()

/// A call whose database hangs leaves its worker to other stores, but not to its own: what waits
/// there would hang, too.
Dispatcher::Loop::Waiting::const_iterator Dispatcher::Loop::next_call() const {
  if (waiting_.empty() || calls_ < options_.workers) return waiting_.begin();
  if (calls_ - hanging_calls(Clock::now()) >= options_.workers) return waiting_.end();
  return std::ranges::find_if(
      waiting_, [&](const SharedTask& task) { return task->desk->calls < options_.workers; });
}

void Dispatcher::Loop::call_next(Lock& lock) {
  std::vector<SharedTask> tasks = take_tasks();
  Desk& desk = *tasks.front()->desk;
  ++calls_;
  ++desk.calls;
  feed_starving();  // what waited here may have been in the way of a claim
  const Wanted others = others_wanted();
  lock.unlock();
  wake(others);
  const Clock::time_point begin = Clock::now();
  std::vector<Settlement> settlements = call_tasks(desk, tasks);
  lock.lock();
  --calls_;
  --desk.calls;
  finish(tasks, std::move(settlements), begin, lock);
  if (active_) {
    if (is_crowded(desk)) write_beside(desk, lock);
    return;
  }
  // Perhaps the last of a store that was removed.
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
      if (tasks.size() >= entry->options.max_batch || task->desk != first.desk ||
          handlers_.find(task->message.handler, task->message.topic) != entry)
        return false;
      tasks.push_back(std::move(task));
      return true;
    });
  }
  Task& watched = *tasks.front();
  const Clock::time_point now = Clock::now();
  const auto timeout =
      entry == nullptr ? std::nullopt : timeout_of(entry->options, first.desk->queue().options());
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

std::vector<Settlement> Dispatcher::Loop::call_tasks(Desk& desk,
                                                     const std::vector<SharedTask>& tasks) {
  std::vector<Settlement> settlements;
  try {
    if (tasks.size() == 1) {
      const SharedTask& task = tasks.front();
      auto verdicts = desk.caller().call({&task->message, 1}, *task->watch);
      if (verdicts[0]) settlements.push_back({message_of(task), std::move(*verdicts[0])});
      return settlements;
    }
    const auto messages = std::make_shared<std::vector<Message>>();
    messages->reserve(tasks.size());
    messages->push_back(tasks.front()->message);  // who watches the call may ask for it
    for (const SharedTask& task : std::span{tasks}.subspan(1))
      messages->push_back(std::move(task->message));
    auto verdicts = desk.caller().call(*messages, *tasks.front()->watch);
    for (std::size_t i = 0; i < verdicts.size(); ++i) {
      if (verdicts[i])
        settlements.push_back({{messages, &(*messages)[i]}, std::move(*verdicts[i])});
    }
  } catch (const std::exception& error) {
    // Only the database can fail here (a mark, a transaction of ours): the lease decides what
    // happens next.
    environment_.write(LogLevel::error, "call_error",
                       {{"store", std::string_view{desk.store()}},
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
  const SharedDesk& desk = tasks.front()->desk;
  const Clock::time_point now = Clock::now();
  const auto took =
      std::chrono::duration_cast<Duration>(now - begin) / static_cast<std::int64_t>(tasks.size());
  const Duration known = std::max(took, Duration{1});
  handler_time_ = handler_time_ == Duration{} ? known : handler_time_ + (known - handler_time_) / 8;
  // One that was held up for long says little about the others.
  const Duration counted = std::min(known, 4 * usual_time_ + Duration{64});
  usual_time_ = usual_time_ == Duration{} ? known : usual_time_ + (counted - usual_time_) / 8;
  std::erase(running_, tasks.front());
  in_calls_ -= tasks.size();
  for (const SharedTask& task : tasks) let_go(task);
  desk->finished.insert(desk->finished.end(), std::make_move_iterator(settlements.begin()),
                        std::make_move_iterator(settlements.end()));
  if (active_) {
    schedule_settling(*desk, now);
    feed_starving();
    if (draining_) calm_.notify_all();
    return;
  }
  // run() has ended while this handler went on: what it said is settled here.
  std::vector<Settlement> left = std::exchange(desk->finished, {});
  ++desk->unlisted;
  lock.unlock();
  write_down_or_log(*desk, std::move(left));
  lock.lock();
  --desk->unlisted;
  if (!active_ && desk->leaving && desk->held.empty()) take_out(*desk);
  calm_.notify_all();
}

void Dispatcher::Loop::write_down_or_log(Desk& desk, std::vector<Settlement> finished) {
  try {
    desk.write_down(finished);
  } catch (const std::exception& error) {
    environment_.write(LogLevel::error, "settle_error",
                       {{"store", std::string_view{desk.store()}},
                        {"count", static_cast<std::int64_t>(finished.size())},
                        {"error", text_of(error)}});
  }
}

}  // namespace twinbox
