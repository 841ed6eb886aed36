#include "driver/postgres/result.hpp"

#include <bit>
#include <deque>
#include <limits>
#include <optional>
#include <stdexcept>

#include "driver/postgres/oids.hpp"
#include "driver/postgres/text_format.hpp"

namespace twinbox::postgres {
namespace {

std::optional<std::string_view> cell_of(const PGresult* result, int row, int column) {
  if (column < 0 || column >= PQnfields(result)) {
    throw std::out_of_range("column " + std::to_string(column) + " of a result with " +
                            std::to_string(PQnfields(result)) +
                            " columns (they are counted from 0)");
  }
  if (PQgetisnull(result, row, column) != 0) return {};
  return std::string_view{PQgetvalue(result, row, column),
                          static_cast<std::size_t>(PQgetlength(result, row, column))};
}

class TextResultRow final : public TextRow {
 public:
  explicit TextResultRow(const PGresult* result) : result_(result) {}
  void move_to(int row) {
    row_ = row;
    next_row();
  }

 private:
  [[nodiscard]] std::optional<std::string_view> cell(int column) const override {
    return cell_of(result_, row_, column);
  }

  const PGresult* result_;
  int row_ = 0;
};

std::uint64_t big_endian(std::string_view bytes) {
  std::uint64_t number = 0;
  for (const char c : bytes) number = number << 8U | static_cast<unsigned char>(c);
  return number;
}

Instant instant_of(std::int64_t server_micros) {
  std::int64_t micros = 0;
  if (server_micros == std::numeric_limits<std::int64_t>::min()) return Instant::min();
  if (__builtin_add_overflow(server_micros, epoch_offset * 1'000'000, &micros))
    return Instant::max();
  return Instant{std::chrono::microseconds{micros}};
}

class BinaryRow final : public Row {
 public:
  explicit BinaryRow(const PGresult* result) : result_(result) {}
  void move_to(int row) {
    row_ = row;
    decoded_.clear();
  }

  [[nodiscard]] bool is_null(int column) const override { return !cell_of(result_, row_, column); }

  [[nodiscard]] std::int64_t integer(int column) const override {
    const auto value = cell_of(result_, row_, column);
    if (!value) return 0;
    switch (type(column)) {
      case oid::boolean:
      case oid::oid:
      case oid::int8: return static_cast<std::int64_t>(big_endian(*value));
      case oid::int4: return static_cast<std::int32_t>(big_endian(*value));
      case oid::int2: return static_cast<std::int16_t>(big_endian(*value));
      default: refuse(column, "an integer");
    }
  }

  [[nodiscard]] double real(int column) const override {
    const auto value = cell_of(result_, row_, column);
    if (!value) return 0;
    switch (type(column)) {
      case oid::float8: return std::bit_cast<double>(big_endian(*value));
      case oid::float4:
        return double{std::bit_cast<float>(static_cast<std::uint32_t>(big_endian(*value)))};
      default: return static_cast<double>(integer(column));
    }
  }

  [[nodiscard]] bool boolean(int column) const override { return integer(column) != 0; }

  [[nodiscard]] std::string_view text(int column) const override {
    const auto value = cell_of(result_, row_, column);
    if (!value) return {};
    switch (const auto kind = type(column)) {
      case oid::jsonb: return value->substr(1);  // behind the version number
      case oid::boolean: return format(boolean(column));
      case oid::int2:
      case oid::int4:
      case oid::int8:
      case oid::oid: return format(integer(column));
      case oid::float4:
      case oid::float8: return format(real(column));
      case oid::timestamp:
      case oid::timestamptz: return format(instant(column));
      case oid::uuid: return format(uuid(column));
      default:
        // The binary form of an enum, and of most types of an extension that hold text, is its
        // text.
        if (is_text(kind) || kind == oid::bytea || kind >= oid::first_user_defined) return *value;
        refuse(column, "text");
    }
  }

  [[nodiscard]] std::string_view bytes(int column) const override {
    const auto value = cell_of(result_, row_, column);
    if (!value) return {};
    return type(column) == oid::bytea || type(column) == oid::uuid ? *value : text(column);
  }

  [[nodiscard]] Instant instant(int column) const override {
    const auto value = cell_of(result_, row_, column);
    if (!value) return {};
    if (type(column) != oid::timestamptz && type(column) != oid::timestamp)
      refuse(column, "a timestamp");
    return instant_of(static_cast<std::int64_t>(big_endian(*value)));
  }

  [[nodiscard]] Uuid uuid(int column) const override {
    const auto value = cell_of(result_, row_, column);
    Uuid uuid;
    if (!value) return uuid;
    if (is_text(type(column))) {
      const auto parsed = read_uuid(*value);
      if (!parsed) refuse(column, "a uuid");
      return *parsed;
    }
    if (value->size() != uuid.bytes.size()) refuse(column, "a uuid");
    for (std::size_t i = 0; i < uuid.bytes.size(); ++i)
      uuid.bytes[i] = static_cast<std::uint8_t>((*value)[i]);
    return uuid;
  }

 private:
  [[nodiscard]] Oid type(int column) const { return PQftype(result_, column); }

  static bool is_text(Oid type) {
    for (const auto text_type : {oid::text, oid::varchar, oid::bpchar, oid::name, oid::character,
                                 oid::unknown, oid::json, oid::xml}) {
      if (type == text_type) return true;
    }
    return false;
  }

  [[nodiscard]] std::string_view format(const Value& value) const {
    append_text(decoded_.emplace_back(), value);
    return decoded_.back();
  }

  [[noreturn]] void refuse(int column, std::string_view wanted) const {
    throw DatabaseError(DatabaseError::Kind::invalid_request,
                        "column " + std::to_string(column) + " (\"" + PQfname(result_, column) +
                            "\", type " + std::to_string(type(column)) + ") is not " +
                            std::string{wanted} + ": cast it in the statement");
  }

  const PGresult* result_;
  int row_ = 0;
  mutable std::deque<std::string>
      decoded_;  // views of its elements are handed out: they must not move
};

template <class ResultRow>
void deliver_as(const PGresult* result, RowSink sink) {
  ResultRow row{result};
  for (int i = 0; i < PQntuples(result); ++i) {
    row.move_to(i);
    sink(row);
  }
}

std::string field(const PGresult* result, int code) {
  const char* text = PQresultErrorField(result, code);
  return text == nullptr ? std::string{} : std::string{text};
}

}  // namespace

std::size_t row_count(const PGresult* result) {
  if (PQresultStatus(result) == PGRES_TUPLES_OK) return static_cast<std::size_t>(PQntuples(result));
  // libpq has no const form of this call, though it changes nothing.
  const char* changed = PQcmdTuples(const_cast<PGresult*>(result));
  return static_cast<std::size_t>(read_integer(changed).value_or(0));
}

void deliver(const PGresult* result, RowSink sink) {
  if (PQresultStatus(result) != PGRES_TUPLES_OK || PQnfields(result) == 0) return;
  if (PQfformat(result, 0) == static_cast<int>(Format::binary)) {
    deliver_as<BinaryRow>(result, sink);
  } else {
    deliver_as<TextResultRow>(result, sink);
  }
}

ServerError server_error_of(const PGresult* result) {
  ServerError server_error{field(result, PG_DIAG_SQLSTATE), field(result, PG_DIAG_MESSAGE_PRIMARY),
                           field(result, PG_DIAG_MESSAGE_HINT)};
  if (server_error.message.empty()) server_error.message = first_line(PQresultErrorMessage(result));
  return server_error;
}

}  // namespace twinbox::postgres
