// The arguments of one statement in libpq's form.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <libpq-fe.h>

#include "sql/statement.hpp"
#include "twinbox/session.hpp"

namespace twinbox::postgres {

enum class Columns {
  arrays,
  sparse_arrays,  ///< a column of nothing but nulls goes as a null: half of most messages' columns
  scalars,        ///< where the SQL is for one element of each
};

/// Scalars go as text and leave their type to the server, which infers it from the SQL: a null has
/// no type of its own, and a prepared statement must not depend on its first call. Columns go as
/// binary arrays of a declared type, or as scalars; bytes go as they are. Borrows the arguments'
/// bytes.
class Parameters {
 public:
  /// `names[n - 1]` is `$n`. `bytes_type` is the declared type of bytes: 0 where the SQL has a
  /// cast. Throws std::invalid_argument when an argument is missing, DatabaseError when a value
  /// cannot be sent.
  Parameters(std::span<const std::string> names, std::span<const Arg> args,
             std::string_view statement, Oid bytes_type, Columns columns = Columns::arrays);

  [[nodiscard]] int count() const noexcept { return static_cast<int>(types_.size()); }
  [[nodiscard]] const std::vector<Oid>& types() const noexcept { return types_; }
  [[nodiscard]] const char* const* values() const noexcept { return values_.data(); }
  [[nodiscard]] const int* lengths() const noexcept { return lengths_.data(); }
  [[nodiscard]] const int* formats() const noexcept { return formats_.data(); }

 private:
  void add_scalar(const Value& value, Oid bytes_type);
  void add_only(const Arg& column);
  void add_column(const Arg& column, Columns columns);
  void add(Oid type, const char* value, std::size_t length, int format);

  std::vector<Oid> types_;
  std::vector<const char*> values_;
  std::vector<int> lengths_;
  std::vector<int> formats_;
  std::vector<std::string>
      buffers_;  // one for each parameter that is not sent from the caller's own memory
};

/// The executed form of a statement.
struct StatementForm {
  std::span<const Step> steps;
  Columns columns = Columns::sparse_arrays;
  std::size_t number = 0;  ///< of its first step, unique among all forms of the statement

  /// `may_set_planner`: the session has the settings that the steps want of the planner.
  static StatementForm of(const Statement& statement, std::span<const Arg> args,
                          bool may_set_planner);
};

}  // namespace twinbox::postgres
