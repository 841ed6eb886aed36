#include "driver/sqlite/executor.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <stdexcept>

namespace twinbox {
namespace {

constexpr std::size_t blocks_bound = 512;
constexpr std::size_t texts_bound = 32;
constexpr std::size_t kept_bytes_bound = 1U << 20U;
/// Above this number of elements, one run for all costs less than one run for each.
constexpr std::size_t many = 8;

std::string_view parameter_name(std::string_view what, sqlite3_stmt* statement, int parameter) {
  const char* name = sqlite3_bind_parameter_name(statement, parameter);
  if (name == nullptr || *name != '@') {
    throw UsageError(std::string{what} + ": parameter " + std::to_string(parameter) +
                     " has no name; write parameters as @name");
  }
  return name + 1;
}

std::optional<std::size_t> find_argument(std::span<const Arg> args, std::string_view name) {
  const auto found = std::ranges::find(args, name, &Arg::name);
  if (found == args.end()) return std::nullopt;
  return static_cast<std::size_t>(found - args.begin());
}

std::optional<int> find_column(sqlite3_stmt* statement, std::string_view name) {
  for (int column = 0; column < sqlite3_column_count(statement); ++column) {
    const char* candidate = sqlite3_column_name(statement, column);
    if (candidate != nullptr && name == candidate) return column;
  }
  return std::nullopt;
}

/// How often a call runs its block: once, or once per element of its columns.
std::size_t count_elements(std::string_view what, std::span<const Arg> args) {
  std::optional<std::size_t> count;
  for (const auto& arg : args) {
    if (!arg.is_column) continue;
    if (count && *count != arg.column.size()) {
      throw std::logic_error(std::string{what} + ": column @" + std::string{arg.name} + " has " +
                             std::to_string(arg.column.size()) + " elements, the one before it " +
                             std::to_string(*count) + "; give columns of equal length");
    }
    count = arg.column.size();
  }
  return count.value_or(1);
}

/// As {"<id>": epoch, …}.
std::string object_of(std::span<const Value> ids, std::span<const Value> epochs) {
  std::string text = "{";
  for (std::size_t i = 0; i < ids.size(); ++i) {
    text.append(i == 0 ? "\"" : ",\"").append(std::to_string(std::get<std::int64_t>(ids[i])));
    text.append("\":").append(std::to_string(std::get<std::int64_t>(epochs[i])));
  }
  return text.append("}");
}

Value wall_clock() {
  return Instant{std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now())};
}

}  // namespace

void SqliteExecutor::KeptRows::clear() noexcept {
  count = 0;
  cells.clear();
  bytes.clear();
}

void SqliteExecutor::KeptRows::add(sqlite3_stmt* statement, std::span<const int> columns) {
  for (const int column : columns) {
    Cell cell{.type = sqlite3_column_type(statement, column),
              .integer = 0,
              .real = 0,
              .offset = 0,
              .size = 0};
    if (cell.type == SQLITE_INTEGER) {
      cell.integer = sqlite3_column_int64(statement, column);
    } else if (cell.type == SQLITE_FLOAT) {
      cell.real = sqlite3_column_double(statement, column);
    } else if (cell.type != SQLITE_NULL) {
      const SqliteRow row{statement};
      const auto data = cell.type == SQLITE_TEXT ? row.text(column) : row.bytes(column);
      cell.offset = bytes.size();
      cell.size = data.size();
      bytes.append(data);
    }
    cells.push_back(cell);
  }
  ++count;
}

SqliteExecutor::SqliteExecutor(SqliteHandle& handle)
    : handle_(handle), blocks_(blocks_bound), texts_(texts_bound) {}

std::size_t SqliteExecutor::execute(const Statement& statement, std::span<const Arg> args,
                                    RowSink rows) {
  return run(block_of(statement), args, rows);
}

std::size_t SqliteExecutor::execute(std::string_view sql, std::span<const Arg> args, RowSink rows) {
  return run(block_of(sql), args, rows);
}

std::size_t SqliteExecutor::execute_for_caller(const Statement& statement,
                                               std::span<const Arg> args, RowSink rows) {
  return run_for_caller(block_of(statement), args, rows);
}

std::size_t SqliteExecutor::execute_for_caller(std::string_view sql, std::span<const Arg> args,
                                               RowSink rows) {
  return run_for_caller(block_of(sql), args, rows);
}

SqliteExecutor::Block SqliteExecutor::make_block(std::string_view name,
                                                 std::span<const Step> steps) {
  Block block;
  block.name = name;
  for (const auto& step : steps) {
    PreparedStep prepared;
    prepared.statement = prepare(handle_, block.name, step.sql);
    prepared.each = step.each;
    prepared.returns_rows = sqlite3_column_count(prepared.statement.get()) > 0;
    block.steps.push_back(std::move(prepared));
  }
  return block;
}

SqliteExecutor::Block& SqliteExecutor::block_of(const Statement& statement) {
  return blocks_.get(statement.number, [&] {
    if (statement.steps.empty()) {
      throw std::logic_error(std::string{statement.name} + ": the statement has no SQL for SQLite");
    }
    Block block = make_block(statement.name, statement.steps);
    if (!statement.many.empty())
      block.many = std::make_unique<Block>(make_block(statement.name, statement.many));
    return block;
  });
}

SqliteExecutor::Block& SqliteExecutor::block_of(std::string_view sql) {
  return texts_.get(sql, [&] {
    Block block;
    block.name = "execute";
    block.own = false;
    if (ends_or_begins_transaction(sql)) {
      throw UsageError(
          "execute: a session can neither begin nor end a transaction; leave that to its "
          "owner, or use a savepoint");
    }
    PreparedStep prepared;
    prepared.statement = prepare(handle_, block.name, sql);
    prepared.returns_rows = sqlite3_column_count(prepared.statement.get()) > 0;
    block.steps.push_back(std::move(prepared));
    return block;
  });
}

bool SqliteExecutor::is_planned_for(const Block& block, std::span<const Arg> args) {
  return block.planned &&
         std::ranges::equal(block.shape, args, [](const ArgumentShape& shape, const Arg& arg) {
           return shape.is_column == arg.is_column && shape.name == arg.name;
         });
}

void SqliteExecutor::plan(Block& block, std::span<const Arg> args) const {
  block.planned = false;
  block.shape.clear();
  for (const auto& arg : args) block.shape.push_back({std::string{arg.name}, arg.is_column});
  for (auto& step : block.steps) {
    step.scalars.clear();
    step.columns.clear();
    step.cells.clear();
    step.kept_columns.clear();
  }
  for (std::size_t number = 0; number < block.steps.size(); ++number)
    plan_step(block, number, args);
  block.planned = true;
}

void SqliteExecutor::plan_step(Block& block, std::size_t number, std::span<const Arg> args) {
  auto& step = block.steps[number];
  PreparedStep* source = nullptr;
  if (step.each) {
    // A step without results passes on the rows it ran for.
    step.source = number == 0 ? 0 : number - 1;
    while (step.source > 0 && !block.steps[step.source].returns_rows &&
           block.steps[step.source].each) {
      --step.source;
    }
    source = &block.steps[step.source];
    if (number == 0 || !source->returns_rows) {
      throw std::logic_error(block.name + ": step " + std::to_string(number + 1) +
                             " runs for each row of the step before, which returns none");
    }
  }

  sqlite3_stmt* statement = step.statement.get();
  for (int parameter = 1; parameter <= sqlite3_bind_parameter_count(statement); ++parameter) {
    const auto name = parameter_name(block.name, statement, parameter);
    if (const auto argument = find_argument(args, name)) {
      (args[*argument].is_column ? step.columns : step.scalars).push_back({parameter, *argument});
      continue;
    }
    const auto column =
        source != nullptr ? find_column(source->statement.get(), name) : std::nullopt;
    if (!column) {
      throw UsageError(block.name + ": parameter @" + std::string{name} +
                       " has no argument of that name");
    }
    auto& kept = source->kept_columns;
    const auto known = std::ranges::find(kept, *column);
    step.cells.push_back({parameter, static_cast<std::size_t>(known - kept.begin())});
    if (known == kept.end()) kept.push_back(*column);
  }
}

std::size_t SqliteExecutor::run(Block& block, std::span<const Arg> args, RowSink rows) {
  const auto elements = count_elements(block.name, args);
  if (block.many && elements >= many) return run_many(*block.many, args, rows);
  if (!is_planned_for(block, args)) plan(block, args);
  if (kept_.size() < block.steps.size()) kept_.resize(block.steps.size());
  if (elements > 0) bind_scalars(block, args);

  std::size_t total = 0;
  for (std::size_t element = 0; element < elements; ++element) {
    // SQLite forgets an interrupt that arrives between two statements.
    handle_.check_interrupted(block.name);
    total += run_element(block, args, element, rows);
  }
  for (auto& kept : kept_) {
    if (kept.bytes.capacity() > kept_bytes_bound) kept = {};
  }
  return total;
}

/// `block` is the form for many elements.
std::size_t SqliteExecutor::run_many(Block& block, std::span<const Arg> args, RowSink rows) {
  std::vector<Arg> scalars;
  const Arg* ids = nullptr;
  const Arg* epochs = nullptr;
  for (const auto& arg : args) {
    if (!arg.is_column) {
      scalars.push_back(arg);
    } else if (arg.name == "id") {
      ids = &arg;
    } else if (arg.name == "epoch") {
      epochs = &arg;
    } else {
      throw std::logic_error(block.name + ": column @" + std::string{arg.name} +
                             " has no place in @rows, which is made of @id and @epoch");
    }
  }
  if (ids == nullptr || epochs == nullptr) {
    throw std::logic_error(block.name + ": @rows is made of the columns @id and @epoch; give both");
  }
  const std::string object = object_of(ids->column, epochs->column);
  scalars.emplace_back("rows", std::string_view{object});
  return run(block, scalars, rows);
}

void SqliteExecutor::bind_scalars(const Block& block, std::span<const Arg> args) {
  std::optional<Value> now;
  for (const auto& step : block.steps) {
    for (const auto& [parameter, from] : step.scalars) {
      const auto& arg = args[from];
      const Value* value = &arg.value;
      if (block.own && arg.name == "now" && std::holds_alternative<std::monostate>(arg.value)) {
        if (!now) now = wall_clock();
        value = &*now;
      }
      bind_value(handle_, block.name, step.statement.get(), parameter, *value);
    }
  }
}

std::size_t SqliteExecutor::run_element(Block& block, std::span<const Arg> args,
                                        std::size_t element, RowSink rows) {
  std::size_t last = 0;
  for (std::size_t number = 0; number < block.steps.size(); ++number) {
    const auto& step = block.steps[number];
    for (const auto& [parameter, from] : step.columns) {
      bind_value(handle_, block.name, step.statement.get(), parameter, args[from].column[element]);
    }
    kept_[number].clear();
    last = step.each ? run_each(block, number, rows) : run_step(block, number, rows);
  }
  return last;
}

std::size_t SqliteExecutor::run_each(const Block& block, std::size_t number, RowSink rows) {
  const auto& step = block.steps[number];
  const auto& source = kept_[step.source];
  const auto width = block.steps[step.source].kept_columns.size();
  std::size_t total = 0;
  for (std::size_t row = 0; row < source.count; ++row) {
    for (const auto& binding : step.cells) {
      bind_cell(block, step, binding, source.cells[row * width + binding.from]);
    }
    total += run_step(block, number, rows);
  }
  return total;
}

void SqliteExecutor::bind_cell(const Block& block, const PreparedStep& step, const Binding& binding,
                               const Cell& cell) {
  const auto data = std::string_view{kept_[step.source].bytes}.substr(cell.offset, cell.size);
  Value value;
  switch (cell.type) {
    case SQLITE_INTEGER: value = cell.integer; break;
    case SQLITE_FLOAT: value = cell.real; break;
    case SQLITE_TEXT: value = data; break;
    case SQLITE_BLOB: value = Bytes{data}; break;
    default: break;
  }
  bind_value(handle_, block.name, step.statement.get(), binding.parameter, value);
}

std::size_t SqliteExecutor::run_step(const Block& block, std::size_t number, RowSink rows) {
  const auto& step = block.steps[number];
  sqlite3_stmt* statement = step.statement.get();
  const ResetAtEnd reset{statement};

  if (!step.returns_rows) {
    const auto before = sqlite3_total_changes64(handle_.db);
    if (sqlite3_step(statement) != SQLITE_DONE) throw handle_.error(block.name);
    // A statement that changes no rows, such as a CREATE, leaves the count of the one before it.
    const bool changed = sqlite3_total_changes64(handle_.db) != before;
    return changed ? static_cast<std::size_t>(sqlite3_changes64(handle_.db)) : 0;
  }

  std::size_t count = 0;
  int code = SQLITE_ROW;
  const SqliteRow row{statement};
  while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
    ++count;
    // Copied before the sink sees the row: reading a column as another type converts it in place.
    if (number + 1 < block.steps.size() && block.steps[number + 1].each) {
      kept_[number].add(statement, step.kept_columns);
    }
    rows(row);
  }
  if (code != SQLITE_DONE) throw handle_.error(block.name);
  return count;
}

std::size_t SqliteExecutor::run_for_caller(Block& block, std::span<const Arg> args, RowSink rows) {
  const auto& first = block.steps.front();
  // Returned rows count as a second action: a sink that throws must find the change undone.
  const bool single_statement =
      block.steps.size() == 1 && count_elements(block.name, args) <= 1 &&
      (!first.returns_rows || sqlite3_stmt_readonly(first.statement.get()) != 0);
  try {
    if (single_statement) return run(block, args, rows);
    open_savepoint(block);
    try {
      const auto count = run(block, args, rows);
      run_to_end(handle_, block.name, release_.get());
      return count;
    } catch (...) {
      if (!undo_savepoint()) throw could_not_undo(block);
      throw;
    }
  } catch (const DatabaseError& error) {
    if (handle_.in_transaction()) throw;
    throw DatabaseError(error.kind(),
                        std::string{error.what()} +
                            "; SQLite has rolled back the whole transaction: begin it again",
                        error.native_code());
  }
}

void SqliteExecutor::open_savepoint(const Block& block) {
  if (savepoint_ == nullptr) {
    undo_ = prepare(handle_, block.name, "rollback to twinbox_call");
    release_ = prepare(handle_, block.name, "release twinbox_call");
    savepoint_ = prepare(handle_, block.name, "savepoint twinbox_call");
  }
  const ResetAtEnd reset{savepoint_.get()};
  const int code = sqlite3_step(savepoint_.get());
  if (code == SQLITE_DONE) return;
  if (code == SQLITE_BUSY) {
    throw UsageError(
        block.name +
        ": a writing statement of yours is still running on this sqlite3 connection: step it "
        "to its end or reset it first (" +
        handle_.file + ")");
  }
  throw handle_.error(block.name);
}

bool SqliteExecutor::undo_savepoint() noexcept {
  if (!handle_.in_transaction()) return true;
  const int undone = sqlite3_step(undo_.get());
  sqlite3_reset(undo_.get());
  const int released = sqlite3_step(release_.get());
  sqlite3_reset(release_.get());
  return undone == SQLITE_DONE && released == SQLITE_DONE;
}

DatabaseError SqliteExecutor::could_not_undo(const Block& block) {
  const auto reason = handle_.error(block.name);
  return {DatabaseError::Kind::other,
          std::string{reason.what()} + "; half of the call may be left: roll back your transaction",
          reason.native_code()};
}

}  // namespace twinbox
