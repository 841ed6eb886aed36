// The .sql files of a dialect, built into the library.
#pragma once

#include <span>
#include <string_view>

#include "twinbox/session.hpp"

namespace twinbox {

struct SqlFile {
  std::string_view path;  ///< relative to sql/<dialect>/, such as `schema/0001_tables.sql`
  std::string_view text;
};

/// Every file of the dialect, sorted by path. The texts live as long as the program.
std::span<const SqlFile> embedded_sql(Dialect dialect);

}  // namespace twinbox
