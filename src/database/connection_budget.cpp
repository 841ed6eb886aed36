#include "database/connection_budget.hpp"

#include <condition_variable>
#include <utility>

namespace twinbox {

using std::chrono::steady_clock;

struct ConnectionBudget::Waiter {
  Lane& lane;
  std::size_t held;
  Node node = Node(1);
  std::condition_variable_any ready = {};
  bool served = false;
  Grant grant = {};
};

ConnectionBudget::Grant ConnectionBudget::take(Lane& lane, std::size_t held,
                                               const std::function<steady_clock::duration()>& left,
                                               const std::stop_token& stop) {
  std::unique_lock lock{mutex_};
  Grant grant;
  if (!lane.idle.empty()) {
    Node none;
    if (admit(lane, held, none, grant)) return grant;
  } else if (lane.used < lane.capacity) {
    Node node(1);
    if (admit(lane, held, node, grant)) return grant;
  }
  // serve() would have granted the waiting callers already if it could, so none is overtaken.
  if (has_room(lane) && held >= levels()) return {.answer = Answer::too_deep};
  Waiter waiter{lane, held};
  const auto position = waiters_.insert(waiters_.end(), &waiter);
  if (!waiter.ready.wait_for(lock, stop, std::max(left(), steady_clock::duration::zero()),
                             [&] { return waiter.served; })) {
    waiters_.erase(position);
    if (stop.stop_requested()) return {.answer = Answer::stopped};
    return {.answer = has_room(lane) ? Answer::budget_full : Answer::pool_full};
  }
  return std::move(waiter.grant);
}

bool ConnectionBudget::admit(Lane& lane, std::size_t held, Node& node, Grant& grant) noexcept {
  if (!has_room(lane) || busy_ >= ceiling(held) || !in_its_share(lane, held)) return false;
  if (!lane.idle.empty()) {
    // The most recently used one: its statements are prepared and its caches warm.
    take_out(lane.idle.back(), spare_);
    grant.connection = std::move(spare_.back().connection);
  } else if (open_ < limit()) {
    ++open_;
    spare_.splice(spare_.end(), node);
    ++lane.used;
  } else if (!idle_.empty()) {
    --idle_.front().lane->used;
    take_out(idle_.begin(), spare_);
    grant.close_first = std::move(spare_.back().connection);
    ++lane.used;
  } else {
    return false;  // one is being closed right now
  }
  ++busy_;
  ++lane.busy;
  if (lane.failing) ++busy_failing_;
  return true;
}

void ConnectionBudget::note_end(Lane& lane, Result result) noexcept {
  --busy_;
  if (lane.failing) --busy_failing_;
  --lane.busy;
  const bool failing = result == Result::failed || (result == Result::unknown && lane.failing);
  if (failing && !lane.failing) busy_failing_ += lane.busy;
  if (!failing && lane.failing) busy_failing_ -= lane.busy;
  lane.failing = failing;
}

void ConnectionBudget::take_out(std::list<Idle>::iterator idle, std::list<Idle>& target) noexcept {
  auto& places = idle->lane->idle;
  places.erase(std::find(places.begin(), places.end(), idle));
  target.splice(target.end(), idle_, idle);
}

void ConnectionBudget::return_connection(Lane& lane, std::unique_ptr<Connection> connection,
                                         Result result) noexcept {
  const std::scoped_lock lock{mutex_};
  idle_.splice(idle_.end(), spare_, spare_.begin());
  idle_.back() = {std::move(connection), &lane, options_.now ? options_.now() : Time{}};
  lane.idle.push_back(std::prev(idle_.end()));
  note_end(lane, result);
  serve();
}

void ConnectionBudget::give_up(Lane& lane) noexcept {
  const std::scoped_lock lock{mutex_};
  spare_.pop_front();
  --open_;
  --lane.used;
  note_end(lane, Result::failed);
  serve();
}

void ConnectionBudget::clear(std::span<Lane> lanes) noexcept {
  std::list<Idle> closing;
  {
    const std::scoped_lock lock{mutex_};
    for (Lane& lane : lanes) {
      lane.used -= lane.idle.size();
      while (!lane.idle.empty()) take_out(lane.idle.back(), closing);
    }
  }
  close(std::move(closing));
}

void ConnectionBudget::close_idle(Time moment) noexcept {
  std::list<Idle> closing;
  {
    const std::scoped_lock lock{mutex_};
    while (!idle_.empty() && idle_.front().since <= moment) {
      --idle_.front().lane->used;
      take_out(idle_.begin(), closing);
    }
  }
  close(std::move(closing));
}

bool ConnectionBudget::reserve_connection() {
  std::list<Idle> closing;
  {
    const std::scoped_lock lock{mutex_};
    // As for a thread that holds nothing: the reserved connections stay reserved.
    if (reserved_ >= options_.limit / 4 || busy_ >= ceiling(0)) return false;
    if (open_ >= limit()) {
      if (idle_.empty()) return false;  // one is being closed right now
      --idle_.front().lane->used;
      take_out(idle_.begin(), closing);
    }
    ++reserved_;
  }
  close(std::move(closing));
  return true;
}

void ConnectionBudget::unreserve_connection() noexcept {
  const std::scoped_lock lock{mutex_};
  --reserved_;
  serve();
}

void ConnectionBudget::close(std::list<Idle> closing) noexcept {
  if (closing.empty()) return;
  for (Idle& one : closing) one.connection.reset();
  const std::scoped_lock lock{mutex_};
  open_ -= closing.size();
  serve();
}

void ConnectionBudget::serve() noexcept {
  for (auto position = waiters_.begin(); position != waiters_.end() && busy_ < limit();) {
    Waiter& waiter = **position;
    if (!admit(waiter.lane, waiter.held, waiter.node, waiter.grant)) {
      ++position;
      continue;
    }
    position = waiters_.erase(position);
    waiter.served = true;
    // Under the lock: the waiter may be gone as soon as it can run.
    waiter.ready.notify_one();
    if (!limited()) return;  // one connection came, and one has gone
  }
}

std::size_t ConnectionBudget::for_new() const {
  const std::scoped_lock lock{mutex_};
  return ceiling(0);
}

std::size_t ConnectionBudget::open() const {
  const std::scoped_lock lock{mutex_};
  return open_;
}

std::size_t ConnectionBudget::waiting() const {
  const std::scoped_lock lock{mutex_};
  return waiters_.size();
}

std::shared_ptr<ConnectionBudget> ConnectionBudgets::at(const Driver::Location& location) {
  if (location.server.empty()) return nullptr;
  const std::scoped_lock lock{mutex_};
  std::erase_if(budgets_, [](const auto& entry) { return entry.second.expired(); });
  auto& known = budgets_[location.server];
  auto budget = known.lock();
  if (budget == nullptr) {
    const bool files = location.server == "files";
    budget = std::make_shared<ConnectionBudget>(ConnectionBudget::BudgetOptions{
        .limit = files ? limits_.files : limits_.per_server,
        .where = files ? "SQLite files" : location.server,
        .option = files ? "connections_to_files" : "connections_per_server",
        .now = now_});
    known = budget;
  }
  return budget;
}

void ConnectionBudgets::close_idle(ConnectionBudget::Time idle_timeout) {
  std::vector<std::shared_ptr<ConnectionBudget>> budgets;
  {
    const std::scoped_lock lock{mutex_};
    for (const auto& [server, known] : budgets_) {
      if (auto budget = known.lock()) budgets.push_back(std::move(budget));
    }
  }
  const ConnectionBudget::Time moment = now_() - idle_timeout;
  for (const auto& budget : budgets) budget->close_idle(moment);
}

}  // namespace twinbox
