#include "driver/postgres/parameters.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <stdexcept>

#include "driver/postgres/oids.hpp"
#include "driver/postgres/text_format.hpp"
#include "twinbox/error.hpp"

namespace twinbox::postgres {
namespace {

/// PostgreSQL takes no value of 1 GiB or more.
constexpr std::size_t largest = 0x3fff'ffff;

struct ArrayType {
  Oid array;
  Oid element;
};

ArrayType array_type(ValueType type) {
  switch (type) {
    case ValueType::boolean: return {oid::boolean_array, oid::boolean};
    case ValueType::integer: return {oid::int8_array, oid::int8};
    case ValueType::real: return {oid::float8_array, oid::float8};
    case ValueType::text: return {oid::text_array, oid::text};
    case ValueType::bytes: return {oid::bytea_array, oid::bytea};
    case ValueType::instant: return {oid::timestamptz_array, oid::timestamptz};
    case ValueType::uuid: return {oid::uuid_array, oid::uuid};
  }
  throw std::logic_error("a column of an unknown type");
}

void append_int32(std::string& out, std::uint32_t number) {
  for (const unsigned shift : {24U, 16U, 8U, 0U}) out += static_cast<char>(number >> shift & 0xffU);
}

void append_int64(std::string& out, std::uint64_t number) {
  append_int32(out, static_cast<std::uint32_t>(number >> 32U));
  append_int32(out, static_cast<std::uint32_t>(number));
}

std::int64_t server_micros(Instant instant) {
  if (instant == Instant::max()) return std::numeric_limits<std::int64_t>::max();
  if (instant == Instant::min()) return std::numeric_limits<std::int64_t>::min();
  std::int64_t micros = 0;
  const auto since_1970 = instant.time_since_epoch().count();
  // Before PostgreSQL's calendar begins: the server refuses the value that stands for it.
  if (__builtin_sub_overflow(since_1970, epoch_offset * 1'000'000, &micros))
    return std::numeric_limits<std::int64_t>::min() + 1;
  return micros;
}

/// The binary form of one array element, its length first.
struct AppendElement {
  std::string& out;

  void operator()(std::monostate) const { append_int32(out, 0xffff'ffffU); }
  void operator()(bool value) const {
    append_int32(out, 1);
    out += value ? '\1' : '\0';
  }
  void operator()(std::int64_t value) const {
    append_int32(out, 8);
    append_int64(out, static_cast<std::uint64_t>(value));
  }
  void operator()(double value) const {
    append_int32(out, 8);
    append_int64(out, std::bit_cast<std::uint64_t>(value));
  }
  void operator()(std::string_view value) const {
    append_int32(out, static_cast<std::uint32_t>(value.size()));
    out += value;
  }
  void operator()(Bytes value) const { (*this)(value.data); }
  void operator()(Instant value) const { (*this)(server_micros(value)); }
  void operator()(const Uuid& value) const {
    append_int32(out, 16);
    for (const auto byte : value.bytes) out += static_cast<char>(byte);
  }
};

std::size_t element_size(const Value& value) {
  if (const auto* text = std::get_if<std::string_view>(&value)) return 4 + text->size();
  if (const auto* bytes = std::get_if<Bytes>(&value)) return 4 + bytes->data.size();
  return 20;
}

[[noreturn]] void refuse_size(std::string_view what) {
  throw DatabaseError(
      DatabaseError::Kind::invalid_request,
      std::string{what} + " of 1 GiB or more cannot be sent to PostgreSQL: send less in one call",
      "54000");
}

}  // namespace

Parameters::Parameters(std::span<const std::string> names, std::span<const Arg> args,
                       std::string_view statement, Oid bytes_type, Columns columns) {
  types_.reserve(names.size());
  values_.reserve(names.size());
  lengths_.reserve(names.size());
  formats_.reserve(names.size());
  buffers_.reserve(names.size());
  for (const auto& name : names) {
    const auto& arg = argument(args, name, statement);
    if (arg.is_column && columns == Columns::scalars) {
      add_only(arg);
    } else if (arg.is_column) {
      add_column(arg, columns);
    } else {
      add_scalar(arg.value, bytes_type);
    }
  }
}

void Parameters::add_scalar(const Value& value, Oid bytes_type) {
  if (value.index() == 0) {
    add(0, nullptr, 0, 0);
  } else if (const auto* bytes = std::get_if<Bytes>(&value)) {
    // A null pointer would be a null.
    add(bytes_type, bytes->data.data() == nullptr ? "" : bytes->data.data(), bytes->data.size(), 1);
  } else {
    auto& text = buffers_.emplace_back();
    append_text(text, value);
    add(0, text.c_str(), text.size(), 0);
  }
}

void Parameters::add_only(const Arg& column) {
  check_column(column);
  const Value& value = column.column.front();
  if (const auto* text = std::get_if<std::string_view>(&value)) {
    add(0, text->data() == nullptr ? "" : text->data(), text->size(), 1);
  } else {
    add_scalar(value, 0);
  }
}

void Parameters::add_column(const Arg& column, Columns columns) {
  check_column(column);
  const auto type = array_type(column.type);
  std::size_t size = 20;
  std::size_t nulls = 0;
  for (const auto& value : column.column) {
    size += element_size(value);
    if (value.index() == 0) ++nulls;
  }
  if (columns == Columns::sparse_arrays && nulls > 0 && nulls == column.column.size()) {
    add(type.array, nullptr, 0, 1);
    return;
  }
  if (size > largest) refuse_size("a column");
  auto& array = buffers_.emplace_back();
  array.reserve(size);
  append_int32(array, column.column.empty() ? 0 : 1);
  append_int32(array, nulls > 0 ? 1 : 0);
  append_int32(array, type.element);
  if (!column.column.empty()) {
    append_int32(array, static_cast<std::uint32_t>(column.column.size()));
    append_int32(array, 1);
  }
  for (const auto& value : column.column) std::visit(AppendElement{array}, value);
  add(type.array, array.data(), array.size(), 1);
}

void Parameters::add(Oid type, const char* value, std::size_t length, int format) {
  if (length > largest) refuse_size("a value");
  types_.push_back(type);
  values_.push_back(value);
  lengths_.push_back(static_cast<int>(length));
  formats_.push_back(format);
}

StatementForm StatementForm::of(const Statement& statement, std::span<const Arg> args,
                                bool may_set_planner) {
  constexpr std::size_t one = 128;
  constexpr std::size_t call = 192;
  if (!may_set_planner && !statement.call.empty()) return {.steps = statement.call, .number = call};
  const bool single = std::ranges::all_of(
      args, [](const Arg& arg) { return !arg.is_column || arg.column.size() == 1; });
  if (single && !statement.one.empty())
    return {.steps = statement.one, .columns = Columns::scalars, .number = one};
  return {.steps = statement.steps};
}

}  // namespace twinbox::postgres
