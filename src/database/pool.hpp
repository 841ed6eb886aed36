// A bounded pool of connections: the one place that begins, repeats and ends our own calls.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "database/connection.hpp"
#include "database/connection_budget.hpp"
#include "database/wake.hpp"
#include "database/writer_queue.hpp"
#include "twinbox/database.hpp"

namespace twinbox {

/// How the pool waits between two attempts; tests inject their own.
struct PoolTime {
  std::function<std::chrono::steady_clock::time_point()> now = {};
  std::function<void(std::chrono::milliseconds)> wait = {};
};

/// No free connection in time. A retry would only wait the same time again.
class PoolExhausted : public DatabaseError {
 public:
  explicit PoolExhausted(const std::string& message) : DatabaseError(Kind::contention, message) {}
};

/// Thread-safe. All connections must be back before it is destroyed.
class Pool {
 public:
  /// `budget` is shared with other pools; without one the pool has its own, without a limit.
  /// Throws std::out_of_range with the option and its bound.
  Pool(std::unique_ptr<Driver> driver, DatabaseOptions options, Environment environment,
       PoolTime time = {}, std::shared_ptr<ConnectionBudget> budget = {});
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// Runs `work` in one transaction, again when nothing was committed and the error says so. `work`
  /// must therefore have no effect besides the session and its own result. With Scope::caller,
  /// `work` is called at most once.
  template <class F>
  auto run(Access access, Scope scope, F&& work) -> std::invoke_result_t<F&, Session&>;

  /// A caller's transaction: never repeated.
  void in_transaction(const std::function<void(Session&)>& work);

  /// Throws UsageError when a call of our own would wait for its own thread, which holds every
  /// connection that could serve `access`; or when it would write during the transaction that this
  /// thread has open. Code that hands a call to another thread checks this first.
  void check_reentry(Access access) const;

  /// True while this thread holds a connection that other threads of a set may need. It must not
  /// wait for a thread that may be waiting for one.
  [[nodiscard]] static bool holds_budgeted() noexcept;

  /// Why the database itself refused a write (no space, read only, damaged) within the last minute;
  /// empty once messages have been stored since. A read-only error in a caller's transaction does
  /// not count: the caller may have chosen it.
  [[nodiscard]] std::optional<std::string> refusal() const;
  /// How many calls it has refused so far.
  [[nodiscard]] std::uint64_t refusals() const noexcept { return refusals_; }
  /// A call that began after so many `refusals` has stored messages. Other calls prove nothing:
  /// they may have written nothing, or into existing pages only.
  void stored_messages(std::uint64_t refusals);
  /// A call has just proved that the database takes writes.
  void wrote() noexcept;
  /// How long ago that was; empty: never.
  [[nodiscard]] std::optional<std::chrono::steady_clock::duration> since_write() const;

  /// How many threads may have a transaction open at once, and the option that sets it.
  struct Bound {
    std::string_view option;
    std::size_t count;
  };
  [[nodiscard]] Bound bound() const;

  /// Opens watches for commits by others to `box`; empty where that is impossible. Each watch takes
  /// a connection out of the budget while it lives. Without a free one, a file is watched without a
  /// connection.
  [[nodiscard]] OpenWatch watch(const BoxName& box) const;
  /// The resource that watches of several stores share: the same pointer for one budget, null
  /// without a budget.
  [[nodiscard]] const void* watch_budget() const noexcept {
    return budget_->limited() ? budget_.get() : nullptr;
  }

  /// Notified after each caller's transaction, and by the boxes after their own writes.
  [[nodiscard]] Wake& wake() noexcept { return wake_; }
  [[nodiscard]] Driver& driver() noexcept { return *driver_; }
  [[nodiscard]] const Driver& driver() const noexcept { return *driver_; }
  [[nodiscard]] const DatabaseOptions& options() const noexcept { return options_; }
  [[nodiscard]] const Environment& environment() const noexcept { return environment_; }
  /// The store's name in logs and errors.
  [[nodiscard]] const std::string& name() const noexcept { return options_.name; }
  /// The value of Session::database() on its connections; empty: unknown.
  [[nodiscard]] const std::string& database() const noexcept { return database_; }

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Lane = ConnectionBudget::Lane;
  static constexpr auto never_wrote = std::numeric_limits<TimePoint::rep>::min();
  /// A borrowed connection: rolls back uncommitted work, then returns the connection.
  class Borrowed;

  using Work = WriterQueue::Work;

  void run_erased(Access access, Scope scope, const Work& work);
  void check_connections(Access access) const;
  [[nodiscard]] bool should_retry(DatabaseError::Kind kind, Access access, int attempt,
                                  TimePoint begin) const;
  void remember(const DatabaseError& error, Scope scope);
  /// `started` turns true right before `work` is called.
  void run_once(Access access, Scope scope, const Work& work, TimePoint deadline, bool& started);
  void run_on_connection(Access access, Scope scope, const Work& work, TimePoint deadline,
                         bool& started);
  /// False: nothing was committed, because of one of the joined calls or of all together.
  bool run_as_leader(WriterQueue::Leadership& lead, Scope scope, const Work& work,
                     TimePoint deadline);

  [[nodiscard]] std::size_t lane_of(Access access) const noexcept;
  /// Throws PoolExhausted when there is none in time.
  ConnectionBudget::Grant take(Lane& lane, TimePoint deadline);
  [[nodiscard]] DatabaseError stopped_while_waiting() const;
  [[nodiscard]] std::string exhausted_message(ConnectionBudget::Answer answer) const;
  /// Drops a connection and every idle one: the cause of one broken connection affects all.
  void drop(Lane& lane, std::unique_ptr<Connection> connection) noexcept;
  [[nodiscard]] std::chrono::milliseconds retry_delay(int attempt) const;

  std::unique_ptr<Driver> driver_;
  DatabaseOptions options_;
  std::string database_;
  Environment environment_;
  PoolTime time_;
  Wake wake_;
  std::shared_ptr<ConnectionBudget> budget_;  // shared by the pools that lead to one server
  std::unique_ptr<WriterQueue> writers_;      ///< where calls join
  struct Refusal {
    std::string words;
    TimePoint at;
  };
  mutable std::mutex refusal_mutex_;
  std::optional<Refusal> refusal_;  ///< the last one, unless it is over
  std::atomic<std::uint64_t> refusals_ = 0;
  std::atomic<TimePoint::rep> wrote_at_ = never_wrote;
  std::vector<Lane> lanes_;  ///< writers, then readers where they have connections of their own
};

template <class F>
auto Pool::run(Access access, Scope scope, F&& work) -> std::invoke_result_t<F&, Session&> {
  using Result = std::invoke_result_t<F&, Session&>;
  if constexpr (std::is_void_v<Result>) {
    run_erased(access, scope, [&](Session& session) { work(session); });
  } else {
    std::optional<Result> result;
    run_erased(access, scope, [&](Session& session) { result.emplace(work(session)); });
    return std::move(*result);
  }
}

Pool& pool_of(Database& database) noexcept;
Database database_over(std::unique_ptr<Pool> pool);

}  // namespace twinbox
