// One box: its database, its options, its statements, and the only function that executes them.
#pragma once

#include <algorithm>
#include <atomic>
#include <initializer_list>
#include <map>
#include <string>
#include <type_traits>
#include <utility>

#include "database/pool.hpp"
#include "queue/buffered_log.hpp"
#include "sql/render.hpp"
#include "twinbox/schema.hpp"
#include "twinbox/work_queue.hpp"

namespace twinbox {

/// The statements of a box, found once.
struct Statements {
  /// `synchronous`: statements that accept messages first require a commit that waits for a
  /// standby.
  Statements(const StatementSet& set, bool synchronous);

  const std::map<std::string_view, Statement> checked;
  const Statement &insert_new, &insert_generated, &accept, &accept_known, &observe, &state,
      &lock_message, &mark_processing, &mark_processed, &mark_dead, &try_claim, &release_claim;
  const Statement &mark, &finish_marked, &release_marked, &discard_held;
  const Statement &claim, &claim_message, &renew, &ack, &attempts, &abandon, &release,
      &release_lost, &fail, &reap, &reap_pick, &reap_picked, &expire_pick, &max_age_bound,
      &max_age_pick, &expire, &next_due, &find_due;
  const Statement &requeue, &discard, &postpone, &edit, &content_version, &lock_messages,
      &prune_pick, &prune_bound, &prune_pick_all, &prune, &list_open, &list_dead, &list_finished,
      &list_all, &get, &find_sources, &deliveries, &failures, &count, &count_history, &group_dead,
      &held_keys, &blocked_keys, &blocked_by, &open_keys;
  const Statement &operation_begin, &operation_lock, &operation_move, &operation_forget,
      &audit_find, &audit_list;
  const Statement &worker_heartbeat, &worker_leave, &worker_forget, &worker_handles, &worker_list;
  const Statement &lease_acquire, &lease_renew, &lease_release, &lease_holders, &lease_list;
  const Statement &health, &clock;
};

class Box {
 public:
  /// Checks the options, deploys the tables if requested, and refuses tables of another version.
  Box(Database& database, BoxKind kind, BoxOptions options);

  /// Executes a statement: the only place where they are timed.
  std::size_t run(Session& session, const Statement& statement, std::span<const Arg> args,
                  RowSink rows = {}) const;
  std::size_t run(Session& session, const Statement& statement, std::initializer_list<Arg> args,
                  RowSink rows = {}) const {
    return run(session, statement, std::span{args.begin(), args.size()}, rows);
  }

  /// A call in a transaction of our own. Its log events are written after the commit.
  template <class F>
  auto in_own_transaction(Access access, Scope scope, F&& work) {
    BufferedLog buffered_log;
    const auto tried = [&](Session& session) { return buffered_log.during(work, session); };
    if constexpr (std::is_void_v<std::invoke_result_t<F&, Session&>>) {
      pool_of(database_).run(access, scope, tried);
      buffered_log.flush();
    } else {
      auto result = pool_of(database_).run(access, scope, tried);
      buffered_log.flush();
      return result;
    }
  }

  /// The usual call of our own: one statement that writes.
  template <class F>
  auto write(F&& work) {
    return in_own_transaction(Access::write, Scope::statement, std::forward<F>(work));
  }

  /// Throws UsageError unless the caller's session can run our statements.
  Session& require_usable(Session& session) const;

  /// After a commit: wakes waiting dispatchers of this process.
  void wake() const { pool_of(database_).wake().notify(); }

  void log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) const;
  [[nodiscard]] bool logs(LogLevel level) const noexcept { return environment_.logs(level); }
  /// Warns, the first time, about a lease or a batch outside of what is recommended.
  void advise(Duration lease, std::int64_t limit);

  [[nodiscard]] Database& database() const noexcept { return database_; }
  [[nodiscard]] const Environment& environment() const noexcept { return environment_; }
  [[nodiscard]] const BoxOptions& options() const noexcept { return options_; }
  [[nodiscard]] const Statements& sql() const noexcept { return statements_; }
  [[nodiscard]] Arg now() const { return {"now", environment_.now()}; }

 private:
  Database& database_;
  const Environment& environment_;
  BoxKind kind_;
  BoxOptions options_;
  std::shared_ptr<const StatementSet> set_;  // shared by all boxes of that name
  Statements statements_;
  std::atomic<bool> lease_advised_ = false;
  std::atomic<bool> limit_advised_ = false;
};

/// `options` with its table filled in; throws for invalid names or values.
BoxOptions checked_options(BoxOptions options, BoxKind kind, Dialect dialect);

/// A savepoint in a caller's transaction: undone unless it is kept. PostgreSQL needs one only if a
/// caller's function runs in between and may throw: its own errors end the whole transaction.
class CallSavepoint {
 public:
  CallSavepoint(Session& session, bool asks_caller);
  void keep();
  void undo();

 private:
  Session& session_;
  std::string name_;
  bool plain_;  ///< as SQLite and PostgreSQL write it
};

/// A call of several statements in a caller's transaction: after a failure nothing of it remains,
/// and its log events are dropped. `asks_caller`: the failure may come from a caller's function.
template <class F>
auto all_or_nothing(Session& session, F&& work, bool asks_caller = false) {
  CallSavepoint savepoint{session, asks_caller};
  BufferedLog buffered_log;
  try {
    auto result = buffered_log.during(work);
    savepoint.keep();
    buffered_log.flush_to_outer();
    return result;
  } catch (...) {
    savepoint.undo();
    throw;
  }
}

/// Bounds of arguments: std::out_of_range with the argument's name.
void require_lease(Duration lease);
void require_delay(Duration delay);
void require_limit(std::int64_t limit);

/// Before 1970 counts as 1970: due immediately, and within the range of every database.
[[nodiscard]] inline Instant not_before_1970(Instant until) noexcept {
  return std::max(until, Instant{});
}

/// Longer than any sensible value, and short enough for arithmetic with every clock.
inline constexpr Duration ever = std::chrono::years{1000};

[[nodiscard]] inline std::int64_t micros(Duration duration) noexcept { return duration.count(); }

Box& box_of(const WorkQueue& queue) noexcept;

/// The arguments of statements about deliveries.
struct DeliveryArgs {
  static Arg ids(const Deliveries& of) { return {"id", ValueType::integer, of.ids_}; }
  static Arg epochs(const Deliveries& of) { return {"epoch", ValueType::integer, of.epochs_}; }
  static Arg check_epoch(const Deliveries& of) { return {"check_epoch", Value{of.check_epoch_}}; }
};

}  // namespace twinbox
