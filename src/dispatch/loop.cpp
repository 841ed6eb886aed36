#include "dispatch/loop.hpp"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <system_error>

#include "queue/box.hpp"
#include "twinbox/database.hpp"

namespace twinbox {
namespace {

using namespace std::chrono_literals;

Duration lease_third(const DispatcherOptions& options) { return options.lease / 3; }

bool was_stopped(const std::exception& error, const std::stop_token& stop) {
  const auto* failure = dynamic_cast<const DatabaseError*>(&error);
  return failure != nullptr && failure->kind() == DatabaseError::Kind::cancelled &&
         stop.stop_requested();
}

}  // namespace

// ---- scheduling

/// The thread that claimed a batch also runs its handlers, unless another visit is due: waking
/// another thread takes longer than most handlers do.
void Dispatcher::Loop::serve() {
  const OnThread inside{this};
  Lock lock{mutex_};
  while (!closing_) {
    const Clock::time_point now = Clock::now();
    if (calls_ >= options_.workers) feed_starving();  // one of them may hang by now
    if (BoxPoller* poller = next_visit(now)) {
      visit_next(*poller, lock);
    } else if (may_call()) {
      call_next(lock);
    } else if (BoxPoller* hanging = visit_to_end(now)) {
      end_call(hanging->visit, lock);
    } else {
      rest(now, lock);
    }
  }
}

void Dispatcher::Loop::rest(Clock::time_point now, Lock& lock) {
  const Clock::time_point at = next_time(now);
  ++idle_threads_;
  if (at < timer_deadline_) {
    timer_deadline_ = at;
    work_.wait_until(lock, at);
    if (timer_deadline_ == at) timer_deadline_ = never;
  } else {
    work_.wait(lock);
  }
  --idle_threads_;
  waking_ = false;
}

/// Each woken thread wakes the next while there is more to do. With short handlers, waking all at
/// once would only cause contention.
Dispatcher::Loop::Wanted Dispatcher::Loop::others_wanted() {
  if (idle_threads_ == 0) add_thread_if_all_are_occupied();
  if (idle_threads_ == 0 || waking_) return Wanted::none;
  const Clock::time_point now = Clock::now();
  const bool calls = may_call();
  if (!calls && next_visit(now) == nullptr && next_time(now) >= timer_deadline_)
    return Wanted::none;
  waking_ = true;
  const bool one = !calls || waiting_.size() == 1 || is_short(waiting_.size());
  return one ? Wanted::one : Wanted::all;
}

void Dispatcher::Loop::add_thread_if_all_are_occupied() {
  const int occupied = visits_ + writes_ + calls_;
  constexpr int writer_and_timekeeper = 2;
  const int most =
      options_.workers + 2 * options_.pollers + 2 * most_hanging + writer_and_timekeeper;
  if (closing_ || occupied < std::ssize(threads_) || std::ssize(threads_) >= most) return;
  try {
    threads_.emplace_back([this] { serve(); });
  } catch (const std::system_error&) {  // continue with the existing threads
  }
}

void Dispatcher::Loop::wake(Wanted others) {
  if (others == Wanted::one) work_.notify_one();
  if (others == Wanted::all) work_.notify_all();
}

// ---- visits

void Dispatcher::Loop::call(BoxPoller& poller, bool remote) {
  if (remote) poller.called_remotely = true;
  const Clock::time_point now = Clock::now();
  const Clock::time_point before = poller.committed_at.exchange(now);
  const bool called = poller.called.exchange(true);
  // A visit that waits behind hanging stores may no longer be needed.
  if (called && now - before < 10ms) return;
  Lock lock{mutex_};
  if (!called) poller.called_at = now;
  // A poller that leaves may have been removed already, and must not come back.
  if (!active_ || poller.leaving || poller.busy) return;
  if (poller.at > now) {
    schedule(poller, now);
  } else if (hanging_since(now) == never) {
    return;
  }
  const Wanted others = others_wanted();
  lock.unlock();
  wake(others);
}

void Dispatcher::Loop::visit_next(BoxPoller& poller, Lock& lock) {
  SharedPoller kept = poller.shared_from_this();  // its last handler may return meanwhile
  schedule(poller, never);
  ++visits_;
  visited_.push_back(&poller);
  const Clock::time_point begin = Clock::now();
  poller.answers = answered_since(poller, hanging_since(begin));
  poller.visit.begin(begin);
  if (finished_) {
    keep_leases(poller, lock);
  } else {
    visit(poller, lock);
  }
  std::erase(visited_, &poller);
  if (poller.leaving) {
    if (poller.has_nothing()) take_out(poller);
    lock.unlock();  // this may be its last owner
    kept.reset();
    lock.lock();
  }
  --visits_;
  if (stopping_) idle_changed_.notify_all();
}

bool Dispatcher::Loop::takes_more(const BoxPoller& poller) const {
  return !draining_ && !paused_ && !poller.paused && !poller.leaving;
}

void Dispatcher::Loop::visit(BoxPoller& poller, Lock& lock) {
  const Clock::time_point begin = Clock::now();
  poller.busy = true;
  if (poller.called.exchange(false))
    poller.look_now(poller.called_at, poller.called_remotely.exchange(false));
  std::vector<SharedTask> renewed;
  if (!poller.held.empty() && begin >= poller.next_renewal) {
    give_up_late(poller, begin);
    renewed = leased(poller);
    poller.next_renewal = begin + lease_third(options_);
  }
  std::vector<Settlement> finished = std::exchange(poller.finished, {});
  ++poller.untracked;
  // A claim also shows whether a database that takes no settlement takes anything.
  const bool looks = begin >= poller.next_look() || poller.stuck_since != never;
  const std::int64_t limit = takes_more(poller) && looks ? reserve(poller, begin) : std::int64_t{0};

  const bool full_for_long = poller.full_since != never && !poller.logged_full &&
                             begin - poller.full_since >= lease_third(options_);
  const bool asks_if_full = full_for_long && calls_ >= options_.workers && !draining_;

  // After the stop nothing new begins, and the rest has its own deadline.
  const bool begins = !draining_;
  const auto in_hand = begins ? begin_question(poller, finished) : std::nullopt;
  const std::stop_token last = last_calls_.get_token();
  const std::stop_token stop = begins ? claims_.get_token() : last;
  std::stop_source end = poller.visit.stop();
  const bool is_last = poller.leaving && poller.held.empty();
  const bool asks = limit > 0 || !finished.empty() || !renewed.empty() || !takes_more(poller);

  const Wanted others = others_wanted();
  lock.unlock();
  wake(others);
  std::vector<Message> messages;
  std::vector<SharedTask> lost;
  std::optional<Duration> rest;
  bool active = true;
  bool stopped = false;
  bool renewal_owed = !renewed.empty();
  bool failover_detected = false;
  bool logged_full = false;
  try {
    const auto end_visit = [&end] { end.request_stop(); };
    const std::stop_callback at_the_end{last, end_visit};
    const StopScope until_the_end{end.get_token()};
    // Settle first: the following steps may be refused forever.
    lost = poller.renew(renewed);
    renewal_owed = false;
    const std::stop_callback at_stop{stop, end_visit};
    if (in_hand) poller.release_lost(*in_hand);
    if (begins) poller.listen([this, &poller](bool remote) { call(poller, remote); });
    active = poller.hold_slot();
    messages = poller.settle_and_claim(finished, active ? limit : 0);
    if (begins && !stop.stop_requested()) poller.send_heartbeat(!messages.empty());
    if (is_last) poller.leave();
    if (asks_if_full) logged_full = poller.log_if_full(lease_third(options_));
    if (asks) poller.works();
  } catch (const ServerChanged&) {
    failover_detected = true;
  } catch (const std::exception& error) {
    stopped = was_stopped(error, stop);
    if (!stopped) rest = poller.backoff_after(error, was_stopped(error, end.get_token()));
  } catch (...) {
    rest =
        poller.backoff_after(std::runtime_error("something that is no std::exception was thrown"));
  }
  // A heartbeat may have hung, and hides its errors.
  if (!rest && !stopped && end.stop_requested()) {
    stopped = stop.stop_requested();
    if (!stopped) rest = poller.backoff_after(std::runtime_error("ended"), true);
  }
  // A slot also expires while the database is unreachable.
  if (rest && !poller.has_slot()) active = false;
  lock.lock();

  stop_lost(poller, lost, lock);
  if (failover_detected) succeed(poller);
  if (!active) release_slot(poller, lock);
  reservations_.erase(&poller);
  poller.finished.insert(poller.finished.begin(), std::make_move_iterator(finished.begin()),
                         std::make_move_iterator(finished.end()));
  if (logged_full) {
    poller.logged_full = true;
  } else if (full_for_long) {
    poller.full_since = Clock::now();
  }
  if (limit > 0 && active && !rest && !stopped && !waited_long(messages)) {
    poller.full_since = never;
    poller.logged_full = false;
  }
  hand_out(poller, std::move(messages), begin);
  --poller.untracked;
  if (in_hand) end_question(poller);
  if (rest) give_up_stuck(poller, begin, lock);
  poller.busy = false;
  const Clock::time_point now = Clock::now();
  if (rest || (stopped && poller.visit.hangs(now))) {
    poller.store_health = StoreHealth::failing;
  } else if (!stopped && (asks || poller.store_health == StoreHealth::untried)) {
    poller.store_health = StoreHealth::works;
    poller.answered_at = now;
  }
  poller.visit.end(rest && end.stop_requested());
  // A failed call alone does not end leases.
  if (renewal_owed) poller.next_renewal = begin;
  if (rest) {
    const Clock::time_point at = now + *rest;
    schedule(poller,
             poller.held.empty() ? at : std::min(at, std::max(now + 250ms, poller.next_renewal)));
  } else {
    poller.stuck_since = never;
    schedule_next(poller, now);
  }
  feed_starving();
  if (draining_) idle_changed_.notify_all();
}

std::optional<std::vector<Lease>> Dispatcher::Loop::begin_question(
    BoxPoller& poller, const std::vector<Settlement>& own) {
  if (poller.untracked > 1 || poller.asking || poller.leaving || !poller.may_have_lost_claims())
    return std::nullopt;
  std::vector<Lease> in_hand;
  // Count all of them: a changed store is here twice for a while, with the same box.
  for (const SharedPoller& one : box_pollers_) {
    if (one->leaving && one->untracked > 0) return std::nullopt;
    for (const SharedTask& task : one->held) in_hand.push_back(task->message.lease());
    for (const Settlement& done : one->finished) in_hand.push_back(done.message->lease());
  }
  for (const Settlement& done : own) in_hand.push_back(done.message->lease());
  poller.asking = true;
  return in_hand;
}

void Dispatcher::Loop::end_question(BoxPoller& poller) {
  poller.asking = false;
  idle_changed_.notify_all();
  wake(others_wanted());
}

void Dispatcher::Loop::keep_leases(BoxPoller& poller, Lock& lock) {
  const std::vector<SharedTask> renewed = leased(poller);
  const std::stop_token last = last_calls_.get_token();
  std::stop_source end = poller.visit.stop();
  poller.busy = true;
  const Wanted others = others_wanted();
  lock.unlock();
  wake(others);
  std::vector<SharedTask> lost;
  Duration rest = lease_third(options_);
  bool failed = false;
  try {
    const std::stop_callback at_the_end{last, [&end] { end.request_stop(); }};
    const StopScope until_the_end{end.get_token()};
    lost = poller.renew(renewed);
    poller.works();
  } catch (const std::exception& error) {
    failed = !was_stopped(error, last);
    if (failed)
      rest = std::min(rest, poller.backoff_after(error, was_stopped(error, end.get_token())));
  }
  lock.lock();
  stop_lost(poller, lost, lock);
  poller.busy = false;
  if (failed) {
    poller.store_health = StoreHealth::failing;
  } else if (!renewed.empty() && !last.stop_requested()) {
    poller.store_health = StoreHealth::works;
  }
  poller.visit.end(failed && end.stop_requested());
  const Clock::time_point now = Clock::now();
  poller.next_renewal = now + rest;
  if (active_) {  // run() has begun again
    schedule(poller, now);
  } else if (!poller.held.empty()) {
    schedule(poller, poller.next_renewal);
  }
}

std::vector<SharedTask> Dispatcher::Loop::leased(const BoxPoller& poller) {
  std::vector<SharedTask> tasks;
  std::ranges::copy_if(poller.held, std::back_inserter(tasks),
                       [](const SharedTask& task) { return !task->lost && !task->marked(); });
  return tasks;
}

bool Dispatcher::Loop::waited_long(const std::vector<Message>& messages) const {
  return std::ranges::any_of(messages, [&](const Message& message) {
    const Instant claimed_at = message.lease_until - options_.lease;
    return claimed_at - message.visible_at >= lease_third(options_);
  });
}

/// A visit to a server takes a while: meanwhile another connection can settle.
bool Dispatcher::Loop::is_crowded(const BoxPoller& poller) const {
  if (!poller.busy || poller.writing || poller.store_health != StoreHealth::works || stopping_ ||
      std::ssize(poller.finished) < options_.batch || !poller.writes_in_parallel())
    return false;
  // A hanging one does not stop the others.
  return writes_ == 0 ||
         (Clock::now() - last_write_ >= visit_limits.brief && visits_ + writes_ < most_hanging);
}

void Dispatcher::Loop::write_in_parallel(BoxPoller& poller, Lock& lock) {
  std::vector<Settlement> finished = std::exchange(poller.finished, {});
  poller.writing = true;
  ++poller.untracked;
  ++writes_;
  last_write_ = Clock::now();
  const std::stop_token last = last_calls_.get_token();
  const Wanted others = others_wanted();
  lock.unlock();
  wake(others);
  try {
    const StopScope until_the_end{last};
    poller.write_down(finished);
  } catch (...) {
    // The next visit retries it, and reports the result.
  }
  lock.lock();
  poller.finished.insert(poller.finished.begin(), std::make_move_iterator(finished.begin()),
                         std::make_move_iterator(finished.end()));
  poller.writing = false;
  --poller.untracked;
  --writes_;
  schedule_settling(poller, Clock::now());
  if (draining_) idle_changed_.notify_all();
}

void Dispatcher::Loop::hand_out(BoxPoller& poller, std::vector<Message> messages,
                                Clock::time_point claimed) {
  if (messages.empty()) return;
  if (poller.held.empty()) poller.next_renewal = claimed + lease_third(options_);
  for (Message& message : messages) {
    const bool paused = !paused_topics_.empty() && paused_topics_.contains(message.topic.view());
    auto task = std::make_shared<Task>(poller.shared_from_this(), std::move(message), claimed);
    if (paused) {
      poller.finished.push_back(
          {message_of(task), postpone_verdict(task->message, options_.lease)});
    } else if (!takes_more(poller)) {
      poller.finished.push_back({message_of(task), {.action = Verdict::Action::release}});
    } else {
      task->index = poller.held.size();
      poller.held.push_back(task);
      waiting_.push_back(std::move(task));
    }
  }
}

/// Calls that run without a lease get a stop request. Deliveries that have not started are
/// released: that changes nothing if another worker has them, and costs no expiry otherwise.
void Dispatcher::Loop::stop_lost(BoxPoller& poller, std::vector<SharedTask>& tasks, Lock& lock) {
  std::erase_if(tasks, [](const SharedTask& task) { return task->marked(); });
  if (tasks.empty()) return;
  std::vector<std::shared_ptr<CallWatch>> calls;
  for (const SharedTask& task : tasks) {
    task->lost = true;
    if (task->watch) calls.push_back(task->watch);
  }
  release_waiting(poller, [](const Task& task) { return task.lost; });
  lock.unlock();
  for (const auto& call : calls) call->stop.request_stop();
  lock.lock();
}

/// Other workers may now claim from the box: unstarted deliveries are released, running calls get a
/// stop request.
void Dispatcher::Loop::release_slot(BoxPoller& poller, Lock& lock) {
  release_waiting(poller, everything);
  const std::vector<SharedTask> running = poller.held;
  lock.unlock();
  for (const SharedTask& task : running) {
    task->watch->shutting_down = true;
    task->watch->stop.request_stop();
  }
  lock.lock();
}

/// A removed store may never come back: it is kept no longer than its leases last.
void Dispatcher::Loop::give_up_stuck(BoxPoller& poller, Clock::time_point begin, Lock& lock) {
  if (poller.finished.empty()) return;
  poller.stuck_since = std::min(poller.stuck_since, begin);
  if (!poller.leaving || Clock::now() - poller.stuck_since < options_.lease) return;
  std::vector<Settlement> stuck = std::exchange(poller.finished, {});
  lock.unlock();  // an observer may call the dispatcher
  poller.give_up(stuck, "its lease has ended, and the store was removed");
  lock.lock();
}

/// Deliveries that have waited for a worker through a renewal are released, for other workers to
/// take.
void Dispatcher::Loop::give_up_late(BoxPoller& poller, Clock::time_point now) {
  release_waiting(poller,
                  [&](const Task& task) { return now - task.claimed_at >= lease_third(options_); });
}

bool Dispatcher::Loop::everything(const Task&) { return true; }

void Dispatcher::Loop::release_waiting(BoxPoller& poller,
                                       const std::function<bool(const Task&)>& chosen) {
  std::vector<SharedTask> released;
  std::erase_if(waiting_, [&](const SharedTask& task) {
    if (task->poller.get() != &poller || !chosen(*task)) return false;
    released.push_back(task);
    return true;
  });
  for (const SharedTask& task : released) {
    forget_task(task);
    poller.finished.push_back({message_of(task), {.action = Verdict::Action::release}});
  }
}

void Dispatcher::Loop::forget_task(const SharedTask& task) {
  std::vector<SharedTask>& held = task->poller->held;
  const SharedTask last = held.back();
  last->index = task->index;
  held[task->index] = last;
  held.pop_back();
}

}  // namespace twinbox
