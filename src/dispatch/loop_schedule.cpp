// Which store is visited next, beside which others, and how much is claimed from it.
#include <algorithm>

#include "dispatch/loop.hpp"

namespace twinbox {
namespace {

using namespace std::chrono_literals;

/// Messages wait in memory only as far as workers can start them within this time.
constexpr Duration prefetch_time = 20ms;
/// Under load, what has finished waits this long for others to be written down with.
constexpr Duration settle_delay = 2ms;
/// What takes no longer is waited for: a commit takes about as long.
constexpr Duration moment = 500us;
/// A claim that takes longer holds back no room for itself: its store may be out of reach.
constexpr Duration reservation_time = 50ms;
/// For stores that failed before.
constexpr int failing_share = 16;

}  // namespace

void Dispatcher::Loop::schedule(Desk& desk, Clock::time_point at) {
  Schedule& schedule = schedule_of(desk.trust);
  if (desk.at != never) schedule.erase({desk.at, &desk});
  desk.at = at;
  if (at != never) schedule.emplace(at, &desk);
}

// ---- beside which others

Clock::time_point Dispatcher::Loop::hanging_since(Clock::time_point now) const {
  Clock::time_point since = never;
  for (const Desk* desk : visited_) {
    if (desk->visit.hangs(now)) since = std::min(since, desk->visit.began());
  }
  return since;
}

bool Dispatcher::Loop::answered_since(const Desk& desk, Clock::time_point since) {
  return desk.trust != Trust::failing && std::max(desk.answered_at, desk.told_at.load()) >= since;
}

/// A visit that hangs keeps its thread and leaves its slot: another thread takes the next store.
/// Stores that have never answered, or not the last time, have slots of their own. While some hang,
/// so have those that are known to work: nothing else can keep them waiting for the others.
Dispatcher::Loop::Admission Dispatcher::Loop::admission(Trust trust, bool answers,
                                                        Clock::time_point now) const {
  int all = 0;
  int brief = 0;
  for (const Desk* desk : visited_) {
    if (desk->answers != answers || (!answers && desk->trust != trust)) continue;
    ++all;
    brief += desk->visit.is_brief(now) ? 1 : 0;
  }
  if (trust != Trust::failing && brief >= options_.pollers) return Admission::later;
  const bool shared_out = trust == Trust::failing && all >= failing_share;
  const int slots = answers ? 2 * options_.pollers : trust == Trust::works ? options_.pollers : 0;
  return !shared_out && visits_ + writes_ < most_hanging + slots ? Admission::now
                                                                 : Admission::when_one_ends;
}

Desk* Dispatcher::Loop::next_visit(Clock::time_point now) const {
  if (rests_now()) return nullptr;
  Desk* first = nullptr;
  const Clock::time_point since = hanging_since(now);
  for (const Trust trust : every_trust) {
    const Schedule& schedule = schedule_of(trust);
    if (schedule.empty() || schedule.begin()->first > now) continue;
    const bool any = admission(trust, false, now) == Admission::now;
    const bool answering =
        since != never && trust != Trust::failing && admission(trust, true, now) == Admission::now;
    if (!any && !answering) continue;
    for (const auto& [at, desk] : schedule) {
      if (at > now || (first != nullptr && first->at <= at)) break;
      if (desk->asking || !(any || answered_since(*desk, since))) continue;
      first = desk;
      break;
    }
  }
  return first;
}

bool Dispatcher::Loop::waits_for_admission(Trust trust, Clock::time_point now) const {
  const Schedule& schedule = schedule_of(trust);
  return !schedule.empty() && schedule.begin()->first <= now &&
         admission(trust, false, now) != Admission::now;
}

Clock::time_point Dispatcher::Loop::next_time(Clock::time_point now) const {
  if (rests_now()) return never;
  Clock::time_point first = next_hanging_call(now);
  bool waits = false;
  for (const Trust trust : every_trust) {
    const Schedule& schedule = schedule_of(trust);
    const auto next = schedule.lower_bound({now, nullptr});
    if (next != schedule.end()) first = std::min(first, next->first);
    waits = waits || waits_for_admission(trust, now);
  }
  if (!waits) return first;
  for (const Desk* desk : visited_) {
    for (const auto at : {desk->visit.brief_until(), desk->visit.patience_ends()}) {
      if (at > now) first = std::min(first, at);
    }
  }
  return first;
}

Desk* Dispatcher::Loop::visit_to_end(Clock::time_point now) const {
  if (rests_now()) return nullptr;
  Desk* longest = nullptr;
  for (const Trust trust : every_trust) {
    const Schedule& schedule = schedule_of(trust);
    if (schedule.empty() || schedule.begin()->first > now) continue;
    if (admission(trust, false, now) != Admission::when_one_ends) continue;
    for (Desk* desk : visited_) {
      if (trust == Trust::failing && desk->trust != Trust::failing) continue;
      const Clock::time_point end = desk->visit.patience_ends();
      if (end <= now && (longest == nullptr || end < longest->visit.patience_ends()))
        longest = desk;
    }
  }
  return longest;
}

/// Without the lock: a driver is told at once, and may take its time.
void Dispatcher::Loop::end_call(StoreCall& call, Lock& lock) {
  std::stop_source stop = call.choose();
  lock.unlock();
  stop.request_stop();
  lock.lock();
}

// ---- when

void Dispatcher::Loop::schedule_settling(Desk& desk, Clock::time_point now) {
  if (desk.busy || (desk.finished.empty() && !desk.leaving)) return;
  const Clock::time_point at = desk.finished.empty() ? now : settle_time(desk, now);
  if (at < desk.at) schedule(desk, at);
}

void Dispatcher::Loop::schedule_next(Desk& desk, Clock::time_point now) {
  Clock::time_point at = never;
  if (takes_more(desk)) {
    if (!desk.has_place()) {
      at = desk.next_try();
    } else if (desk.next_look() > now && !desk.called) {
      at = desk.next_look();
    } else if (worth_a_claim()) {
      at = options_.order == PollOrder::drain_first ? Clock::time_point::min() : now;
    } else {
      // A claim under way that does not return loses its room.
      if (!reservations_.empty()) at = now + reservation_time;
      if (!desk.starving && options_.order == PollOrder::drain_first) starving_.push_front(&desk);
      if (!desk.starving && options_.order == PollOrder::round_robin) starving_.push_back(&desk);
      desk.starving = true;
      if (desk.full_since == never && calls_ >= options_.workers) desk.full_since = now;
      if (desk.full_since != never && !desk.told_full)
        at = std::min(at, desk.full_since + options_.lease / 3);
    }
  }
  at = std::min(at, desk.next_try());
  if (!draining_ && !desk.leaving) at = std::min(at, std::max(now, desk.next_presence()));
  if (!desk.held.empty()) at = std::min(at, desk.next_renewal);
  if (!desk.finished.empty()) at = std::min(at, settle_time(desk, now));
  schedule(desk, at);
}

Clock::time_point Dispatcher::Loop::settle_time(const Desk& desk, Clock::time_point now) const {
  if (desk.held.empty()) return now;
  // One commit for all of them.
  if (in_a_moment(desk.held.size())) return now + settle_delay;
  const bool light = waiting_.empty();
  const bool many = static_cast<std::int64_t>(desk.finished.size()) * 2 >= options_.batch;
  return light || many ? now : now + settle_delay;
}

bool Dispatcher::Loop::in_a_moment(std::size_t count) const {
  const Duration all = usual_time_ * static_cast<std::int64_t>(count) / options_.workers;
  return usual_time_ != Duration{} && all < moment;
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
  for (const auto& [desk, reservation] : reservations_) {
    if (now - reservation.at < reservation_time) taken += reservation.count;
  }
  return std::min(options_.batch, capacity() - taken);
}

bool Dispatcher::Loop::worth_a_claim() const {
  const std::int64_t free = room();
  if (free <= 0) return false;
  // While the workers are busy anyway, a claim waits until it brings more.
  const std::int64_t enough = in_a_moment(waiting_.size()) ? options_.batch : capacity() / 2;
  return waiting_.empty() || free >= std::min(options_.batch, enough);
}

std::int64_t Dispatcher::Loop::reserve(const Desk& desk, Clock::time_point now) {
  if (!worth_a_claim()) return 0;
  // To see whether it answers. It probably does not, and holds back no room from those that do.
  if (desk.trust == Trust::failing || (!desk.answers && hanging_since(now) != never)) return 1;
  const std::int64_t free = room();
  reservations_[&desk] = {now, free};
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
  Desk& desk = *starving_.front();
  starving_.pop_front();
  desk.starving = false;
  const Clock::time_point now = Clock::now();
  if (!desk.busy && desk.at > now) schedule(desk, now);
}

}  // namespace twinbox
