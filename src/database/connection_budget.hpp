// Limits how many connections to one server may be open, and decides which caller gets the next
// one.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "database/connection.hpp"

namespace twinbox {

/// The connections of one pool that stands alone, or of all the pools of a set that lead to one
/// server. At most `limit` are open. Where they are used up, the connection that has been idle for
/// the longest is closed for a new one; where none is idle, callers wait in their order.
///
/// Stores whose last call hung or found no server have half of it at most, so that the others do
/// not wait behind their next calls.
///
/// Threads that hold a connection and wait for another one can deadlock. So the last two
/// connections are reserved for threads that already hold one and two, and a thread that holds more
/// never waits for the budget: at least one thread can always continue.
///
/// Thread-safe. Pools must be gone before it is destroyed.
class ConnectionBudget {
 public:
  using Time = std::chrono::microseconds;
  static constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

  struct BudgetOptions {
    std::size_t limit = unlimited;
    std::string where = {};          ///< for errors: what the connections lead to
    std::string option = {};         ///< for errors: what sets the limit
    std::function<Time()> now = {};  ///< empty: the idle time is never needed
  };

  explicit ConnectionBudget(BudgetOptions budget_options) : options_(std::move(budget_options)) {}
  ConnectionBudget() : ConnectionBudget(BudgetOptions{}) {}

  struct Lane;
  struct Idle {
    std::unique_ptr<Connection> connection = {};
    Lane* lane = nullptr;
    Time since = {};
  };
  /// The result of a call. After one that hung or found no server, its lane is failing until the
  /// next one that succeeded.
  enum class Result { worked, failed, unknown };
  /// Interchangeable connections of a pool.
  struct Lane {
    Access opens;
    std::size_t capacity;
    std::size_t used = 0;  ///< open, being opened, or promised to a waiter
    std::vector<std::list<Idle>::iterator> idle = {};  ///< the one used last at the end
    std::size_t busy = 0;                              ///< granted
    bool failing = false;
  };

  enum class Answer {
    granted,
    pool_full,    ///< every connection of the lane is in use
    budget_full,  ///< every connection of the budget is
    too_deep,     ///< the same, and the caller holds too many to wait for one more
    stopped,      ///< a stop was requested while it waited
  };
  struct Grant {
    Answer answer = Answer::granted;
    std::unique_ptr<Connection> connection = {};  ///< null: open one
    std::unique_ptr<Connection> close_first = {};
  };

  /// `held` is how many connections of limited budgets this thread has. `left` is called once, when
  /// the caller has to wait.
  Grant take(Lane& lane, std::size_t held,
             const std::function<std::chrono::steady_clock::duration()>& left,
             const std::stop_token& stop = {});
  void return_connection(Lane& lane, std::unique_ptr<Connection> connection,
                         Result result) noexcept;
  /// A connection that was granted could not be opened, or is closed by now.
  void give_up(Lane& lane) noexcept;
  /// Closes the idle connections of `lanes`.
  void clear(std::span<Lane> lanes) noexcept;
  /// Closes the connections that have not been used since `moment`.
  void close_idle(Time moment) noexcept;
  /// Takes one connection out of the budget for a permanent use, until unreserve_connection().
  /// False: a quarter of the budget is reserved already, or all connections are in use.
  bool reserve_connection();
  void unreserve_connection() noexcept;

  [[nodiscard]] bool limited() const noexcept { return options_.limit != unlimited; }
  [[nodiscard]] const BudgetOptions& budget_options() const noexcept { return options_; }
  /// How many threads that hold none may have one at once.
  [[nodiscard]] std::size_t for_new() const;
  [[nodiscard]] std::size_t open() const;
  [[nodiscard]] std::size_t waiting() const;

 private:
  struct Waiter;
  using Node = std::list<Idle>;  ///< of one element

  [[nodiscard]] std::size_t limit() const noexcept { return options_.limit - reserved_; }
  [[nodiscard]] std::size_t levels() const noexcept { return std::min<std::size_t>(limit(), 3); }
  /// How many connections may be in use once a thread that holds `held` has one more.
  [[nodiscard]] std::size_t ceiling(std::size_t held) const noexcept {
    return limit() - (levels() - 1 - std::min(held, levels() - 1));
  }
  [[nodiscard]] static bool has_room(const Lane& lane) noexcept {
    return !lane.idle.empty() || lane.used < lane.capacity;
  }
  /// False: the failing stores already have their share. A thread that holds a connection can
  /// always continue.
  [[nodiscard]] bool in_its_share(const Lane& lane, std::size_t held) const noexcept {
    return !lane.failing || held > 0 || busy_failing_ < std::max<std::size_t>(1, ceiling(0) / 2);
  }
  void note_end(Lane& lane, Result result) noexcept;
  /// True when `grant` has been filled in; `node` may have been used up.
  bool admit(Lane& lane, std::size_t held, Node& node, Grant& grant) noexcept;
  /// Moves an idle connection to `target`.
  void take_out(std::list<Idle>::iterator idle, std::list<Idle>& target) noexcept;
  /// Grants free connections to the waiting callers.
  void serve() noexcept;
  /// Closes the connections taken out of idle_; without the lock, since closing may take a while.
  void close(std::list<Idle> closing) noexcept;

  const BudgetOptions options_;
  mutable std::mutex mutex_;
  std::size_t busy_ = 0;          ///< granted
  std::size_t busy_failing_ = 0;  ///< of them, to lanes that are failing
  std::size_t open_ = 0;          ///< busy, idle, or being closed
  std::size_t reserved_ = 0;
  std::list<Idle> idle_;  ///< the longest first
  std::list<Idle>
      spare_;  ///< nodes for connections that are not idle: returning one allocates nothing
  std::list<Waiter*> waiters_;
};

/// The budgets of one set. Thread-safe. The pools share them, and may outlive the set.
class ConnectionBudgets {
 public:
  struct Limits {
    std::size_t per_server;
    std::size_t files;
  };
  ConnectionBudgets(Limits limits, std::function<ConnectionBudget::Time()> now)
      : limits_(limits), now_(std::move(now)) {}

  /// Null: `location` shares its server with no other store.
  std::shared_ptr<ConnectionBudget> at(const Driver::Location& location);
  void close_idle(ConnectionBudget::Time idle_timeout);

 private:
  Limits limits_;
  std::function<ConnectionBudget::Time()> now_;
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<ConnectionBudget>> budgets_;  ///< by server
};

}  // namespace twinbox
