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
  /// SQLite: runs once per row of the last step that returned rows; parameters without an argument
  /// are that row's columns of the same name.
  bool each = false;
};

/// A named block. Its steps run in order, in one transaction. SQLite runs the whole block once per
/// element of the call's columns; PostgreSQL binds a column as one array. On SQL Server a block is
/// one step, a batch, and takes all columns as one JSON array @rows, their bytes as @bytes.
struct Statement {
  std::string_view name;  ///< also the log's, the metric's and the prepared statement's word
  std::uint32_t number;   ///< unique in this process: the key of a connection's statement cache
  std::vector<Step> steps;
  /// PostgreSQL: `select * from <function>(…)`, for sessions that may not set the planner (a
  /// caller's connection, or one behind a pooler). Empty when there is no such function.
  std::vector<Step> call = {};
  /// PostgreSQL: the steps for one element of each column, which is passed as a scalar. For a
  /// single call arrays cost a sixth more.
  std::vector<Step> one = {};
  /// SQLite: one run instead of the steps for more than a few elements. Takes the columns id and
  /// epoch of the call as one JSON object @rows. One run is cheaper than one per element, but
  /// SQLite builds a table for it.
  std::vector<Step> many = {};
};

}  // namespace twinbox
