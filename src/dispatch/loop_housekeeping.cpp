// The chores of all stores: one store after the other, unless one of them takes long.
#include <algorithm>
#include <span>
#include <system_error>

#include "dispatch/loop.hpp"
#include "twinbox/database.hpp"

namespace twinbox {
namespace {

using namespace std::chrono_literals;

/// Those that do chores, and one that keeps their schedule.
constexpr int most_chore_threads = 8;
/// After a chore was interrupted for other stores.
constexpr Duration rest_of_chores = 5s;

}  // namespace

void Dispatcher::Loop::add_chore_thread() {
  chore_threads_.emplace_back([this, end = chores_end_.get_token()] { run_chores(end); });
}

/// Threads of their own: a long prune must not keep its store from being claimed from.
void Dispatcher::Loop::run_chores(const std::stop_token& stop) {
  const OnThread inside{this};
  const StopScope until_the_end{last_calls_.get_token()};
  Lock lock{mutex_};
  while (!stop.stop_requested()) {
    const Clock::time_point now = Clock::now();
    Clock::time_point next = now + 24h;
    if (BoxPoller* poller = next_chores(now, next, lock)) {
      do_chores(poller->shared_from_this(), stop, lock);
      continue;
    }
    const int known = box_changes_;
    chores_changed_.wait_until(lock, stop, next, [&] { return box_changes_ != known; });
  }
}

BoxPoller* Dispatcher::Loop::next_chores(Clock::time_point now, Clock::time_point& next,
                                         Lock& lock) {
  BoxPoller* due = nullptr;
  BoxPoller* longest = nullptr;
  bool one_is_brief = false;
  for (const SharedPoller& poller : box_pollers_) {
    if (poller->chore.active()) {
      one_is_brief = one_is_brief || poller->chore.is_brief(now);
      const Clock::time_point end = poller->chore.interruptible_at();
      for (const auto at : {poller->chore.brief_until(), end}) {
        if (at > now) next = std::min(next, at);
      }
      if (end <= now && (longest == nullptr || end < longest->chore.interruptible_at()))
        longest = poller.get();
    } else if (poller->next_chores > now) {
      next = std::min(next, poller->next_chores);
    } else if (poller->store_health == StoreHealth::failing || poller->visit.hangs(now) ||
               poller->opened() == nullptr) {
      next = std::min(next, now + 1s);  // the pollers detect its recovery
    } else if (due == nullptr || poller->next_chores < due->next_chores) {
      due = poller.get();
    }
  }
  if (due == nullptr || one_is_brief) return nullptr;
  if (chores_under_way_ + 1 < most_chore_threads) return due;
  if (longest != nullptr) {
    end_call(longest->chore, lock);
    next = now;
  }
  return nullptr;
}

void Dispatcher::Loop::do_chores(SharedPoller poller, const std::stop_token& stop, Lock& lock) {
  poller->chore.begin(Clock::now());
  ++chores_under_way_;
  try {
    if (chores_under_way_ >= std::ssize(chore_threads_)) add_chore_thread();
  } catch (const std::system_error&) {  // without another thread, a hanging chore delays the others
  }
  std::stop_source end = poller->chore.stop();
  lock.unlock();
  if (!poller->housekeeping) {
    poller->housekeeping = std::make_unique<Housekeeping>(
        poller->queue(), *options_.housekeeping, Housekeeping::Observer{},
        [this, poller = poller.get()](std::span<const Message> dead, std::string_view reason) {
          if (!observer_.dead) return;
          for (const Message& message : dead)
            observer_.dead(poller->store(), message, reason, message.last_error);
        });
  }
  Duration next{};
  {
    const std::stop_callback at_stop{stop, [&end] { end.request_stop(); }};
    const HousekeepingReport report = poller->housekeeping->step(end.get_token());
    next = report.next;
    for (const ChoreReport& chore : report.chores) {
      if (observer_.chore) observer_.chore(poller->store(), chore);
    }
  }
  lock.lock();
  --chores_under_way_;
  const bool cut_short = end.stop_requested();
  poller->chore.end(cut_short);
  poller->next_chores = Clock::now() + (cut_short ? rest_of_chores : next);
  if (!poller->leaving) return;
  lock.unlock();  // this may be its last owner
  poller.reset();
  lock.lock();
}

}  // namespace twinbox
