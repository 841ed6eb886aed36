// Makes a connection to the server.
#pragma once

#include <memory>
#include <stop_token>

#include <libpq-fe.h>

#include "driver/postgres/address.hpp"

namespace twinbox::postgres {

struct FinishConnection {
  void operator()(PGconn* connection) const noexcept { PQfinish(connection); }
};
using Handle = std::unique_ptr<PGconn, FinishConnection>;

/// Throws DatabaseError, kind `cancelled` when a stop is requested (of several hosts: after that
/// attempt).
Handle connect_to(const Address& address, const std::stop_token& stop = {});

}  // namespace twinbox::postgres
