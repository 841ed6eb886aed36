// Our own statements as data: read from sql/<dialect>/*.sql, rendered once per table.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "twinbox/session.hpp"

namespace twinbox {

/// One SQL statement of a block.
struct Step {
  std::string sql;  ///< parameters as the dialect writes them: @name, or $1 (PostgreSQL)
  std::vector<std::string> params;  ///< names in order of their first use; $n is params[n - 1]
  /// SQLite: runs once per row of the last step that returned rows; parameters that the call does
  /// not give are that row's columns of the same name.
  bool each = false;
};

/// A named block. Its steps run in order, in one transaction. SQLite runs the whole block once per
/// element of the call's columns; PostgreSQL binds a column as one array. On SQL Server a block is
/// one step, a batch, and takes all columns as one JSON array @rows, their bytes as @bytes.
struct Statement {
  std::string_view name;  ///< also the log's, the metric's and the prepared statement's word
  std::uint32_t number;   ///< unique in this process: the key of a connection's statement cache
  std::vector<Step> steps;
  /// PostgreSQL: `select * from <function>(…)`, for sessions that may not set the planner (somebody
  /// else's connection, or one behind a pooler). Empty when there is no such function.
  std::vector<Step> call = {};
  /// PostgreSQL: what is run instead of the steps when there is one element of each column, which
  /// is given as it is, without an array. To take arrays apart costs a single call a sixth.
  std::vector<Step> one = {};
  /// SQLite: what is run instead of the steps for more than a few elements, once. Takes the
  /// columns id and epoch of the call as one JSON object @rows. What starts once is cheaper than
  /// what starts for each, but SQLite makes a table for it.
  std::vector<Step> many = {};
};

}  // namespace twinbox
