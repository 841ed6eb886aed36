// PostgreSQL's text form of values, both ways. No client library is needed for it.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "twinbox/session.hpp"

namespace twinbox::postgres {

/// Seconds from 1970-01-01 to PostgreSQL's own epoch, 2000-01-01.
inline constexpr std::int64_t epoch_offset = 946'684'800;

/// Appends a value as PostgreSQL reads it; bytes as `\x…`. The value is not null.
/// Throws DatabaseError (invalid_request) for text with a NUL byte, which PostgreSQL cannot hold.
void append_text(std::string& out, const Value& value);

/// Appends a column as an array literal: `{1,NULL,"a b"}`.
void append_array_literal(std::string& out, const Arg& column);

/// Throws std::logic_error unless each element of the column is null or of the column's type.
void check_column(const Arg& column);

/// The argument called `name`. Throws std::invalid_argument when there is none.
const Arg& argument(std::span<const Arg> args, std::string_view name, std::string_view statement);

/// The text form read back; empty when it is not such a value.
std::optional<std::int64_t> read_integer(std::string_view text);
std::optional<double> read_real(std::string_view text);
std::optional<bool> read_boolean(std::string_view text);
std::optional<Instant> read_instant(std::string_view text);    ///< ISO, any offset; none means UTC
std::optional<std::string> read_bytes(std::string_view text);  ///< hex or escape
std::optional<Uuid> read_uuid(std::string_view text);

/// One row in text form: the common part of every text result, whatever the origin of its cells.
class TextRow : public Row {
 public:
  [[nodiscard]] bool is_null(int column) const final { return !cell(column).has_value(); }
  [[nodiscard]] std::int64_t integer(int column) const final;
  [[nodiscard]] double real(int column) const final;
  [[nodiscard]] bool boolean(int column) const final;
  [[nodiscard]] std::string_view text(int column) const final;
  [[nodiscard]] std::string_view bytes(int column) const final;
  [[nodiscard]] Instant instant(int column) const final;
  [[nodiscard]] Uuid uuid(int column) const final;

 protected:
  ~TextRow() = default;
  /// Empty for null. Throws std::out_of_range when there is no such column.
  [[nodiscard]] virtual std::optional<std::string_view> cell(int column) const = 0;
  /// Drops the decoded values of the previous row.
  void next_row() { decoded_.clear(); }

 private:
  mutable std::deque<std::string>
      decoded_;  // views of its elements are handed out: they must not move
};

}  // namespace twinbox::postgres
