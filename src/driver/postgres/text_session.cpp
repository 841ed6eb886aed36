#include <stdexcept>

#include "driver/postgres/failure.hpp"
#include "driver/postgres/text_format.hpp"
#include "sql/render.hpp"
#include "sql/statement.hpp"
#include "twinbox/detail/postgres_text_session.hpp"

namespace twinbox {
namespace {

using TextResult = PostgresTextSession::TextResult;

class Cells final : public postgres::TextRow {
 public:
  explicit Cells(const TextResult& result) : result_(result) {}
  void move_to(std::size_t row) {
    row_ = row;
    next_row();
  }

 private:
  [[nodiscard]] std::optional<std::string_view> cell(int column) const override {
    if (column < 0 || column >= result_.columns()) {
      throw std::out_of_range("column " + std::to_string(column) + " of a result with " +
                              std::to_string(result_.columns()) +
                              " columns (they are counted from 0)");
    }
    return result_.cell(row_, column);
  }

  const TextResult& result_;
  std::size_t row_ = 0;
};

/// Null for null.
std::optional<std::string> encoded(const Arg& arg) {
  std::string text;
  if (arg.is_column) {
    postgres::append_array_literal(text, arg);
  } else if (arg.value.index() == 0) {
    return {};
  } else {
    postgres::append_text(text, arg.value);
  }
  return text;
}

void deliver(const TextResult& result, RowSink rows) {
  Cells row{result};
  for (std::size_t i = 0; i < result.rows(); ++i) {
    row.move_to(i);
    rows(row);
  }
}

std::size_t row_count(const TextResult& result) {
  return result.columns() > 0 ? result.rows() : result.changed();
}

/// `ERROR:  duplicate key …` becomes `duplicate key …`.
std::string without_severity(std::string line) {
  const auto end = line.find(":  ");
  return end == std::string::npos || line.find(' ') < end ? line : line.substr(end + 3);
}

}  // namespace

PostgresTextSession::TextResult::~TextResult() = default;

std::unique_ptr<PostgresTextSession::TextResult> PostgresTextSession::run_step(
    const std::string& sql, std::span<const std::string> names, std::span<const Arg> args) {
  std::vector<std::optional<std::string>> texts;
  texts.reserve(names.size());
  std::vector<const char*> values;
  values.reserve(names.size());
  for (const auto& name : names) {
    const auto& text = texts.emplace_back(encoded(postgres::argument(args, name, statement_)));
    values.push_back(text ? text->c_str() : nullptr);
  }
  return run(sql, values);
}

std::size_t PostgresTextSession::execute(const Statement& statement, std::span<const Arg> args,
                                         RowSink rows) {
  statement_ = statement.name;
  ours_ = true;
  const std::span<const Step> steps = statement.call.empty() ? statement.steps : statement.call;
  std::vector<std::unique_ptr<TextResult>> results;
  for (const auto& step : steps) results.push_back(run_step(step.sql, step.params, args));
  for (const auto& result : results) deliver(*result, rows);
  return results.empty() ? 0 : row_count(*results.back());
}

std::size_t PostgresTextSession::execute_text(std::string_view sql, std::span<const Arg> args,
                                              RowSink rows) {
  statement_ = "execute";
  ours_ = false;
  const auto [text, names] = rewrite_parameters(sql, Dialect::postgres);
  const auto result = run_step(text, names, args);
  deliver(*result, rows);
  return row_count(*result);
}

DatabaseError PostgresTextSession::error(std::string_view sqlstate,
                                         std::string_view message) const {
  // The first line only: later lines may contain values (DETAIL) or the statement itself.
  const postgres::ServerError server_error{std::string{sqlstate},
                                           without_severity(postgres::first_line(message))};
  const auto kind = sqlstate.empty() ? DatabaseError::Kind::other : postgres::kind_of(sqlstate);
  return postgres::failure(kind, statement_, server_error, "", ours_);
}

DatabaseError PostgresTextSession::error(DatabaseError::Kind kind, std::string_view message) const {
  return postgres::failure(kind, statement_, {"", without_severity(postgres::first_line(message))},
                           "", ours_);
}

}  // namespace twinbox
