// A session over any PostgreSQL client that takes and gives text: derive from it and forward one
// call.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "twinbox/error.hpp"
#include "twinbox/session.hpp"

namespace twinbox {

/// Renders statements and turns values into PostgreSQL's text form and back. Begins, commits, sets
/// and prepares nothing. Timestamps are read in ISO form: with another DateStyle in the session,
/// reading one is an error.
class PostgresTextSession : public Session {
 public:
  /// What one statement answered.
  class TextResult {
   public:
    virtual ~TextResult();
    [[nodiscard]] virtual std::size_t rows() const = 0;
    [[nodiscard]] virtual int columns() const = 0;          ///< 0 when it was no query
    [[nodiscard]] virtual std::size_t changed() const = 0;  ///< rows inserted, updated or deleted
    /// Empty for null; valid as long as the result.
    [[nodiscard]] virtual std::optional<std::string_view> cell(std::size_t row,
                                                               int column) const = 0;
  };

  using Session::execute;
  [[nodiscard]] Dialect dialect() const noexcept final { return Dialect::postgres; }
  std::size_t execute(const Statement& statement, std::span<const Arg> args, RowSink rows) final;

 protected:
  /// Executes one statement with parameters `$1`, `$2`, … in text form; a null pointer is a null.
  /// Throws what error() made.
  virtual std::unique_ptr<TextResult> run(const std::string& sql,
                                          std::span<const char* const> parameters) = 0;

  /// An error of the statement that runs now, by its SQLSTATE or, where there is none, by its kind.
  [[nodiscard]] DatabaseError error(std::string_view sqlstate, std::string_view message) const;
  [[nodiscard]] DatabaseError error(DatabaseError::Kind kind, std::string_view message) const;

 private:
  std::size_t execute_text(std::string_view sql, std::span<const Arg> args, RowSink rows) final;
  std::unique_ptr<TextResult> run_step(const std::string& sql, std::span<const std::string> names,
                                       std::span<const Arg> args);

  std::string_view statement_;
  bool ours_ = false;
};

}  // namespace twinbox
