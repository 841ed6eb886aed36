// Connects to the server and prepares the connection.
#pragma once

#include <chrono>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

#include <libpq-fe.h>

#include "driver/postgres/address.hpp"
#include "driver/postgres/result.hpp"

namespace twinbox::postgres {

struct FinishConnection {
  void operator()(PGconn* connection) const noexcept { PQfinish(connection); }
};
using Handle = std::unique_ptr<PGconn, FinishConnection>;

/// Of several hosts, and of several addresses of a host, the last working one is tried first. Each
/// may take as long as `connect_timeout`, and no longer than `limit` (zero: none). Throws
/// DatabaseError, kind `cancelled` when a stop is requested.
Handle connect_to(const Address& address, std::chrono::milliseconds limit,
                  const std::stop_token& stop = {});

/// The error text for a server that has not answered within `limit`.
std::string no_answer_within(std::chrono::milliseconds limit);

/// A query on a connection without a pipeline.
struct Query {
  std::string sql;
  std::string_view action;  ///< the purpose, for errors
  std::string_view where;
  std::chrono::milliseconds limit{0};  ///< of the wait for each part of the answer; zero: none
};

/// The last answer. An error leaves the connection usable. Throws DatabaseError, kind `cancelled`
/// when a stop is requested.
Result run_query(PGconn* connection, const Query& query, const std::stop_token& stop);

/// A pooler answers a login itself, with a process number of its own. Throws as run_query().
bool is_behind_a_pooler(PGconn* connection, std::string_view action, std::string_view where,
                        std::chrono::milliseconds limit, const std::stop_token& stop);

}  // namespace twinbox::postgres
