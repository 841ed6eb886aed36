// The result of one statement.
#pragma once

#include <memory>

#include <libpq-fe.h>

#include "driver/postgres/failure.hpp"
#include "twinbox/session.hpp"

namespace twinbox::postgres {

struct ClearResult {
  void operator()(PGresult* result) const noexcept { PQclear(result); }
};
using Result = std::unique_ptr<PGresult, ClearResult>;

enum class Format { text = 0, binary = 1 };

/// How many rows it returned, or changed when it returned none.
std::size_t row_count(const PGresult* result);

/// Hands the rows to `sink`, one after the other.
void deliver(const PGresult* result, RowSink sink);

/// The server's error, or libpq's without one from the server.
ServerError server_error_of(const PGresult* result);

}  // namespace twinbox::postgres
