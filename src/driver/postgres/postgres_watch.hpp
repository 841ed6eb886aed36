// LISTEN on a connection of its own.
#pragma once

#include <memory>
#include <stop_token>

#include "database/watch.hpp"
#include "driver/postgres/address.hpp"
#include "sql/notify_channel.hpp"

namespace twinbox::postgres {

/// The address for a watch: shorter timeouts, and keepalive for a server that vanished.
Address watch_address(Address address);

/// Throws DatabaseError; WatchImpossible behind a pooler, even if the address does not mention it.
std::unique_ptr<Watch> open_postgres_watch(const Address& address, const NotifyChannel& channel,
                                           const std::stop_token& stop);

}  // namespace twinbox::postgres
