// Schedules the visits: which store is next, how many run in parallel, and how much to claim.
#include <algorithm>

#include "dispatch/loop.hpp"

namespace twinbox {
namespace {

using namespace std::chrono_literals;

/// Messages wait in memory only as far as workers can start them within this time.
constexpr Duration prefetch_time = 20ms;
/// Under load, finished deliveries wait this long to be settled together with others.
constexpr Duration settle_delay = 2ms;
/// Shorter calls are waited for: a commit takes about as long.
constexpr Duration short_call = 500us;
/// A claim slower than this no longer reserves capacity; its store may be unreachable.
constexpr Duration reservation_time = 50ms;
/// For stores that failed before.
constexpr int failing_share = 16;

}  // namespace

void Dispatcher::Loop::schedule(BoxPoller& poller, Clock::time_point at) {
  Schedule& schedule = schedule_of(poller.store_health);
  if (poller.at != never) schedule.erase({poller.at, &poller});
  poller.at = at;
  if (at != never) schedule.emplace(at, &poller);
}

// ---- admission

Clock::time_point Dispatcher::Loop::hanging_since(Clock::time_point now) const {
  Clock::time_point since = never;
  for (const BoxPoller* poller : visited_) {
    if (poller->visit.hangs(now)) since = std::min(since, poller->visit.began());
  }
  return since;
}

bool Dispatcher::Loop::answered_since(const BoxPoller& poller, Clock::time_point since) {
  return poller.store_health != StoreHealth::failing &&
         std::max(poller.answered_at, poller.committed_at.load()) >= since;
}

/// A hanging visit keeps its thread and frees its slot: another thread takes the next store. Stores
/// that have never answered, or not the last time, have their own slots. While some hang, so do the
/// stores known to work: nothing else can delay them.
Dispatcher::Loop::Admission Dispatcher::Loop::admission(StoreHealth store_health, bool answers,
                                                        Clock::time_point now) const {
  int all = 0;
  int brief = 0;
  for (const BoxPoller* poller : visited_) {
    if (poller->answers != answers || (!answers && poller->store_health != store_health)) continue;
    ++all;
    brief += poller->visit.is_brief(now) ? 1 : 0;
  }
  if (store_health != StoreHealth::failing && brief >= options_.pollers) return Admission::later;
  const bool shared_out = store_health == StoreHealth::failing && all >= failing_share;
  const int slots = answers                              ? 2 * options_.pollers
                    : store_health == StoreHealth::works ? options_.pollers
                                                         : 0;
  return !shared_out && visits_ + writes_ < most_hanging + slots ? Admission::now
                                                                 : Admission::when_one_ends;
}

BoxPoller* Dispatcher::Loop::next_visit(Clock::time_point now) const {
  if (is_stopping_run()) return nullptr;
  BoxPoller* first = nullptr;
  const Clock::time_point since = hanging_since(now);
  for (const StoreHealth store_health : every_store_health) {
    const Schedule& schedule = schedule_of(store_health);
    if (schedule.empty() || schedule.begin()->first > now) continue;
    const bool any = admission(store_health, false, now) == Admission::now;
    const bool answering = since != never && store_health != StoreHealth::failing &&
                           admission(store_health, true, now) == Admission::now;
    if (!any && !answering) continue;
    for (const auto& [at, poller] : schedule) {
      if (at > now || (first != nullptr && first->at <= at)) break;
      if (poller->asking || !(any || answered_since(*poller, since))) continue;
      first = poller;
      break;
    }
  }
  return first;
}

bool Dispatcher::Loop::waits_for_admission(StoreHealth store_health, Clock::time_point now) const {
  const Schedule& schedule = schedule_of(store_health);
  return !schedule.empty() && schedule.begin()->first <= now &&
         admission(store_health, false, now) != Admission::now;
}

Clock::time_point Dispatcher::Loop::next_time(Clock::time_point now) const {
  if (is_stopping_run()) return never;
  Clock::time_point first = next_hanging_call(now);
  bool waits = false;
  for (const StoreHealth store_health : every_store_health) {
    const Schedule& schedule = schedule_of(store_health);
    const auto next = schedule.lower_bound({now, nullptr});
    if (next != schedule.end()) first = std::min(first, next->first);
    waits = waits || waits_for_admission(store_health, now);
  }
  if (!waits) return first;
  for (const BoxPoller* poller : visited_) {
    for (const auto at : {poller->visit.brief_until(), poller->visit.interruptible_at()}) {
      if (at > now) first = std::min(first, at);
    }
  }
  return first;
}

BoxPoller* Dispatcher::Loop::visit_to_end(Clock::time_point now) const {
  if (is_stopping_run()) return nullptr;
  BoxPoller* longest = nullptr;
  for (const StoreHealth store_health : every_store_health) {
    const Schedule& schedule = schedule_of(store_health);
    if (schedule.empty() || schedule.begin()->first > now) continue;
    if (admission(store_health, false, now) != Admission::when_one_ends) continue;
    for (BoxPoller* poller : visited_) {
      if (store_health == StoreHealth::failing && poller->store_health != StoreHealth::failing)
        continue;
      const Clock::time_point end = poller->visit.interruptible_at();
      if (end <= now && (longest == nullptr || end < longest->visit.interruptible_at()))
        longest = poller;
    }
  }
  return longest;
}

/// Without the lock: a driver is notified immediately, and may take its time.
void Dispatcher::Loop::end_call(StoreCall& call, Lock& lock) {
  std::stop_source stop = call.choose();
  lock.unlock();
  stop.request_stop();
  lock.lock();
}

// ---- when

void Dispatcher::Loop::schedule_settling(BoxPoller& poller, Clock::time_point now) {
  if (poller.busy || (poller.finished.empty() && !poller.leaving)) return;
  const Clock::time_point at = poller.finished.empty() ? now : settle_time(poller, now);
  if (at < poller.at) schedule(poller, at);
}

void Dispatcher::Loop::schedule_next(BoxPoller& poller, Clock::time_point now) {
  Clock::time_point at = never;
  if (takes_more(poller)) {
    if (!poller.has_slot()) {
      at = poller.next_try();
    } else if (poller.next_look() > now && !poller.called) {
      at = poller.next_look();
    } else if (worth_a_claim()) {
      at = options_.order == PollOrder::drain_first ? Clock::time_point::min() : now;
    } else {
      // A claim that does not return loses its reservation.
      if (!reservations_.empty()) at = now + reservation_time;
      if (!poller.starving && options_.order == PollOrder::drain_first)
        starving_.push_front(&poller);
      if (!poller.starving && options_.order == PollOrder::round_robin)
        starving_.push_back(&poller);
      poller.starving = true;
      if (poller.full_since == never && calls_ >= options_.workers) poller.full_since = now;
      if (poller.full_since != never && !poller.logged_full)
        at = std::min(at, poller.full_since + options_.lease / 3);
    }
  }
  at = std::min(at, poller.next_try());
  if (!draining_ && !poller.leaving) at = std::min(at, std::max(now, poller.next_heartbeat()));
  if (!poller.held.empty()) at = std::min(at, poller.next_renewal);
  if (!poller.finished.empty()) at = std::min(at, settle_time(poller, now));
  schedule(poller, at);
}

Clock::time_point Dispatcher::Loop::settle_time(const BoxPoller& poller,
                                                Clock::time_point now) const {
  if (poller.held.empty()) return now;
  // One commit for all of them.
  if (is_short(poller.held.size())) return now + settle_delay;
  const bool light = waiting_.empty();
  const bool many = static_cast<std::int64_t>(poller.finished.size()) * 2 >= options_.batch;
  return light || many ? now : now + settle_delay;
}

bool Dispatcher::Loop::is_short(std::size_t count) const {
  const Duration all = usual_time_ * static_cast<std::int64_t>(count) / options_.workers;
  return usual_time_ != Duration{} && all < short_call;
}

// ---- how much

std::int64_t Dispatcher::Loop::capacity() const {
  std::int64_t prefetch = 0;
  if (handler_time_ > Duration::zero()) {
    prefetch = std::min(options_.batch, options_.workers * prefetch_time / handler_time_);
  }
  return options_.workers * static_cast<std::int64_t>(largest_batch_) + prefetch;
}

std::int64_t Dispatcher::Loop::room() const {
  auto taken = static_cast<std::int64_t>(waiting_.size() + in_calls_);
  const bool all_workers_are_busy = calls_ >= options_.workers;
  if (reservations_.empty() && !all_workers_are_busy)
    return std::min(options_.batch, capacity() - taken);
  const Clock::time_point now = Clock::now();
  if (all_workers_are_busy) taken -= hanging_calls(now);
  for (const auto& [poller, reservation] : reservations_) {
    if (now - reservation.at < reservation_time) taken += reservation.count;
  }
  return std::min(options_.batch, capacity() - taken);
}

bool Dispatcher::Loop::worth_a_claim() const {
  const std::int64_t free = room();
  if (free <= 0) return false;
  // While the workers are busy anyway, a claim waits until it brings more.
  const std::int64_t enough = is_short(waiting_.size()) ? options_.batch : capacity() / 2;
  return waiting_.empty() || free >= std::min(options_.batch, enough);
}

std::int64_t Dispatcher::Loop::reserve(const BoxPoller& poller, Clock::time_point now) {
  if (!worth_a_claim()) return 0;
  // A probe to see whether it answers. It probably does not, and must not reserve capacity that
  // working stores could use.
  if (poller.store_health == StoreHealth::failing ||
      (!poller.answers && hanging_since(now) != never))
    return 1;
  const std::int64_t free = room();
  reservations_[&poller] = {now, free};
  return free;
}

/// Each has one message: a batch handler needs no database.
int Dispatcher::Loop::hanging_calls(Clock::time_point now) const {
  const auto hangs = [&](const SharedTask& task) {
    return task->watch->waits_for_database_since.load() <= now - visit_limits.brief;
  };
  return std::min(static_cast<int>(std::ranges::count_if(running_, hangs)), most_hanging);
}

Clock::time_point Dispatcher::Loop::next_hanging_call(Clock::time_point now) const {
  Clock::time_point next = never;
  if (calls_ < options_.workers || (waiting_.empty() && starving_.empty())) return next;
  for (const SharedTask& task : running_) {
    const Clock::time_point since = task->watch->waits_for_database_since;
    if (since != never && since > now - visit_limits.brief)
      next = std::min(next, since + visit_limits.brief);
  }
  return next;
}

void Dispatcher::Loop::feed_starving() {
  if (starving_.empty() || !worth_a_claim()) return;
  BoxPoller& poller = *starving_.front();
  starving_.pop_front();
  poller.starving = false;
  const Clock::time_point now = Clock::now();
  if (!poller.busy && poller.at > now) schedule(poller, now);
}

}  // namespace twinbox
