#include "queue/box.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <stdexcept>
#include <vector>

namespace twinbox {
namespace {

using namespace std::chrono_literals;

constexpr Duration longest = std::chrono::hours{24 * 3650};
constexpr std::int64_t largest_batch = 100'000;

/// The default answer delay of a source.
constexpr std::array<std::string_view, 8> taking_in = {
    "insert_new",     "accept_known",    "accept",    "observe",
    "mark_processed", "mark_processing", "mark_dead", "try_claim"};

std::map<std::string_view, Statement> with_check(const StatementSet& set, bool synchronous) {
  std::map<std::string_view, Statement> checked;
  if (!synchronous) return checked;
  for (const std::string_view name : taking_in)
    checked.emplace(name, run_after(set["require_synchronous"], set[name]));
  return checked;
}

const Statement& either(const std::map<std::string_view, Statement>& checked,
                        const StatementSet& set, std::string_view name) {
  const auto found = checked.find(name);
  return found != checked.end() ? found->second : set[name];
}

}  // namespace

Statements::Statements(const StatementSet& set, bool synchronous)
    : checked(with_check(set, synchronous)),
      insert_new(either(checked, set, "insert_new")),
      insert_generated(set.contains("insert_generated") ? set["insert_generated"] : insert_new),
      accept(either(checked, set, "accept")),
      accept_known(set.contains("accept_known") ? either(checked, set, "accept_known") : accept),
      observe(either(checked, set, "observe")),
      state(set["state"]),
      lock_message(set["lock_message"]),
      mark_processing(either(checked, set, "mark_processing")),
      mark_processed(either(checked, set, "mark_processed")),
      mark_dead(either(checked, set, "mark_dead")),
      try_claim(either(checked, set, "try_claim")),
      release_claim(set["release_claim"]),
      mark(set["mark"]),
      finish_marked(set["finish_marked"]),
      release_marked(set["release_marked"]),
      discard_held(set["discard_held"]),
      claim(set["claim"]),
      claim_message(set["claim_message"]),
      renew(set["renew"]),
      ack(set["ack"]),
      attempts(set["attempts"]),
      abandon(set["abandon"]),
      release(set["release"]),
      release_lost(set["release_lost"]),
      fail(set["fail"]),
      reap(set["reap"]),
      reap_pick(set["reap_pick"]),
      reap_picked(set["reap_picked"]),
      expire_pick(set["expire_pick"]),
      max_age_bound(set["max_age_bound"]),
      max_age_pick(set["max_age_pick"]),
      expire(set["expire"]),
      next_due(set["next_due"]),
      find_due(set["find_due"]),
      requeue(set["requeue"]),
      discard(set["discard"]),
      postpone(set["postpone"]),
      edit(set["edit"]),
      content_version(set["content_version"]),
      lock_messages(set["lock_messages"]),
      prune_pick(set["prune_pick"]),
      prune_bound(set["prune_bound"]),
      prune_pick_all(set["prune_pick_all"]),
      prune(set["prune"]),
      list_open(set["list_open"]),
      list_dead(set["list_dead"]),
      list_finished(set["list_finished"]),
      list_all(set["list_all"]),
      get(set["get"]),
      find_sources(set["find_sources"]),
      deliveries(set["deliveries"]),
      failures(set["failures"]),
      count(set["count"]),
      count_history(set["count_history"]),
      group_dead(set["group_dead"]),
      held_keys(set["held_keys"]),
      blocked_keys(set["blocked_keys"]),
      blocked_by(set["blocked_by"]),
      open_keys(set["open_keys"]),
      operation_begin(set["operation_begin"]),
      operation_lock(set["operation_lock"]),
      operation_move(set["operation_move"]),
      operation_forget(set["operation_forget"]),
      audit_find(set["audit_find"]),
      audit_list(set["audit_list"]),
      worker_heartbeat(set["worker_heartbeat"]),
      worker_leave(set["worker_leave"]),
      worker_forget(set["worker_forget"]),
      worker_handles(set["worker_handles"]),
      worker_list(set["worker_list"]),
      lease_acquire(set["lease_acquire"]),
      lease_renew(set["lease_renew"]),
      lease_release(set["lease_release"]),
      lease_holders(set["lease_holders"]),
      lease_list(set["lease_list"]),
      health(set["health"]),
      clock(set["clock"]) {}

BoxOptions checked_options(BoxOptions options, BoxKind kind, Dialect dialect) {
  if (options.table.empty()) options.table = to_string(kind);
  if (!options.retention)
    options.retention = std::chrono::hours{24 * (kind == BoxKind::outbox ? 7 : 30)};
  if (*options.retention < Duration::zero())
    throw std::out_of_range("retention: must not be below zero");
  check_box_name({options.schema, options.table}, dialect);
  options.retry.check();
  if (options.max_expiries < 0) {
    throw std::out_of_range("max_expiries: " + std::to_string(options.max_expiries) +
                            ", must be 0 (no limit) or more");
  }
  if (options.max_age && *options.max_age <= Duration::zero()) {
    throw std::out_of_range("max_age: must be longer than zero, is " +
                            std::to_string(options.max_age->count()) +
                            " microseconds; leave it out to let messages live for ever");
  }
  if (options.handler_timeout && (*options.handler_timeout <= Duration::zero() ||
                                  *options.handler_timeout > std::chrono::years{10})) {
    throw std::out_of_range("handler_timeout: must be longer than zero and at most ten years, is " +
                            std::to_string(options.handler_timeout->count()) +
                            " microseconds; leave it out where there is none");
  }
  if (options.require_synchronous && kind == BoxKind::outbox) {
    throw std::invalid_argument(
        "require_synchronous: set for an outbox, which answers no source; set it for the inbox");
  }
  if (options.require_synchronous && dialect != Dialect::postgres) {
    throw std::invalid_argument("require_synchronous: the database is " +
                                std::string{to_string(dialect)} +
                                ", and only PostgreSQL can say whether a commit waits for a "
                                "standby; remove the option");
  }
  return options;
}

Box::Box(Database& database, BoxKind kind, BoxOptions options)
    : database_(database),
      environment_(database.environment()),
      kind_(kind),
      options_(checked_options(std::move(options), kind, database.dialect())),
      set_(shared_statements(database.dialect(), {options_.schema, options_.table})),
      statements_(*set_, options_.require_synchronous) {
  Schema schema(database_, kind_, options_);
  if (options_.deploy_schema) schema.deploy();
  schema.require();
}

namespace {

/// SQL Server treats texts that differ in trailing blanks as equal.
void refuse_blank_end(std::span<const Arg> args) {
  constexpr std::array<std::string_view, 7> keys = {
      "id", "message_id", "source", "handler", "partition_key", "name", "operation_id"};
  const auto check = [](const Arg& arg, const Value& value) {
    const auto* text = std::get_if<std::string_view>(&value);
    if (text == nullptr || !text->ends_with(' ')) return;
    throw std::invalid_argument(std::string{arg.name} +
                                ": ends with a blank, which SQL Server does not tell from a text "
                                "without; leave it out");
  };
  for (const Arg& arg : args) {
    if (std::find(keys.begin(), keys.end(), arg.name) == keys.end()) continue;
    check(arg, arg.value);
    for (const Value& value : arg.column) check(arg, value);
  }
}

}  // namespace

std::size_t Box::run(Session& session, const Statement& statement, std::span<const Arg> args,
                     RowSink rows) const {
  if (session.dialect() == Dialect::sqlserver) refuse_blank_end(args);
  if (!environment_.timing) return session.execute(statement, args, rows);
  const auto begin = std::chrono::steady_clock::now();
  const std::size_t count = session.execute(statement, args, rows);
  environment_.timing(statement.name, std::chrono::steady_clock::now() - begin, count);
  return count;
}

Session& Box::require_usable(Session& session) const {
  if (session.dialect() != database_.dialect()) {
    throw UsageError("the session speaks " + std::string{to_string(session.dialect())} +
                     ", but this " + std::string{to_string(kind_)} + " lives on " +
                     std::string{to_string(database_.dialect())} +
                     ": pass a session of the box's own database");
  }
  const std::string_view database_name = session.database();
  const std::string& own_database = pool_of(database_).database();
  if (!database_name.empty() && !own_database.empty() && database_name != own_database) {
    throw UsageError("the session belongs to another database (" + std::string{database_name} +
                     ") than this " + std::string{to_string(kind_)} + " (store " +
                     database_.name() + ", " + own_database +
                     "): pass a session of the box's own database");
  }
  if (!session.in_transaction()) {
    throw UsageError(
        "the session has no open transaction, or one that an error has ended (roll it back): begin "
        "one before the call, or leave the session out to let the box use a transaction of its "
        "own");
  }
  return session;
}

void Box::log(LogLevel level, std::string_view event,
              std::initializer_list<LogField> fields) const {
  if (!logs(level)) return;
  std::vector<LogField> all{{"store", std::string_view{database_.name()}},
                            {"box", std::string_view{options_.table}}};
  all.insert(all.end(), fields.begin(), fields.end());
  BufferedLog::write(environment_, level, event, std::move(all));
}

void Box::advise(Duration lease, std::int64_t limit) {
  if ((lease < 10s || lease > 300s) && !lease_advised_.exchange(true)) {
    log(LogLevel::warning, "unusual_lease",
        {{"seconds", std::chrono::duration<double>(lease).count()},
         {"recommended", std::string_view{"10 to 300"}}});
  }
  if (limit > 100 && !limit_advised_.exchange(true)) {
    log(LogLevel::warning, "unusual_batch",
        {{"limit", limit}, {"recommended", std::string_view{"1 to 100"}}});
  }
}

CallSavepoint::CallSavepoint(Session& session, bool asks_caller)
    : session_(session),
      name_("twinbox_call"),
      plain_(session.dialect() == Dialect::sqlite ||
             (session.dialect() == Dialect::postgres && asks_caller)) {
  if (plain_) session_.execute("savepoint " + name_);
  if (session_.dialect() == Dialect::sqlserver) {
    // One call may contain another, and SQL Server knows only the last savepoint of a name.
    static std::atomic<std::uint32_t> last = 0;
    name_ += "_" + std::to_string(++last);
    session_.execute("save transaction " + name_);
  }
}

void CallSavepoint::keep() {
  if (plain_) session_.execute("release " + name_);
}

void CallSavepoint::undo() {
  if (!session_.in_transaction()) return;
  if (plain_) {
    session_.execute("rollback to " + name_);
    session_.execute("release " + name_);
  }
  if (session_.dialect() == Dialect::sqlserver) session_.execute("rollback transaction " + name_);
}

void require_lease(Duration lease) {
  if (lease <= Duration::zero() || lease > longest) {
    throw std::out_of_range("lease: must be longer than zero and at most ten years, is " +
                            std::to_string(lease.count()) + " microseconds");
  }
}

void require_delay(Duration delay) {
  if (delay <= Duration::zero() || delay > longest) {
    throw std::out_of_range("delay: must be longer than zero and at most ten years, is " +
                            std::to_string(delay.count()) + " microseconds");
  }
}

void require_limit(std::int64_t limit) {
  if (limit <= 0 || limit > largest_batch) {
    throw std::out_of_range("limit: " + std::to_string(limit) + ", must be 1 to " +
                            std::to_string(largest_batch));
  }
}

}  // namespace twinbox
