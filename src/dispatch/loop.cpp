#include "dispatch/loop.hpp"

#include <algorithm>
#include <stdexcept>

#include "dispatch/call_batch.hpp"
#include "queue/box.hpp"

namespace twinbox {
namespace {

using namespace std::chrono_literals;

/// Messages wait in memory only as far as workers can start them within this time.
constexpr Duration prefetch_time = 20ms;
/// Under load, what has finished waits this long for others to be written down with.
constexpr Duration settle_delay = 2ms;
/// A claim that takes longer holds back no room for itself: its store may be out of reach.
constexpr Duration reservation_time = 50ms;
constexpr Duration topic_pause = 15s;
constexpr Clock::time_point never = Clock::time_point::max();

Duration lease_third(const DispatcherOptions& options) { return options.lease / 3; }

std::shared_ptr<const Message> message_of(const SharedTask& task) { return {task, &task->message}; }

Verdict put_off(const Message& message, Duration lease) {
  return {.act = Verdict::Act::postpone, .until = message.lease_until - lease + topic_pause};
}

}  // namespace

Dispatcher::Loop::Loop(Handlers handlers, DispatcherOptions options, DispatchObserver observer,
                       const Environment& environment)
    : handlers_(std::move(handlers)),
      options_(options),
      observer_(std::move(observer)),
      environment_(environment),
      owner_(OwnerToken::make(environment)),
      largest_batch_(handlers_.largest_batch()) {}

Dispatcher::Loop::~Loop() {
  std::vector<SharedTask> running;
  {
    const std::scoped_lock lock{mutex_};
    running = running_;
    closing_ = true;
  }
  for (const SharedTask& task : running) task->watch->stop.request_stop();
  work_.notify_all();
}

void Dispatcher::Loop::add(QueueSource source) {
  const auto desk = std::make_shared<Desk>(
      std::move(source),
      DeskParts{handlers_, options_, observer_, owner_, environment_, desk_count_});
  const std::scoped_lock lock{mutex_};
  desks_.push_back(desk);
  ++desk_count_;
  desks_changed_ = true;
  house_.notify_all();
  if (active_) schedule(*desk, Clock::now());
}

void Dispatcher::Loop::remove(const void* key) {
  SharedDesk gone;  // destroyed after the lock
  const std::scoped_lock lock{mutex_};
  const auto found = std::find_if(desks_.begin(), desks_.end(),
                                  [&](const SharedDesk& desk) { return desk->key() == key; });
  if (found == desks_.end()) return;
  Desk& desk = **found;
  desk.leaving = true;
  if (active_) {
    if (!desk.busy) schedule(desk, Clock::now());
  } else {
    gone = take_out(desk);
  }
}

/// Nothing of it is under way any more.
Dispatcher::Loop::SharedDesk Dispatcher::Loop::take_out(Desk& desk) {
  const auto found = std::find_if(desks_.begin(), desks_.end(),
                                  [&](const SharedDesk& one) { return one.get() == &desk; });
  SharedDesk gone = std::move(*found);
  desks_.erase(found);
  --desk_count_;
  desks_changed_ = true;
  house_.notify_all();
  std::erase(starving_, &desk);
  schedule(desk, never);
  return gone;
}

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
    if (paused_ || desk->paused) return 0;
  }
  const std::size_t count = step(*desk);
  if (count > 0 && options_.order == PollOrder::drain_first) {
    const std::scoped_lock lock{mutex_};
    next_step_ = place;
  }
  return count;
}

std::size_t Dispatcher::Loop::step(Desk& desk) {
  const Clock::time_point claimed = Clock::now();
  std::vector<Message> messages = desk.claim_once(options_.batch);
  const std::size_t count = messages.size();
  put_off_paused(desk, messages);
  for (const std::vector<std::size_t>& places : batches_of(handlers_, messages)) {
    auto batch = std::make_shared<std::vector<Message>>();
    for (const std::size_t place : places) batch->push_back(std::move(messages[place]));
    CallWatch watch;
    watch.claimed_at = claimed;
    std::vector<std::optional<Verdict>> verdicts = desk.caller().call(*batch, watch);
    std::vector<Settlement> settlements;
    for (std::size_t i = 0; i < verdicts.size(); ++i) {
      if (verdicts[i]) settlements.push_back({{batch, &(*batch)[i]}, std::move(*verdicts[i])});
    }
    desk.write_down(settlements);
  }
  return count;
}

void Dispatcher::Loop::put_off_paused(Desk& desk, std::vector<Message>& messages) {
  std::vector<Settlement> settlements;
  {
    const std::scoped_lock lock{mutex_};
    std::erase_if(messages, [&](Message& message) {
      if (!paused_topics_.contains(message.topic.view())) return false;
      const Verdict verdict = put_off(message, options_.lease);
      settlements.push_back({std::make_shared<Message>(std::move(message)), verdict});
      return true;
    });
  }
  desk.write_down(settlements);
}

std::size_t Dispatcher::Loop::drain() {
  std::size_t handled = 0;
  std::exception_ptr trouble;
  const auto stores = [&] {
    const std::scoped_lock lock{mutex_};
    return desks_.size();
  };
  for (std::size_t empty = 0; empty < stores();) {
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

// ---- pollers

void Dispatcher::Loop::schedule(Desk& desk, Clock::time_point at) {
  if (desk.at != never) schedule_.erase({desk.at, &desk});
  desk.at = at;
  if (at == never) return;
  const auto place = schedule_.emplace(at, &desk).first;
  // The poller that waits for the time has to look at the time again.
  if (place == schedule_.begin()) due_.notify_all();
}

void Dispatcher::Loop::call(Desk& desk, bool from_afar) {
  if (from_afar) desk.called_from_afar = true;
  if (desk.called.exchange(true)) return;
  const std::scoped_lock lock{mutex_};
  const Clock::time_point now = Clock::now();
  desk.called_at = now;
  if (active_ && !desk.busy && desk.at > now) schedule(desk, now);
}

Desk* Dispatcher::Loop::next_due(Clock::time_point now) {
  // Half of the pollers at most wait for stores that may not answer.
  const int most = std::max(1, options_.pollers / 2);
  for (const auto& [at, desk] : schedule_) {
    if (at > now) break;
    if (!desk->troubled || troubled_visits_ < most) return desk;
  }
  return nullptr;
}

void Dispatcher::Loop::poll() {
  Lock lock{mutex_};
  while (!stopping_) {
    const Clock::time_point now = Clock::now();
    if (Desk* desk = next_due(now)) {
      schedule_.erase({desk->at, desk});
      desk->at = never;
      if (!schedule_.empty() && !timekeeper_) due_.notify_one();
      visit(*desk, lock);
      if (desk->leaving && !desk->busy && desk->held.empty() && desk->finished.empty()) {
        SharedDesk gone = take_out(*desk);
        lock.unlock();
        gone.reset();
        lock.lock();
      }
      continue;
    }
    const auto next = schedule_.lower_bound({now, nullptr});
    if (timekeeper_ || next == schedule_.end()) {
      due_.wait(lock);
    } else {
      timekeeper_ = true;
      due_.wait_until(lock, next->first);
      timekeeper_ = false;
    }
  }
}

bool Dispatcher::Loop::takes_more(const Desk& desk) const {
  return !draining_ && !paused_ && !desk.paused && !desk.leaving;
}

void Dispatcher::Loop::visit(Desk& desk, Lock& lock) {
  const Clock::time_point begin = Clock::now();
  desk.busy = true;
  const bool probing = desk.troubled;
  troubled_visits_ += probing ? 1 : 0;
  if (desk.called.exchange(false))
    desk.look_now(desk.called_at, desk.called_from_afar.exchange(false));
  std::vector<SharedTask> renewed;
  if (!desk.held.empty() && begin >= desk.next_renewal) {
    give_up_late(desk, begin);
    renewed = desk.held;
    desk.next_renewal = begin + lease_third(options_);
  }
  std::vector<Settlement> finished = std::exchange(desk.finished, {});
  const std::int64_t limit =
      takes_more(desk) && begin >= desk.next_look() ? reserve(desk, begin) : std::int64_t{0};

  lock.unlock();
  std::vector<Message> messages;
  std::vector<SharedTask> lost;
  std::optional<Duration> rest;
  bool active = true;
  try {
    desk.listen([this, &desk](bool from_afar) { call(desk, from_afar); });
    active = desk.keep_place();
    messages = desk.settle_and_claim(finished, active ? limit : 0);
    finished.clear();
    lost = desk.renew(renewed);
    desk.works();
  } catch (const std::exception& error) {
    rest = desk.rest_after(error);
  } catch (...) {
    rest = desk.rest_after(std::runtime_error("something that is no std::exception was thrown"));
  }
  for (const SharedTask& task : lost) task->watch->stop.request_stop();
  lock.lock();

  for (const SharedTask& task : lost) task->lost = true;
  if (!active) leave_place(desk, lock);
  reservations_.erase(&desk);
  troubled_visits_ -= probing ? 1 : 0;
  desk.finished.insert(desk.finished.begin(), std::make_move_iterator(finished.begin()),
                       std::make_move_iterator(finished.end()));
  hand_out(desk, std::move(messages), begin);
  desk.busy = false;
  desk.troubled = rest.has_value();
  const Clock::time_point now = Clock::now();
  if (rest) {
    // Leases are not let go just because a call has failed.
    const Clock::time_point at = now + *rest;
    schedule(desk, desk.held.empty() ? at : std::min(at, std::max(now + 250ms, desk.next_renewal)));
  } else {
    schedule_next(desk, now);
  }
  feed_starving();
  if (draining_) calm_.notify_all();
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
    }
  }
  at = std::min(at, desk.next_try());
  if (!desk.held.empty()) at = std::min(at, desk.next_renewal);
  if (!desk.finished.empty()) at = std::min(at, settle_time(desk, now));
  schedule(desk, at);
}

Clock::time_point Dispatcher::Loop::settle_time(const Desk& desk, Clock::time_point now) const {
  const bool light = waiting_.empty();
  const bool many = static_cast<std::int64_t>(desk.finished.size()) * 2 >= options_.batch;
  return light || many ? now : now + settle_delay;
}

std::int64_t Dispatcher::Loop::capacity() const {
  std::int64_t prefetch = 0;
  if (handler_time_ > Duration::zero()) {
    prefetch = std::min(options_.batch, options_.workers * prefetch_time / handler_time_);
  }
  return options_.workers * static_cast<std::int64_t>(largest_batch_) + prefetch;
}

std::int64_t Dispatcher::Loop::room() const {
  auto taken = static_cast<std::int64_t>(waiting_.size() + running_.size());
  const Clock::time_point now = reservations_.empty() ? Clock::time_point{} : Clock::now();
  for (const auto& [desk, reservation] : reservations_) {
    if (now - reservation.at < reservation_time) taken += reservation.count;
  }
  return std::min(options_.batch, capacity() - taken);
}

bool Dispatcher::Loop::worth_a_claim() const {
  const std::int64_t free = room();
  if (free <= 0) return false;
  // While the workers are busy anyway, a claim waits until it brings more.
  return waiting_.empty() || free >= std::min(options_.batch, capacity() / 2);
}

std::int64_t Dispatcher::Loop::reserve(const Desk& desk, Clock::time_point now) {
  if (!worth_a_claim()) return 0;
  const std::int64_t free = room();
  reservations_[&desk] = {now, free};
  return free;
}

void Dispatcher::Loop::feed_starving() {
  if (starving_.empty() || !worth_a_claim()) return;
  Desk& desk = *starving_.front();
  starving_.pop_front();
  desk.starving = false;
  const Clock::time_point now = Clock::now();
  if (!desk.busy && desk.at > now) schedule(desk, now);
}

void Dispatcher::Loop::hand_out(Desk& desk, std::vector<Message> messages,
                                Clock::time_point claimed) {
  if (messages.empty()) return;
  if (desk.held.empty()) desk.next_renewal = claimed + lease_third(options_);
  std::size_t started = 0;
  for (Message& message : messages) {
    const bool paused = !paused_topics_.empty() && paused_topics_.contains(message.topic.view());
    auto task = std::make_shared<Task>(desk.shared_from_this(), std::move(message), claimed);
    if (paused) {
      desk.finished.push_back({message_of(task), put_off(task->message, options_.lease)});
    } else if (draining_ || desk.leaving) {
      desk.finished.push_back({message_of(task), {.act = Verdict::Act::release}});
    } else {
      task->place = desk.held.size();
      desk.held.push_back(task);
      waiting_.push_back(std::move(task));
      ++started;
    }
  }
  if (started == 1) {
    work_.notify_one();
  } else if (started > 1) {
    work_.notify_all();
  }
}

/// Others may work on the box now: what has not started goes back, what runs is told to stop.
void Dispatcher::Loop::leave_place(Desk& desk, Lock& lock) {
  give_back(desk, [](const SharedTask&) { return true; });
  const std::vector<SharedTask> running = desk.held;
  lock.unlock();
  for (const SharedTask& task : running) {
    task->watch->shutting_down = true;
    task->watch->stop.request_stop();
  }
  lock.lock();
}

/// What has waited for a worker through a renewal goes back, for others to take.
void Dispatcher::Loop::give_up_late(Desk& desk, Clock::time_point now) {
  give_back(desk, [&](const SharedTask& task) {
    return now - task->claimed_at >= lease_third(options_);
  });
}

template <class Which>
void Dispatcher::Loop::give_back(Desk& desk, Which which) {
  const auto chosen = [&](const SharedTask& task) {
    return task->desk.get() == &desk && which(task);
  };
  std::vector<SharedTask> given_back;
  std::copy_if(waiting_.begin(), waiting_.end(), std::back_inserter(given_back), chosen);
  std::erase_if(waiting_, chosen);
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

// ---- workers

void Dispatcher::Loop::work() {
  Lock lock{mutex_};
  for (;;) {
    work_.wait(lock, [&] { return closing_ || !waiting_.empty(); });
    if (closing_) return;
    const std::vector<SharedTask> tasks = take_tasks();
    Desk& desk = *tasks.front()->desk;
    lock.unlock();
    const Clock::time_point begin = Clock::now();
    std::vector<Settlement> settlements = call_tasks(desk, tasks);
    lock.lock();
    finish(tasks, std::move(settlements), begin, lock);
  }
}

/// The next message; for a batch handler also those that wait behind it, up to its limit.
std::vector<SharedTask> Dispatcher::Loop::take_tasks() {
  std::vector<SharedTask> tasks{std::move(waiting_.front())};
  waiting_.pop_front();
  const Task& first = *tasks.front();
  const HandlerEntry* entry = handlers_.find(first.message.handler, first.message.topic);
  if (entry != nullptr && std::holds_alternative<BatchHandler>(entry->call)) {
    std::erase_if(waiting_, [&](SharedTask& task) {
      if (tasks.size() >= entry->options.max_batch || task->desk != first.desk ||
          handlers_.find(task->message.handler, task->message.topic) != entry)
        return false;
      task->watch = first.watch;
      tasks.push_back(std::move(task));
      return true;
    });
  }
  if (entry != nullptr && entry->options.timeout) {
    tasks.front()->deadline = Clock::now() + *entry->options.timeout;
    retimed_ = true;
    calm_.notify_all();
  }
  running_.insert(running_.end(), tasks.begin(), tasks.end());
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
    for (const SharedTask& task : tasks) {
      std::string payload = std::move(task->message.payload);
      messages->push_back(task->message);
      messages->back().payload = std::move(payload);
    }
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
                        {"id", tasks.front()->message.id.view()},
                        {"error", std::string_view{error.what()}}});
  }
  return settlements;
}

void Dispatcher::Loop::finish(const std::vector<SharedTask>& tasks,
                              std::vector<Settlement> settlements, Clock::time_point begin,
                              Lock& lock) {
  const SharedDesk desk = tasks.front()->desk;
  const Clock::time_point now = Clock::now();
  const auto took =
      std::chrono::duration_cast<Duration>(now - begin) / static_cast<std::int64_t>(tasks.size());
  const Duration known = std::max(took, Duration{1});
  handler_time_ = handler_time_ == Duration{} ? known : handler_time_ + (known - handler_time_) / 8;
  for (const SharedTask& task : tasks) {
    std::erase(running_, task);
    let_go(task);
  }
  desk->finished.insert(desk->finished.end(), std::make_move_iterator(settlements.begin()),
                        std::make_move_iterator(settlements.end()));
  if (active_) {
    if (!desk->busy) {
      const Clock::time_point at = desk->finished.empty() ? now : settle_time(*desk, now);
      if (at < desk->at && (!desk->finished.empty() || desk->leaving)) schedule(*desk, at);
    }
    feed_starving();
    if (draining_) calm_.notify_all();
    return;
  }
  // run() has ended while this handler went on: what it said is settled here.
  const std::vector<Settlement> left = std::exchange(desk->finished, {});
  lock.unlock();
  write_down_or_log(*desk, left);
  lock.lock();
}

void Dispatcher::Loop::write_down_or_log(Desk& desk, const std::vector<Settlement>& finished) {
  try {
    desk.write_down(finished);
  } catch (const std::exception& error) {
    environment_.write(LogLevel::error, "settle_error",
                       {{"store", std::string_view{desk.store()}},
                        {"count", static_cast<std::int64_t>(finished.size())},
                        {"error", std::string_view{error.what()}}});
  }
}

// ---- run

void Dispatcher::Loop::run(const std::stop_token& stop) {
  {
    const std::scoped_lock lock{mutex_};
    if (active_) throw UsageError("dispatcher: run() is already running; use one run() at a time");
    active_ = true;
    stopping_ = draining_ = false;
    for (const SharedDesk& desk : desks_) {
      desk->look_now({}, false);
      schedule(*desk, Clock::now());
    }
    while (workers_.size() < static_cast<std::size_t>(options_.workers)) {
      workers_.emplace_back([this] { work(); });
    }
  }
  {
    std::vector<std::jthread> pollers;
    for (int i = 0; i < options_.pollers; ++i) pollers.emplace_back([this] { poll(); });
    std::jthread house;
    if (options_.housekeeping)
      house = std::jthread{[this](const std::stop_token& end) { keep_house(end); }};
    watch(stop);
    house.request_stop();
    shut_down();
  }
  std::vector<std::pair<SharedDesk, std::vector<Settlement>>> left;
  std::vector<SharedDesk> desks;
  {
    const std::scoped_lock lock{mutex_};
    active_ = false;
    schedule_.clear();
    starving_.clear();
    desks = desks_;
    for (const SharedDesk& desk : desks) {
      desk->at = never;
      desk->starving = false;
      if (!desk->finished.empty()) left.emplace_back(desk, std::exchange(desk->finished, {}));
    }
  }
  for (const auto& [desk, finished] : left) write_down_or_log(*desk, finished);
  for (const SharedDesk& desk : desks) desk->stop_listening();
}

/// A thread of its own: a long prune must not keep its store from being claimed from.
void Dispatcher::Loop::keep_house(const std::stop_token& stop) {
  struct House {
    std::unique_ptr<Housekeeping> chores;
    Clock::time_point next = {};
  };
  std::map<SharedDesk, House> houses;
  Lock lock{mutex_};
  while (!stop.stop_requested()) {
    desks_changed_ = false;
    std::map<SharedDesk, House> kept;
    for (const SharedDesk& desk : desks_) kept[desk] = std::move(houses[desk]);
    lock.unlock();
    houses = std::move(kept);
    Clock::time_point next = Clock::now() + 24h;
    for (auto& [desk, house] : houses) {
      if (stop.stop_requested()) break;
      WorkQueue* queue = desk->opened();
      if (queue == nullptr) {
        next = std::min(next, Clock::now() + 1s);
        continue;
      }
      if (!house.chores)
        house.chores = std::make_unique<Housekeeping>(*queue, *options_.housekeeping);
      if (Clock::now() >= house.next) {
        const HousekeepingReport report = house.chores->step(stop);
        house.next = Clock::now() + report.next;
        for (const ChoreReport& chore : report.chores) {
          if (observer_.chore) observer_.chore(desk->store(), chore);
        }
      }
      next = std::min(next, house.next);
    }
    lock.lock();
    house_.wait_until(lock, stop, next, [&] { return desks_changed_; });
  }
}

/// Reports handlers that run past their timeout, until a stop is requested.
void Dispatcher::Loop::watch(const std::stop_token& stop) {
  Lock lock{mutex_};
  while (!stop.stop_requested()) {
    report_timeouts(lock);
    Clock::time_point first = never;
    for (const SharedTask& task : running_) {
      if (!task->watch->timed_out) first = std::min(first, task->deadline);
    }
    if (first == never) {
      calm_.wait(lock, stop, [&] { return retimed_; });
    } else {
      calm_.wait_until(lock, stop, first, [&] { return retimed_; });
    }
    retimed_ = false;
  }
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
                       {{"store", std::string_view{task->desk->store()}},
                        {"topic", task->message.topic.view()},
                        {"id", task->message.id.view()}});
    if (observer_.timed_out) observer_.timed_out(task->desk->store(), task->message);
  }
  lock.lock();
}

/// Nothing new begins, what never started is released, and what runs gets the grace period.
void Dispatcher::Loop::shut_down() {
  std::vector<SharedTask> running;
  {
    const std::scoped_lock lock{mutex_};
    draining_ = true;
    for (const SharedTask& task : std::exchange(waiting_, {})) {
      let_go(task);
      task->desk->finished.push_back({message_of(task), {.act = Verdict::Act::release}});
    }
    running = running_;
    for (const SharedTask& task : running) task->watch->shutting_down = true;
    const Clock::time_point now = Clock::now();
    for (const SharedDesk& desk : desks_) {
      if (!desk->busy) schedule_next(*desk, now);
    }
  }
  for (const SharedTask& task : running) task->watch->stop.request_stop();
  Lock lock{mutex_};
  calm_.wait_until(lock, Clock::now() + options_.grace, [&] {
    return std::all_of(desks_.begin(), desks_.end(), [](const SharedDesk& desk) {
      return desk->held.empty() && desk->finished.empty() && !desk->busy;
    });
  });
  stopping_ = true;
  due_.notify_all();
}

// ---- pause

void Dispatcher::Loop::set_paused(bool paused) {
  const std::scoped_lock lock{mutex_};
  paused_ = paused;
  look_again();
}

void Dispatcher::Loop::set_store_paused(std::string_view store, bool paused) {
  const std::scoped_lock lock{mutex_};
  bool found = false;
  for (const SharedDesk& desk : desks_) {
    if (desk->store() != store) continue;
    desk->paused = paused;
    found = true;
  }
  if (!found) {
    throw UsageError("dispatcher: there is no store '" + std::string{store} + "' to pause; " +
                     std::to_string(desks_.size()) + " are known");
  }
  look_again();
}

void Dispatcher::Loop::set_topic_paused(const Topic& topic, bool paused) {
  const std::scoped_lock lock{mutex_};
  if (paused) {
    paused_topics_.insert(topic.str());
  } else {
    paused_topics_.erase(topic.str());
  }
}

void Dispatcher::Loop::look_again() {
  const Clock::time_point now = Clock::now();
  for (const SharedDesk& desk : desks_) {
    if (active_ && !desk->busy && desk->at > now) schedule(*desk, now);
  }
}

}  // namespace twinbox
