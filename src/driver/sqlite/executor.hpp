// Runs statements on one SQLite connection: our own blocks and the caller's SQL, prepared once and
// cached.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "driver/sqlite/handle.hpp"
#include "driver/sqlite/prepared.hpp"
#include "driver/sqlite/recently_used.hpp"
#include "sql/statement.hpp"
#include "twinbox/session.hpp"

namespace twinbox {

/// Not thread-safe. The handle is borrowed and must outlive the executor.
class SqliteExecutor {
 public:
  explicit SqliteExecutor(SqliteHandle& handle);

  /// A call in a transaction of our own: after an exception it must be rolled back.
  std::size_t execute(const Statement& statement, std::span<const Arg> args, RowSink rows);
  std::size_t execute(std::string_view sql, std::span<const Arg> args, RowSink rows);

  /// A call in a caller's transaction: after an exception nothing of the call is left, and the
  /// transaction stays usable unless the message says otherwise.
  std::size_t execute_for_caller(const Statement& statement, std::span<const Arg> args,
                                 RowSink rows);
  std::size_t execute_for_caller(std::string_view sql, std::span<const Arg> args, RowSink rows);

 private:
  /// Where a parameter's value comes from: an argument, or a cell of the row an `each` step runs
  /// for.
  struct Binding {
    int parameter;
    std::size_t from;
  };

  struct PreparedStep {
    PreparedStatement statement;
    bool each = false;
    bool returns_rows = false;
    std::size_t source = 0;         ///< the step whose rows an `each` step runs for
    std::vector<Binding> scalars;   ///< from arguments, once per call
    std::vector<Binding> columns;   ///< from arguments, once per element
    std::vector<Binding> cells;     ///< from the source's row
    std::vector<int> kept_columns;  ///< of this step's rows, for the `each` steps that use them
  };

  struct ArgumentShape {
    std::string name;
    bool is_column;
  };

  struct Block {
    std::string name;
    bool own = true;  ///< one of our own statements, not the caller's SQL
    std::vector<PreparedStep> steps;
    std::vector<ArgumentShape> shape;  ///< the arguments that the bindings were made for
    bool planned = false;
    std::unique_ptr<Block> many;  ///< instead of the steps, for more than a few elements
  };

  struct Cell {
    int type;
    std::int64_t integer;
    double real;
    std::size_t offset;
    std::size_t size;
  };

  /// The kept columns of a step's rows; its memory serves one call after the other.
  struct KeptRows {
    std::size_t count = 0;
    std::vector<Cell> cells;
    std::string bytes;

    void clear() noexcept;
    void add(sqlite3_stmt* statement, std::span<const int> columns);
  };

  Block make_block(std::string_view name, std::span<const Step> steps);
  Block& block_of(const Statement& statement);
  Block& block_of(std::string_view sql);

  void plan(Block& block, std::span<const Arg> args) const;
  static void plan_step(Block& block, std::size_t number, std::span<const Arg> args);
  static bool is_planned_for(const Block& block, std::span<const Arg> args);

  std::size_t run(Block& block, std::span<const Arg> args, RowSink rows);
  std::size_t run_many(Block& block, std::span<const Arg> args, RowSink rows);
  std::size_t run_for_caller(Block& block, std::span<const Arg> args, RowSink rows);
  void bind_scalars(const Block& block, std::span<const Arg> args);
  std::size_t run_element(Block& block, std::span<const Arg> args, std::size_t element,
                          RowSink rows);
  std::size_t run_each(const Block& block, std::size_t number, RowSink rows);
  std::size_t run_step(const Block& block, std::size_t number, RowSink rows);
  void bind_cell(const Block& block, const PreparedStep& step, const Binding& binding,
                 const Cell& cell);

  void open_savepoint(const Block& block);
  bool undo_savepoint() noexcept;
  DatabaseError could_not_undo(const Block& block);

  SqliteHandle& handle_;
  RecentlyUsed<std::uint32_t, Block> blocks_;
  RecentlyUsed<std::string, Block> texts_;
  std::vector<KeptRows> kept_;  ///< one per step of the longest block so far
  PreparedStatement savepoint_;
  PreparedStatement release_;
  PreparedStatement undo_;
};

}  // namespace twinbox
