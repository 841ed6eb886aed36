#include "driver/sqlserver/batch.hpp"

#include <algorithm>
#include <stdexcept>

#include "sql/render.hpp"

namespace twinbox::sqlserver {
namespace {

constexpr std::string_view rows_name = "rows";
constexpr std::string_view bytes_name = "bytes";

const Arg& argument(std::span<const Arg> args, std::string_view name, std::string_view action) {
  const auto found = std::ranges::find(args, name, &Arg::name);
  if (found != args.end()) return *found;
  throw std::invalid_argument(std::string{action} + ": the parameter @" + std::string{name} +
                              " has no argument: pass one with this name");
}

std::vector<std::string> names_of(const Statement& statement) {
  std::vector<std::string> names;
  for (const Step& step : statement.steps) {
    for (const std::string& name : step.params) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

/// A driver may report a broken connection with a state of its own.
bool is_dead(SQLHDBC connection) {
  SQLUINTEGER dead = SQL_CD_FALSE;
  SQLGetConnectAttr(connection, SQL_ATTR_CONNECTION_DEAD, &dead, 0, nullptr);
  return dead == SQL_CD_TRUE;
}

Answer execute(const ExecutionContext& target, std::string_view action, bool ours,
               std::string_view sql, Parameters* parameters) {
  const StatementHandle statement = new_statement(target.connection, action, target.where);
  if (target.answer_seconds > 0) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): ODBC passes numbers as pointers
    SQLSetStmtAttr(statement.get(), SQL_ATTR_QUERY_TIMEOUT,
                   reinterpret_cast<SQLPOINTER>(target.answer_seconds), 0);
  }
  if (parameters != nullptr) parameters->bind(statement.get(), action, target.where);
  std::u16string text = to_utf16(sql);
  const Running::Mark mark{target.running, statement.get()};
  auto code = SQLExecDirectW(statement.get(), wide(text), static_cast<SQLINTEGER>(text.size()));
  code = Parameters::feed(statement.get(), code);
  Answer answer;
  // SQL_NO_DATA: a statement without changes, which is an answer and not an end.
  while (succeeded(code) || code == SQL_NO_DATA) {
    if (succeeded(code)) answer.take(statement.get(), action, target.where, ours);
    code = SQLMoreResults(statement.get());
    if (code == SQL_NO_DATA) return answer;
  }
  const ServerError server_error = server_error_of(SQL_HANDLE_STMT, statement.get());
  const auto kind =
      is_dead(target.connection) ? DatabaseError::Kind::connection_lost : kind_of(server_error);
  throw failure(kind, action, server_error, target.where, ours);
}

constexpr std::string_view undo_call = "if xact_state() = 1 rollback transaction twinbox_call";

void undo(const ExecutionContext& target, const DatabaseError& error) {
  try {
    run_text(target, "rollback", undo_call);
    if (transaction_state(target) == TransactionState::open) return;
  } catch (const DatabaseError&) {  // the first error says more
  }
  throw DatabaseError(error.kind(),
                      std::string{error.what()} +
                          "; the server keeps nothing of the transaction: roll it back and begin "
                          "it again",
                      error.native_code());
}

}  // namespace

void Running::interrupt() noexcept {
  wanted_ = true;
  const std::scoped_lock lock{mutex_};
  if (statement_ != SQL_NULL_HSTMT) SQLCancel(statement_);
}

Running::Mark::Mark(Running* running, SQLHSTMT statement) : running_(running) {
  if (running_ == nullptr) return;
  const std::scoped_lock lock{running_->mutex_};
  running_->statement_ = statement;
}

Running::Mark::~Mark() {
  if (running_ == nullptr) return;
  const std::scoped_lock lock{running_->mutex_};
  running_->statement_ = SQL_NULL_HSTMT;
}

Batch::Batch(const Statement& statement, std::span<const Arg> args)
    : action_(statement.name), ours_(true) {
  for (const Step& step : statement.steps) text_.append(step.sql) += ";\n";
  const auto names = names_of(statement);
  declare(names, args);
  if (parameters_.count() == 0) return;
  // Only result sets count: intermediate changes of a block are not part of its result. The setting
  // is local to the parameterized execution and ends with it.
  begin_with("set nocount on");
}

Batch::Batch(std::string_view sql, std::span<const Arg> args) : action_("execute"), ours_(false) {
  text_ = sql;
  if (!args.empty()) declare(rewrite_parameters(sql, Dialect::sqlserver).second, args);
}

void Batch::declare(std::span<const std::string> names, std::span<const Arg> args) {
  if (names.empty()) return;
  std::string head = "declare ";
  for (const std::string& name : names) {
    if (head.back() != ' ') head += ", ";
    declare_one(head, name, args);
  }
  text_.insert(0, head + ";\n");
}

void Batch::declare_one(std::string& head, std::string_view name, std::span<const Arg> args) {
  head.append("@").append(name) += ' ';
  if (ours_ && (name == rows_name || name == bytes_name)) {
    if (!rows_) rows_.emplace(args, action_);
    const bool is_json = name == rows_name;
    head += is_json ? "nvarchar(max) = ?" : "varbinary(max) = ?";
    parameters_.add(is_json ? Value{std::string_view{rows_->json}} : Value{Bytes{rows_->bytes}});
    return;
  }
  const Arg& arg = argument(args, name, action_);
  if (arg.is_column) {
    throw std::invalid_argument(std::string{action_} + ": the column @" + std::string{name} +
                                " is no single value: read it from @rows");
  }
  const bool is_null = arg.value.index() == 0;
  if (ours_ && name == "now") {
    head += is_null ? "datetime2(6) = sysutcdatetime()" : "datetime2(6) = ?";
  } else {
    head.append(declared_type(arg.value)).append(is_null ? " = null" : " = ?");
  }
  if (!is_null) parameters_.add(arg.value);
}

Answer Batch::run(const ExecutionContext& target) {
  return execute(target, action_, ours_, text_, &parameters_);
}

TransactionState transaction_state(const ExecutionContext& target) {
  std::int64_t state = 0;
  run_text(target, "transaction", "select cast(xact_state() as int)").deliver([&](const Row& row) {
    state = row.integer(0);
  });
  if (state == 0) return TransactionState::none;
  return state > 0 ? TransactionState::open : TransactionState::doomed;
}

std::size_t run_for_caller(Batch& batch, const ExecutionContext& target, RowSink rows) {
  if (batch.idle()) return 0;
  batch.begin_with("save transaction twinbox_call");
  try {
    const Answer answer = batch.run(target);
    answer.deliver(rows);
    return answer.count();
  } catch (const DatabaseError& error) {
    undo(target, error);
    throw;
  } catch (...) {
    run_text(target, "rollback", undo_call);
    throw;
  }
}

Answer run_text(const ExecutionContext& target, std::string_view action, std::string_view sql,
                Parameters* parameters) {
  return execute(target, action, true, sql, parameters);
}

}  // namespace twinbox::sqlserver
