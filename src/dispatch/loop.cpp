#include "dispatch/loop.hpp"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <system_error>

#include "queue/box.hpp"
#include "twinbox/stop_scope.hpp"

namespace twinbox {
namespace {

using namespace std::chrono_literals;

Duration lease_third(const DispatcherOptions& options) { return options.lease / 3; }

bool was_stopped(const std::exception& error, const std::stop_token& stop) {
  const auto* trouble = dynamic_cast<const DatabaseError*>(&error);
  return trouble != nullptr && trouble->kind() == DatabaseError::Kind::cancelled &&
         stop.stop_requested();
}

}  // namespace

// ---- who does what

/// Whoever has claimed a message goes on with its handler, unless another visit is due: to wake up
/// somebody else for it takes longer than many a handler.
void Dispatcher::Loop::serve() {
  const OnThread inside{this};
  Lock lock{mutex_};
  while (!closing_) {
    const Clock::time_point now = Clock::now();
    if (calls_ >= options_.workers) feed_starving();  // one of them may hang by now
    if (Desk* desk = next_visit(now)) {
      visit_next(*desk, lock);
    } else if (may_call()) {
      call_next(lock);
    } else if (Desk* hanging = visit_to_end(now)) {
      end_call(hanging->visit, lock);
    } else {
      rest(now, lock);
    }
  }
}

void Dispatcher::Loop::rest(Clock::time_point now, Lock& lock) {
  const Clock::time_point at = next_time(now);
  ++resting_;
  if (at < kept_) {
    kept_ = at;
    work_.wait_until(lock, at);
    if (kept_ == at) kept_ = never;
  } else {
    work_.wait(lock);
  }
  --resting_;
  waking_ = false;
}

/// Each one that comes calls the next while there is more to do. Where handlers return before
/// another thread is awake, all at once would only be in each other's way.
Dispatcher::Loop::Wanted Dispatcher::Loop::others_wanted() {
  if (resting_ == 0) add_thread_if_all_are_occupied();
  if (resting_ == 0 || waking_) return Wanted::nobody;
  const Clock::time_point now = Clock::now();
  const bool calls = may_call();
  if (!calls && next_visit(now) == nullptr && next_time(now) >= kept_) return Wanted::nobody;
  waking_ = true;
  const bool one = !calls || waiting_.size() == 1 || in_a_moment(waiting_.size());
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
  } catch (const std::system_error&) {  // it goes on with those that there are
  }
}

void Dispatcher::Loop::wake(Wanted others) {
  if (others == Wanted::one) work_.notify_one();
  if (others == Wanted::all) work_.notify_all();
}

// ---- visits

void Dispatcher::Loop::call(Desk& desk, bool from_afar) {
  if (from_afar) desk.called_from_afar = true;
  const Clock::time_point now = Clock::now();
  const Clock::time_point before = desk.told_at.exchange(now);
  const bool called = desk.called.exchange(true);
  // One that waits behind stores that hang need not any more.
  if (called && now - before < 10ms) return;
  Lock lock{mutex_};
  if (!called) desk.called_at = now;
  // One that leaves may have been taken out already, and must not come back.
  if (!active_ || desk.leaving || desk.busy) return;
  if (desk.at > now) {
    schedule(desk, now);
  } else if (hanging_since(now) == never) {
    return;
  }
  const Wanted others = others_wanted();
  lock.unlock();
  wake(others);
}

void Dispatcher::Loop::visit_next(Desk& desk, Lock& lock) {
  SharedDesk kept = desk.shared_from_this();  // its last handler may return meanwhile
  schedule(desk, never);
  ++visits_;
  visited_.push_back(&desk);
  const Clock::time_point begin = Clock::now();
  desk.answers = answered_since(desk, hanging_since(begin));
  desk.visit.begin(begin);
  if (over_) {
    keep_leases(desk, lock);
  } else {
    visit(desk, lock);
  }
  std::erase(visited_, &desk);
  if (desk.leaving) {
    if (desk.has_nothing()) take_out(desk);
    lock.unlock();  // perhaps nobody else has it any more
    kept.reset();
    lock.lock();
  }
  --visits_;
  if (stopping_) calm_.notify_all();
}

bool Dispatcher::Loop::takes_more(const Desk& desk) const {
  return !draining_ && !paused_ && !desk.paused && !desk.leaving;
}

void Dispatcher::Loop::visit(Desk& desk, Lock& lock) {
  const Clock::time_point begin = Clock::now();
  desk.busy = true;
  if (desk.called.exchange(false))
    desk.look_now(desk.called_at, desk.called_from_afar.exchange(false));
  std::vector<SharedTask> renewed;
  if (!desk.held.empty() && begin >= desk.next_renewal) {
    give_up_late(desk, begin);
    renewed = leased(desk);
    desk.next_renewal = begin + lease_third(options_);
  }
  std::vector<Settlement> finished = std::exchange(desk.finished, {});
  ++desk.unlisted;
  // A claim also shows whether a database that takes no settlement takes anything.
  const bool looks = begin >= desk.next_look() || desk.stuck_since != never;
  const std::int64_t limit = takes_more(desk) && looks ? reserve(desk, begin) : std::int64_t{0};

  const bool full_for_long = desk.full_since != never && !desk.told_full &&
                             begin - desk.full_since >= lease_third(options_);
  const bool asks_if_full = full_for_long && calls_ >= options_.workers && !draining_;

  // After the stop nothing new is begun, and what is left has its time.
  const bool begins = !draining_;
  const auto in_hand = begins ? begin_question(desk, finished) : std::nullopt;
  const std::stop_token last = last_calls_.get_token();
  const std::stop_token stop = begins ? claims_.get_token() : last;
  std::stop_source end = desk.visit.stop();
  const bool is_last = desk.leaving && desk.held.empty();
  const bool asks = limit > 0 || !finished.empty() || !renewed.empty() || !takes_more(desk);

  const Wanted others = others_wanted();
  lock.unlock();
  wake(others);
  std::vector<Message> messages;
  std::vector<SharedTask> lost;
  std::optional<Duration> rest;
  bool active = true;
  bool stopped = false;
  bool renewal_owed = !renewed.empty();
  bool history_changed = false;
  bool told_full = false;
  try {
    const auto end_visit = [&end] { end.request_stop(); };
    const std::stop_callback at_the_end{last, end_visit};
    const StopScope until_the_end{end.get_token()};
    // First: what follows may be refused for ever.
    lost = desk.renew(renewed);
    renewal_owed = false;
    const std::stop_callback at_stop{stop, end_visit};
    if (in_hand) desk.release_lost(*in_hand);
    if (begins) desk.listen([this, &desk](bool from_afar) { call(desk, from_afar); });
    active = desk.keep_place();
    messages = desk.settle_and_claim(finished, active ? limit : 0);
    if (begins && !stop.stop_requested()) desk.tell_presence(!messages.empty());
    if (is_last) desk.leave();
    if (asks_if_full) told_full = desk.tell_if_full(lease_third(options_));
    if (asks) desk.works();
  } catch (const HistoryChanged&) {
    history_changed = true;
  } catch (const std::exception& error) {
    stopped = was_stopped(error, stop);
    if (!stopped) rest = desk.rest_after(error, was_stopped(error, end.get_token()));
  } catch (...) {
    rest = desk.rest_after(std::runtime_error("something that is no std::exception was thrown"));
  }
  // To tell of the worker may have hung, and keeps its errors to itself.
  if (!rest && !stopped && end.stop_requested()) {
    stopped = stop.stop_requested();
    if (!stopped) rest = desk.rest_after(std::runtime_error("ended"), true);
  }
  // A place also runs out while nobody can be asked.
  if (rest && !desk.has_place()) active = false;
  lock.lock();

  stop_lost(desk, lost, lock);
  if (history_changed) succeed(desk);
  if (!active) leave_place(desk, lock);
  reservations_.erase(&desk);
  desk.finished.insert(desk.finished.begin(), std::make_move_iterator(finished.begin()),
                       std::make_move_iterator(finished.end()));
  if (told_full) {
    desk.told_full = true;
  } else if (full_for_long) {
    desk.full_since = Clock::now();
  }
  if (limit > 0 && active && !rest && !stopped && !waited_long(messages)) {
    desk.full_since = never;
    desk.told_full = false;
  }
  hand_out(desk, std::move(messages), begin);
  --desk.unlisted;
  if (in_hand) end_question(desk);
  if (rest) give_up_stuck(desk, begin, lock);
  desk.busy = false;
  const Clock::time_point now = Clock::now();
  if (rest || (stopped && desk.visit.hangs(now))) {
    desk.trust = Trust::failing;
  } else if (!stopped && (asks || desk.trust == Trust::untried)) {
    desk.trust = Trust::works;
    desk.answered_at = now;
  }
  desk.visit.end(rest && end.stop_requested());
  // Leases are not let go just because a call has failed.
  if (renewal_owed) desk.next_renewal = begin;
  if (rest) {
    const Clock::time_point at = now + *rest;
    schedule(desk, desk.held.empty() ? at : std::min(at, std::max(now + 250ms, desk.next_renewal)));
  } else {
    desk.stuck_since = never;
    schedule_next(desk, now);
  }
  feed_starving();
  if (draining_) calm_.notify_all();
}

std::optional<std::vector<Lease>> Dispatcher::Loop::begin_question(
    Desk& desk, const std::vector<Settlement>& own) {
  if (desk.unlisted > 1 || desk.asking || desk.leaving || !desk.in_doubt()) return std::nullopt;
  std::vector<Lease> in_hand;
  // Of all of them: a store that was changed is here twice for a while, with the same box.
  for (const SharedDesk& one : desks_) {
    if (one->leaving && one->unlisted > 0) return std::nullopt;
    for (const SharedTask& task : one->held) in_hand.push_back(task->message.lease());
    for (const Settlement& done : one->finished) in_hand.push_back(done.message->lease());
  }
  for (const Settlement& done : own) in_hand.push_back(done.message->lease());
  desk.asking = true;
  return in_hand;
}

void Dispatcher::Loop::end_question(Desk& desk) {
  desk.asking = false;
  calm_.notify_all();
  wake(others_wanted());
}

void Dispatcher::Loop::keep_leases(Desk& desk, Lock& lock) {
  const std::vector<SharedTask> renewed = leased(desk);
  const std::stop_token last = last_calls_.get_token();
  std::stop_source end = desk.visit.stop();
  desk.busy = true;
  const Wanted others = others_wanted();
  lock.unlock();
  wake(others);
  std::vector<SharedTask> lost;
  Duration rest = lease_third(options_);
  bool failed = false;
  try {
    const std::stop_callback at_the_end{last, [&end] { end.request_stop(); }};
    const StopScope until_the_end{end.get_token()};
    lost = desk.renew(renewed);
    desk.works();
  } catch (const std::exception& error) {
    failed = !was_stopped(error, last);
    if (failed) rest = std::min(rest, desk.rest_after(error, was_stopped(error, end.get_token())));
  }
  lock.lock();
  stop_lost(desk, lost, lock);
  desk.busy = false;
  if (failed) {
    desk.trust = Trust::failing;
  } else if (!renewed.empty() && !last.stop_requested()) {
    desk.trust = Trust::works;
  }
  desk.visit.end(failed && end.stop_requested());
  const Clock::time_point now = Clock::now();
  desk.next_renewal = now + rest;
  if (active_) {  // run() has begun again
    schedule(desk, now);
  } else if (!desk.held.empty()) {
    schedule(desk, desk.next_renewal);
  }
}

std::vector<SharedTask> Dispatcher::Loop::leased(const Desk& desk) {
  std::vector<SharedTask> tasks;
  std::ranges::copy_if(desk.held, std::back_inserter(tasks),
                       [](const SharedTask& task) { return !task->lost && !task->marked(); });
  return tasks;
}

bool Dispatcher::Loop::waited_long(const std::vector<Message>& messages) const {
  return std::ranges::any_of(messages, [&](const Message& message) {
    const Instant claimed_at = message.lease_until - options_.lease;
    return claimed_at - message.visible_at >= lease_third(options_);
  });
}

/// A visit to a server takes its time: meanwhile another connection can write down.
bool Dispatcher::Loop::is_crowded(const Desk& desk) const {
  if (!desk.busy || desk.writing || desk.trust != Trust::works || stopping_ ||
      std::ssize(desk.finished) < options_.batch || !desk.writes_beside())
    return false;
  // One that hangs does not stop the others.
  return writes_ == 0 ||
         (Clock::now() - last_write_ >= visit_limits.brief && visits_ + writes_ < most_hanging);
}

void Dispatcher::Loop::write_beside(Desk& desk, Lock& lock) {
  std::vector<Settlement> finished = std::exchange(desk.finished, {});
  desk.writing = true;
  ++desk.unlisted;
  ++writes_;
  last_write_ = Clock::now();
  const std::stop_token last = last_calls_.get_token();
  const Wanted others = others_wanted();
  lock.unlock();
  wake(others);
  try {
    const StopScope until_the_end{last};
    desk.write_down(finished);
  } catch (...) {
    // The next visit tries it again, and tells of what it finds.
  }
  lock.lock();
  desk.finished.insert(desk.finished.begin(), std::make_move_iterator(finished.begin()),
                       std::make_move_iterator(finished.end()));
  desk.writing = false;
  --desk.unlisted;
  --writes_;
  schedule_settling(desk, Clock::now());
  if (draining_) calm_.notify_all();
}

void Dispatcher::Loop::hand_out(Desk& desk, std::vector<Message> messages,
                                Clock::time_point claimed) {
  if (messages.empty()) return;
  if (desk.held.empty()) desk.next_renewal = claimed + lease_third(options_);
  for (Message& message : messages) {
    const bool paused = !paused_topics_.empty() && paused_topics_.contains(message.topic.view());
    auto task = std::make_shared<Task>(desk.shared_from_this(), std::move(message), claimed);
    if (paused) {
      desk.finished.push_back({message_of(task), put_off(task->message, options_.lease)});
    } else if (!takes_more(desk)) {
      desk.finished.push_back({message_of(task), {.act = Verdict::Act::release}});
    } else {
      task->place = desk.held.size();
      desk.held.push_back(task);
      waiting_.push_back(std::move(task));
    }
  }
}

/// What runs without a lease is told to stop. What has not started never will: it goes back, which
/// changes nothing where somebody else has it, and costs no expiry where nobody has taken it yet.
void Dispatcher::Loop::stop_lost(Desk& desk, std::vector<SharedTask>& tasks, Lock& lock) {
  std::erase_if(tasks, [](const SharedTask& task) { return task->marked(); });
  if (tasks.empty()) return;
  std::vector<std::shared_ptr<CallWatch>> calls;
  for (const SharedTask& task : tasks) {
    task->lost = true;
    if (task->watch) calls.push_back(task->watch);
  }
  give_back(desk, [](const Task& task) { return task.lost; });
  lock.unlock();
  for (const auto& call : calls) call->stop.request_stop();
  lock.lock();
}

/// Others may work on the box now: what has not started goes back, what runs is told to stop.
void Dispatcher::Loop::leave_place(Desk& desk, Lock& lock) {
  give_back(desk, everything);
  const std::vector<SharedTask> running = desk.held;
  lock.unlock();
  for (const SharedTask& task : running) {
    task->watch->shutting_down = true;
    task->watch->stop.request_stop();
  }
  lock.lock();
}

/// A store that was removed may never come back: it is kept no longer than its leases last.
void Dispatcher::Loop::give_up_stuck(Desk& desk, Clock::time_point begin, Lock& lock) {
  if (desk.finished.empty()) return;
  desk.stuck_since = std::min(desk.stuck_since, begin);
  if (!desk.leaving || Clock::now() - desk.stuck_since < options_.lease) return;
  std::vector<Settlement> stuck = std::exchange(desk.finished, {});
  lock.unlock();  // whoever is told may call the dispatcher
  desk.give_up(stuck, "its lease has ended, and the store was removed");
  lock.lock();
}

/// What has waited for a worker through a renewal goes back, for others to take.
void Dispatcher::Loop::give_up_late(Desk& desk, Clock::time_point now) {
  give_back(desk, [&](const Task& task) { return now - task.claimed_at >= lease_third(options_); });
}

bool Dispatcher::Loop::everything(const Task&) { return true; }

void Dispatcher::Loop::give_back(Desk& desk, const std::function<bool(const Task&)>& chosen) {
  std::vector<SharedTask> given_back;
  std::erase_if(waiting_, [&](const SharedTask& task) {
    if (task->desk.get() != &desk || !chosen(*task)) return false;
    given_back.push_back(task);
    return true;
  });
  for (const SharedTask& task : given_back) {
    let_go(task);
    desk.finished.push_back({message_of(task), {.act = Verdict::Act::release}});
  }
}

void Dispatcher::Loop::let_go(const SharedTask& task) {
  std::vector<SharedTask>& held = task->desk->held;
  const SharedTask last = held.back();
  last->place = task->place;
  held[task->place] = last;
  held.pop_back();
}

}  // namespace twinbox
