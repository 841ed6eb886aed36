// PostgreSQL's binary form of the values that the hand-written loops send and read.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <libpq-fe.h>

#include "twinbox/environment.hpp"
#include "twinbox/ids.hpp"

namespace twinbox::bench::wire {

constexpr Oid bytea = 17, int8 = 20, int4 = 23, text = 25, timestamptz = 1184;
constexpr Oid uuid = 2950;

/// From 1970 to 2000, where PostgreSQL's time begins.
constexpr std::int64_t epoch_micros = 946'684'800'000'000;

inline void put32(std::string& out, std::uint32_t number) {
  const char bytes[] = {static_cast<char>(number >> 24U), static_cast<char>(number >> 16U),
                        static_cast<char>(number >> 8U), static_cast<char>(number)};
  out.append(bytes, sizeof bytes);
}

inline void put64(std::string& out, std::int64_t number) {
  put32(out, static_cast<std::uint32_t>(static_cast<std::uint64_t>(number) >> 32U));
  put32(out, static_cast<std::uint32_t>(number));
}

inline std::int64_t get(std::string_view bytes) {
  std::uint64_t number = 0;
  for (const char c : bytes) number = number << 8U | static_cast<unsigned char>(c);
  return static_cast<std::int64_t>(number);
}

/// An array of one dimension.
class Array {
 public:
  Array(Oid element, std::size_t count, std::size_t bytes_each) {
    out_.reserve(head + count * (4 + bytes_each));
    put32(out_, 1);
    put32(out_, 1);  // nulls are allowed
    put32(out_, element);
    put32(out_, static_cast<std::uint32_t>(count));
    put32(out_, 1);
  }
  void add_null() { put32(out_, null); }
  void add(std::string_view bytes) {
    put32(out_, static_cast<std::uint32_t>(bytes.size()));
    out_.append(bytes);
  }
  void add(std::int64_t number) {
    put32(out_, 8);
    put64(out_, number);
  }
  void add(std::int32_t number) {
    put32(out_, 4);
    put32(out_, static_cast<std::uint32_t>(number));
  }
  void add(const std::optional<InstantArg>& instant) {
    instant ? add(std::int64_t{Instant{*instant}.time_since_epoch().count()} - epoch_micros)
            : add_null();
  }
  void add(const std::optional<std::string>& maybe) {
    maybe ? add(std::string_view{*maybe}) : add_null();
  }
  template <class Name>
  void add(const std::optional<Name>& maybe) {
    maybe ? add(maybe->view()) : add_null();
  }
  [[nodiscard]] const std::string& bytes() const noexcept { return out_; }
  /// The first element; empty: null.
  [[nodiscard]] std::optional<std::string_view> only() const {
    const std::string_view element = std::string_view{out_}.substr(head);
    const auto length = static_cast<std::uint32_t>(get(element.substr(0, 4)));
    if (length == null) return std::nullopt;
    return element.substr(4, length);
  }

 private:
  static constexpr std::size_t head = 20;
  static constexpr std::uint32_t null = 0xffff'ffffU;

  std::string out_;
};

struct Clear {
  void operator()(PGresult* result) const noexcept { PQclear(result); }
};
using Result = std::unique_ptr<PGresult, Clear>;

/// Reads the cells of a binary result.
class Cells {
 public:
  explicit Cells(const PGresult* result) : result_(result) {}
  int row = 0;

  [[nodiscard]] int rows() const { return PQntuples(result_); }
  [[nodiscard]] bool is_null(int column) const { return PQgetisnull(result_, row, column) != 0; }
  [[nodiscard]] std::string_view bytes(int column) const {
    return {PQgetvalue(result_, row, column),
            static_cast<std::size_t>(PQgetlength(result_, row, column))};
  }
  [[nodiscard]] std::string text(int column) const { return std::string{bytes(column)}; }
  [[nodiscard]] std::int64_t integer(int column) const { return get(bytes(column)); }
  [[nodiscard]] int number(int column) const { return static_cast<int>(integer(column)); }
  [[nodiscard]] Instant instant(int column) const {
    return Instant{std::chrono::microseconds{integer(column) + epoch_micros}};
  }
  [[nodiscard]] std::optional<std::string> maybe_text(int column) const {
    return is_null(column) ? std::nullopt : std::optional{text(column)};
  }
  [[nodiscard]] std::optional<Instant> maybe_instant(int column) const {
    return is_null(column) ? std::nullopt : std::optional{instant(column)};
  }

 private:
  const PGresult* result_;
};

}  // namespace twinbox::bench::wire
