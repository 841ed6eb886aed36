#include "driver/postgres/postgres_connection.hpp"

#include <array>
#include <new>
#include <poll.h>
#include <string_view>
#include <utility>

#include "database/answer_timeout.hpp"
#include "driver/postgres/oids.hpp"
#include "driver/postgres/parameters.hpp"
#include "sql/render.hpp"

namespace twinbox::postgres {
namespace {

using Kind = DatabaseError::Kind;

// Our statements must not depend on statistics that do not exist yet on a fresh table, nor on a
// server's own default isolation. Timestamps use the text form that we can read; the order of day
// and month in the user's input is unchanged.
constexpr const char* planner_settings =
    "set enable_seqscan=off; set enable_bitmapscan=off; set jit=off; set "
    "plan_cache_mode=force_generic_plan; "
    "set client_min_messages=warning; set default_transaction_isolation='read committed'; set "
    "datestyle=iso";

// A caller's own statements are planned as on any other connection.
// The system identifier tells clusters apart, the timeline the promotions of one. The control file
// learns of a promotion only at the next checkpoint, the name of the current WAL file at once.
constexpr const char* ask_history =
    "; select (select system_identifier from pg_control_system()) || '/' || "
    "case when not pg_is_in_recovery() then left(pg_walfile_name(pg_current_wal_lsn()), 8) end";

constexpr std::array without_planner_settings{
    "set local enable_seqscan to default", "set local enable_bitmapscan to default",
    "set local jit to default", "set local plan_cache_mode to default",
    "set local lock_timeout to default"};

constexpr const char* begin_read_committed = "begin isolation level read committed";

constexpr std::string_view user_statement = "execute";

// An idle server rolls back immediately. An unresponsive one detects the lost connection later, and
// rolls back then.
constexpr std::chrono::seconds rollback_limit{3};

}  // namespace

PostgresConnection::PostgresConnection(Handle connection, Pooler pooler, std::string where,
                                       Limits limits, const std::stop_token& stop)
    : connection_(std::move(connection)),
      where_(std::move(where)),
      limits_(limits),
      // A foreign prepared statement under one of our names would be executed instead of ours.
      pooler_(pooler == Pooler::transaction ||
              (pooler == Pooler::unknown &&
               is_behind_a_pooler(connection_.get(), "connect", where_, limits.answer, stop))) {
  if (pooler_ && limits.lock.count() > 0) {
    set_lock_wait_timeout_ = "set local lock_timeout = " + std::to_string(limits.lock.count());
  }
  PQsetNoticeReceiver(connection_.get(), &PostgresConnection::on_notice, this);
  cancel_.reset(PQgetCancel(connection_.get()), &PQfreeCancel);
  if (!pooler_) apply_settings(stop);
  if (PQsetnonblocking(connection_.get(), 1) != 0 || PQenterPipelineMode(connection_.get()) != 1) {
    throw failure("connect", {"", first_line(PQerrorMessage(connection_.get()))}, where_, true);
  }
}

void PostgresConnection::apply_settings(const std::stop_token& stop) {
  std::string settings = planner_settings;
  if (limits_.lock.count() > 0)
    settings += "; set lock_timeout = " + std::to_string(limits_.lock.count());
  const auto send = [&](std::string sql) {
    return run_query(connection_.get(), {std::move(sql), "connect", where_, limits_.answer}, stop);
  };
  try {
    const Result answer = send(settings + ask_history);
    server_identity_ = PQgetvalue(answer.get(), 0, 0);
  } catch (const DatabaseError& error) {
    // A server without these functions, or a role without the right to call them: the
    // server_identity stays unknown.
    if (error.kind() != Kind::permission && error.kind() != Kind::missing_schema) throw;
    send(settings);
  }
}

void PostgresConnection::on_notice(void* self, const PGresult* notice) noexcept {
  // Between two pipelines libpq treats the server's last message as a notice.
  const char* severity = PQresultErrorField(notice, PG_DIAG_SEVERITY_NONLOCALIZED);
  if (severity != nullptr && std::string_view{severity} == "FATAL") {
    static_cast<PostgresConnection*>(self)->closing_ = true;
  }
  // The text is in the server's language; no other message arrives here.
  const char* function = PQresultErrorField(notice, PG_DIAG_SOURCE_FUNCTION);
  if (function != nullptr && std::string_view{function} == "SyncRepWaitForLSN") {
    static_cast<PostgresConnection*>(self)->gave_up_standby_ = true;
  }
}

void PostgresConnection::begin(Access access, Scope scope) {
  notice_a_closed_socket("begin");
  answer_timeout_ = WithoutAnswerTimeout::active() ? std::chrono::milliseconds{0} : limits_.answer;
  access_ = access;
  scope_ = scope;
  active_ = true;
  read_only_ = false;
  begin_owed_ = scope != Scope::statement;
}

void PostgresConnection::notice_a_closed_socket(std::string_view action) {
  // A write into a connection that the server closed long ago would be a commit in doubt; checked
  // beforehand, it has certainly not happened.
  for (;;) {
    pollfd socket{PQsocket(connection_.get()), POLLIN, 0};
    if (socket.fd < 0 || ::poll(&socket, 1, 0) <= 0) break;
    if (PQconsumeInput(connection_.get()) != 1) break;
    static_cast<void>(PQisBusy(connection_.get()));  // has libpq read the pending input
  }
  if (usable()) return;
  const auto reason = first_line(PQerrorMessage(connection_.get()));
  throw failure(Kind::connection_lost, action,
                {"", reason.empty() ? "the server has closed the connection" : reason}, where_,
                true);
}

void PostgresConnection::check_interrupted(std::string_view action) const {
  if (!interrupt_wanted_) return;
  throw failure(Kind::cancelled, action, {"", "stopped on request"}, where_, true);
}

std::size_t PostgresConnection::execute(const Statement& statement, std::span<const Arg> args,
                                        RowSink rows) {
  check_interrupted(statement.name);
  const auto [steps, columns, first] =
      StatementForm::of(statement, args, !pooler_ && scope_ != Scope::caller);
  std::vector<Parameters> parameters;
  parameters.reserve(steps.size());
  for (const auto& step : steps)
    parameters.emplace_back(step.params, args, statement.name, 0, columns);

  Pipeline pipeline{connection_.get()};
  std::vector<Preparation> preparations;
  std::vector<std::size_t> indexes;
  add_begin(pipeline);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    indexes.push_back(
        add_step(pipeline, statement, first + i, steps[i], parameters[i], preparations));
  }
  add_end(pipeline);
  try {
    flush(pipeline, statement.name, true, commits_alone(),
          !pooler_ && preparations.size() < steps.size());
  } catch (...) {
    remember(pipeline, preparations);
    throw;
  }
  remember(pipeline, preparations);
  // Rows are handed over after the pipeline, so that a sink that throws leaves no answer behind.
  for (const auto index : indexes) deliver(pipeline.answer(index), rows);
  return indexes.empty() ? 0 : row_count(pipeline.answer(indexes.back()));
}

std::size_t PostgresConnection::execute_text(std::string_view sql, std::span<const Arg> args,
                                             RowSink rows) {
  check_interrupted(user_statement);
  const auto [text, names] = rewrite_parameters(sql, Dialect::postgres);
  const Parameters parameters{names, args, user_statement, oid::bytea};
  Pipeline pipeline{connection_.get()};
  add_begin(pipeline);
  const auto index = pipeline.execute(text, parameters, Format::text);
  add_end(pipeline);
  flush(pipeline, user_statement, false, commits_alone(), false);
  if (scope_ != Scope::statement && PQtransactionStatus(connection_.get()) == PQTRANS_IDLE) {
    throw UsageError(
        "execute: the statement ended its transaction; do not commit or roll back in a session: "
        "return to commit, throw to roll back");
  }
  deliver(pipeline.answer(index), rows);
  return row_count(pipeline.answer(index));
}

void PostgresConnection::add_begin(Pipeline& pipeline) {
  if (begin_owed_) {
    pipeline.command(begin_read_committed);
    if (scope_ == Scope::caller && !pooler_) {
      for (const auto* command : without_planner_settings) pipeline.command(command);
    }
    begin_owed_ = false;
  } else if (scope_ == Scope::statement && pooler_) {
    pipeline.command(begin_read_committed);
  } else {
    return;
  }
  if (scope_ != Scope::caller && !set_lock_wait_timeout_.empty())
    pipeline.command(set_lock_wait_timeout_.c_str());
}

void PostgresConnection::add_end(Pipeline& pipeline) {
  if (scope_ == Scope::statement && pooler_) pipeline.command("commit");
}

std::size_t PostgresConnection::add_step(Pipeline& pipeline, const Statement& statement,
                                         std::size_t number, const Step& step,
                                         const Parameters& parameters,
                                         std::vector<Preparation>& preparations) {
  if (pooler_) return pipeline.execute(step.sql, parameters, Format::binary);
  const auto key = std::uint64_t{statement.number} << 8U | number;
  const auto found = prepared_.find(key);
  if (found == prepared_.end()) {
    std::string name = "tb" + std::to_string(statement.number) + "_" + std::to_string(number);
    if (generation_ > 0) name += "_" + std::to_string(generation_);
    const auto index = pipeline.prepare(name, step.sql, parameters);
    const auto answer = pipeline.execute_prepared(name, parameters);
    preparations.push_back({key, index, {std::move(name), parameters.types()}});
    return answer;
  }
  // Prepared for a null in place of a column, or the other way round: the types would not match.
  if (found->second.types != parameters.types())
    return pipeline.execute(step.sql, parameters, Format::binary);
  return pipeline.execute_prepared(found->second.name, parameters);
}

void PostgresConnection::remember(const Pipeline& pipeline,
                                  std::vector<Preparation>& preparations) {
  // A prepared statement outlives the rollback of the transaction it was made in.
  for (auto& preparation : preparations) {
    if (pipeline.answer(preparation.index) != nullptr && pipeline.succeeded(preparation.index)) {
      prepared_.insert_or_assign(preparation.key, std::move(preparation.prepared));
    }
  }
}

bool PostgresConnection::commits_alone() const noexcept {
  return scope_ == Scope::statement && access_ != Access::read;
}

void PostgresConnection::flush(Pipeline& pipeline, std::string_view statement, bool ours,
                               bool may_commit, bool used_cache) {
  const Pipeline::Interrupt interrupt{interrupt_wanted_, cancel_};
  broken_ = true;
  pipeline.flush(answer_timeout_, &interrupt);
  broken_ = !pipeline.complete();
  closing_ = closing_ || pipeline.interrupted();
  // Never interrupt a commit: while it waits for its standby it would end as if the standby had it.
  if (pipeline.timed_out() && !pipeline.interrupted() && !may_commit) request_cancel(cancel_);
  if (broken_) fail_lost(pipeline, statement, ours, may_commit);
  if (std::exchange(gave_up_standby_, false)) {
    throw failure(Kind::commit_in_doubt, statement,
                  {"",
                   "the server was told to wait no longer for its standby, so a failover may "
                   "undo the commit"},
                  where_, ours);
  }
  const auto* error = pipeline.error();
  if (error == nullptr) return;
  auto server_error = server_error_of(error);
  auto kind = kind_of(server_error.sqlstate);
  // The server has dropped our prepared statements (DISCARD ALL, another server behind the same
  // address), or their result type has changed with the schema: prepared again, they work. Nothing
  // was committed.
  if (used_cache && (server_error.sqlstate == "26000" || server_error.sqlstate == "0A000")) {
    prepared_.clear();
    ++generation_;
    kind = Kind::contention;
  }
  read_only_ = read_only_ || kind == Kind::read_only;
  closing_ = closing_ || ends_connection(server_error.sqlstate);
  if (server_error.sqlstate == "55P03" && scope_ != Scope::caller) {
    server_error.hint =
        "Another open transaction locked the rows for longer than wait_timeout: end that "
        "transaction, or raise wait_timeout; inside it, pass its Session on";
  }
  if (scope_ == Scope::statement) rollback();
  throw failure(kind, statement, server_error, where_, ours);
}

void PostgresConnection::fail_lost(const Pipeline& pipeline, std::string_view statement, bool ours,
                                   bool may_commit) {
  const auto* error = pipeline.error();
  if (pipeline.is_copy()) {
    throw failure(Kind::invalid_request, statement,
                  {"0A000", "COPY cannot be used here: use insert or select"}, where_, ours);
  }
  auto server_error = error != nullptr
                          ? server_error_of(error)
                          : ServerError{"", first_line(PQerrorMessage(connection_.get()))};
  // An administrator's shutdown that interrupts a statement rolls it back before the connection
  // ends. Only the server itself can report that: a pooler's message about a server that it lost
  // proves nothing.
  const bool rolled_back = server_error.sqlstate == "57P01" && error != pipeline.error_at_end() &&
                           !pooler_ && scope_ == Scope::statement;
  const bool in_doubt = may_commit && pipeline.sent() && !rolled_back;
  if (pipeline.interrupted() && error == nullptr) {
    server_error.message = "stopped on request, and the server did not answer";
  } else if (pipeline.timed_out()) {
    server_error.message = no_answer_within(answer_timeout_);
  }
  if (server_error.message.empty()) server_error.message = "the connection to the server broke";
  throw failure(in_doubt ? Kind::commit_in_doubt : Kind::connection_lost, statement, server_error,
                where_, ours);
}

bool PostgresConnection::in_transaction() const {
  if (!active_ || !usable()) return false;
  if (scope_ == Scope::statement || begin_owed_) return true;
  return PQtransactionStatus(connection_.get()) == PQTRANS_INTRANS;
}

void PostgresConnection::commit() {
  const bool nothing_open = scope_ == Scope::statement || begin_owed_;
  interrupt_wanted_ = false;
  active_ = false;
  begin_owed_ = false;
  if (nothing_open) return;
  notice_a_closed_socket("commit");
  Pipeline pipeline{connection_.get()};
  const auto index = pipeline.command("commit");
  flush(pipeline, "commit", true, access_ != Access::read, false);
  if (std::string_view{PQcmdStatus(const_cast<PGresult*>(pipeline.answer(index)))} != "COMMIT") {
    throw failure(
        Kind::invalid_request, "commit",
        {"25P02",
         "nothing was committed: a statement in the transaction had failed, so the server "
         "rolled it back"},
        where_, true);
  }
}

void PostgresConnection::rollback() noexcept {
  interrupt_wanted_ = false;
  active_ = false;
  begin_owed_ = false;
  // A session keeps its mode. Another server may be the primary now, or this one may be writable
  // again: a new connection detects that.
  closing_ = closing_ || read_only_;
  if (!usable() || PQtransactionStatus(connection_.get()) == PQTRANS_IDLE) return;
  try {
    Pipeline pipeline{connection_.get()};
    pipeline.command("rollback");
    broken_ = true;
    pipeline.flush(rollback_limit);
    broken_ = !pipeline.complete() || pipeline.error() != nullptr;
  } catch (...) {
    broken_ = true;
  }
}

bool PostgresConnection::usable() const noexcept {
  return !broken_ && !closing_ && PQstatus(connection_.get()) == CONNECTION_OK;
}

}  // namespace twinbox::postgres
