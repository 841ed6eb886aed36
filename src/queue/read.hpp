// Columns of a row that may be null.
#pragma once

#include <optional>
#include <string>

#include "twinbox/message.hpp"
#include "twinbox/session.hpp"

namespace twinbox {

template <class T>
std::optional<T> maybe_named(const Row& row, int column) {
  if (row.is_null(column)) return std::nullopt;
  return T{std::string{row.text(column)}, Unchecked{}};
}

inline std::string text_or_empty(const Row& row, int column) {
  return row.is_null(column) ? std::string{} : std::string{row.text(column)};
}

inline std::optional<std::string> maybe_text(const Row& row, int column) {
  if (row.is_null(column)) return std::nullopt;
  return std::string{row.text(column)};
}

inline std::optional<Instant> maybe_instant(const Row& row, int column) {
  if (row.is_null(column)) return std::nullopt;
  return row.instant(column);
}

inline std::optional<Uuid> maybe_uuid(const Row& row, int column) {
  if (row.is_null(column)) return std::nullopt;
  return row.uuid(column);
}

inline std::optional<ContentHash> maybe_hash(const Row& row, int bytes, int algorithm) {
  if (row.is_null(bytes)) return std::nullopt;
  return ContentHash{std::string{row.bytes(bytes)}, text_or_empty(row, algorithm)};
}

}  // namespace twinbox
