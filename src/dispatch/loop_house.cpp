// The chores of all stores: one store after the other, unless one of them takes long.
#include <algorithm>
#include <span>
#include <system_error>

#include "dispatch/loop.hpp"
#include "twinbox/stop_scope.hpp"

namespace twinbox {
namespace {

using namespace std::chrono_literals;

/// Those that do chores, and one that keeps the time for them.
constexpr int most_house_threads = 8;
/// After a chore was ended for the sake of other stores.
constexpr Duration rest_of_chores = 5s;

}  // namespace

void Dispatcher::Loop::add_house_thread() {
  house_threads_.emplace_back([this, end = house_end_.get_token()] { keep_house(end); });
}

/// Threads of their own: a long prune must not keep its store from being claimed from.
void Dispatcher::Loop::keep_house(const std::stop_token& stop) {
  const OnThread inside{this};
  const StopScope until_the_end{last_calls_.get_token()};
  Lock lock{mutex_};
  while (!stop.stop_requested()) {
    const Clock::time_point now = Clock::now();
    Clock::time_point next = now + 24h;
    if (Desk* desk = next_chores(now, next, lock)) {
      do_chores(desk->shared_from_this(), stop, lock);
      continue;
    }
    const int known = desk_changes_;
    house_.wait_until(lock, stop, next, [&] { return desk_changes_ != known; });
  }
}

Desk* Dispatcher::Loop::next_chores(Clock::time_point now, Clock::time_point& next, Lock& lock) {
  Desk* due = nullptr;
  Desk* longest = nullptr;
  bool one_is_brief = false;
  for (const SharedDesk& desk : desks_) {
    if (desk->chore.active()) {
      one_is_brief = one_is_brief || desk->chore.is_brief(now);
      const Clock::time_point end = desk->chore.patience_ends();
      for (const auto at : {desk->chore.brief_until(), end}) {
        if (at > now) next = std::min(next, at);
      }
      if (end <= now && (longest == nullptr || end < longest->chore.patience_ends()))
        longest = desk.get();
    } else if (desk->next_chores > now) {
      next = std::min(next, desk->next_chores);
    } else if (desk->trust == Trust::failing || desk->visit.hangs(now) ||
               desk->opened() == nullptr) {
      next = std::min(next, now + 1s);  // the pollers find out when it is back
    } else if (due == nullptr || desk->next_chores < due->next_chores) {
      due = desk.get();
    }
  }
  if (due == nullptr || one_is_brief) return nullptr;
  if (chores_under_way_ + 1 < most_house_threads) return due;
  if (longest != nullptr) {
    end_call(longest->chore, lock);
    next = now;
  }
  return nullptr;
}

void Dispatcher::Loop::do_chores(SharedDesk desk, const std::stop_token& stop, Lock& lock) {
  desk->chore.begin(Clock::now());
  ++chores_under_way_;
  try {
    if (chores_under_way_ >= std::ssize(house_threads_)) add_house_thread();
  } catch (const std::system_error&) {  // a chore that hangs holds up the others, then
  }
  std::stop_source end = desk->chore.stop();
  lock.unlock();
  if (!desk->housekeeping) {
    desk->housekeeping = std::make_unique<Housekeeping>(
        desk->queue(), *options_.housekeeping, Housekeeping::Observer{},
        [this, desk = desk.get()](std::span<const Message> dead, std::string_view reason) {
          if (!observer_.dead) return;
          for (const Message& message : dead)
            observer_.dead(desk->store(), message, reason, message.last_error);
        });
  }
  Duration next{};
  {
    const std::stop_callback at_stop{stop, [&end] { end.request_stop(); }};
    const HousekeepingReport report = desk->housekeeping->step(end.get_token());
    next = report.next;
    for (const ChoreReport& chore : report.chores) {
      if (observer_.chore) observer_.chore(desk->store(), chore);
    }
  }
  lock.lock();
  --chores_under_way_;
  const bool cut_short = end.stop_requested();
  desk->chore.end(cut_short);
  desk->next_chores = Clock::now() + (cut_short ? rest_of_chores : next);
  if (!desk->leaving) return;
  lock.unlock();  // this may be its last owner
  desk.reset();
  lock.lock();
}

}  // namespace twinbox
